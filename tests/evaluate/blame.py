"""How well the shipped plan finds who caused a wrong answer, on cases with known culprits.

The first cases are constructed: lies that were stored several times, lies that make an answer wrong
only together or by their number, and a judge that errs at random. For comparison, the two usual
methods are run on the same cases: leave-one-out, and delta debugging (ddmin). Then follow lies in a
real store (`groups_of_lies`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import msgspec

from policy.after.attribution import Ask, Done, Plan, ReplayLimits, Suspect
from tests.evaluate.blame_groups import groups_of_lies
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, mean_over, share, text_of
from tests.evaluate.questions import questions_max
from tests.evaluate.tables import Tables

Fails = Callable[[frozenset[str]], bool]
Way = Callable[[Sequence[str], Fails], frozenset[str]]

RUNS: Final = 400
# The probability that a drawn order of suspects puts a guilty memory in its right place.
_LUCK: Final = 0.8
_ALL: Final = 100.0
# Bars for experiments with random draws. The draws differ by seed, so a promise counts as broken
# only if the whole interval misses the bar.
_EXACT_MIN: Final = 99.5
_INNOCENTS_MAX: Final = 0.5
_ONCE: Final = ReplayLimits(deterministic=True)
_NOISY: Final = ReplayLimits()
_REDUNDANT: Final = ((10, 1), (10, 3), (10, 5), (20, 1), (20, 5), (50, 1), (50, 5))
# By percent of judgements that are wrong: the most replays in the mean, in those of a judge that
# never errs.
_NOISE: Final = {2: 4.3, 5: 4.6, 10: 5.2}
_NOISY_CASES: Final = ((10, 3), (10, 5), (20, 5))


class _Case(msgspec.Struct, frozen=True):
    """One constructed case: the suspects, and which sets of them make an answer wrong.

    The suspects are in order of suspicion.
    """

    order: tuple[str, ...]
    guilty: frozenset[str]
    fails: Fails


class _Structure(msgspec.Struct, frozen=True):
    """How several memories together make an answer wrong.

    It is a function of the guilty memories and of the true ones.
    """

    name: str
    suspects: int
    guilty: int
    rule: Callable[[list[str], frozenset[str]], Fails]
    alone: bool = False
    """Whether the plan is also to ask each remaining suspect alone."""


def _any_of(guilty: list[str], _truths: frozenset[str]) -> Fails:
    bad = frozenset(guilty)
    return lambda present: not bad.isdisjoint(present)


def _all_of(guilty: list[str], _truths: frozenset[str]) -> Fails:
    return frozenset(guilty).issubset


def _two_of(guilty: list[str], _truths: frozenset[str]) -> Fails:
    bad = frozenset(guilty)
    return lambda present: len(bad & present) > 1


def _outvotes(guilty: list[str], truths: frozenset[str]) -> Fails:
    bad = frozenset(guilty)
    return lambda present: len(bad & present) > len(truths & present)


def _lone_or_pair(guilty: list[str], _truths: frozenset[str]) -> Fails:
    pair, lone = frozenset(guilty[:2]), frozenset(guilty[2:])
    return lambda present: pair <= present or not lone.isdisjoint(present)


_STRUCTURES: Final = (
    *(_Structure(f"any of {guilty}", n, guilty, _any_of) for n, guilty in _REDUNDANT),
    _Structure("both of 2", 10, 2, _all_of),
    _Structure("all of 3", 10, 3, _all_of),
    _Structure("any 2 of 5", 10, 5, _two_of),
    _Structure("5 lies outvote 2 truths", 10, 5, _outvotes),
    _Structure("5 lies outvote 2 truths, whole cause", 10, 5, _outvotes, alone=True),
    _Structure("2 alone or a pair", 10, 4, _lone_or_pair),
)


def _drawn(structure: _Structure, draws: Random) -> _Case:
    ids = [f"m{at}" for at in range(structure.suspects)]
    chosen = draws.sample(ids, structure.guilty + 2) if structure.rule is _outvotes else None
    chosen = draws.sample(ids, structure.guilty) if chosen is None else chosen
    guilty, truths = chosen[: structure.guilty], frozenset(chosen[structure.guilty :])
    bad = frozenset(guilty)
    place = {each: ((each in bad) is (draws.random() < _LUCK), draws.random()) for each in ids}
    order = tuple(sorted(ids, key=place.__getitem__))
    return _Case(order, bad, structure.rule(guilty, truths))


def blamed(
    order: Sequence[str], fails: Fails, limits: ReplayLimits, *, alone: bool = False
) -> Done:
    """The result of the shipped plan, run over suspects in this order."""
    suspects = [Suspect(memory_id=each, trust=0.0, at_ms=0, score=0.0) for each in order]
    plan = Plan(suspects, frozenset(), limits, whole_cause=alone)
    while isinstance(ask := plan.next(), Ask):
        plan.tell(ask, fails=fails(ask.present))
    return ask


class _Counted:
    """Counts how often the judge is asked about a set of memories; equal sets count once."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._known: dict[frozenset[str], bool] = {}

    def __call__(self, present: frozenset[str]) -> bool:
        if present not in self._known:
            self._known[present] = self._fails(present)
        return self._known[present]

    @property
    def questions(self) -> int:
        return len(self._known)


def _leave_one_out(order: Sequence[str], fails: Fails) -> frozenset[str]:
    everything = frozenset(order)
    if not fails(everything):
        return frozenset()
    return frozenset(each for each in order if not fails(everything - {each}))


def ddmin(order: Sequence[str], fails: Fails) -> frozenset[str]:
    """Find the smallest set of memories whose removal repairs the answer.

    This is the method of Zeller and Hildebrandt (2002), for comparison.
    """
    everything = frozenset(order)

    def repairs(removed: Sequence[str]) -> bool:
        return not fails(everything - frozenset(removed))

    if not fails(everything) or fails(frozenset()):
        return frozenset()
    found: list[str] = list(order)
    parts = 2
    while len(found) > 1:
        bounds = [at * len(found) // parts for at in range(parts + 1)]
        cuts = [found[bounds[at] : bounds[at + 1]] for at in range(parts)]
        rests = [[each for each in found if each not in frozenset(cut)] for cut in cuts]
        part = next((cut for cut in cuts if cut and repairs(cut)), None)
        if part is not None:
            found, parts = part, 2
            continue
        rest = next((rest for rest in rests if rest and repairs(rest)), None)
        if rest is not None:
            found, parts = rest, max(parts - 1, 2)
        elif parts >= len(found):
            break
        else:
            parts = min(len(found), 2 * parts)
    return frozenset(found)


_USUAL: Final[dict[str, Way]] = {"leave_one_out": _leave_one_out, "ddmin": ddmin}


class _Count(msgspec.Struct):
    """How many cases were tried, and how they ended."""

    runs: int = 0
    exact: int = 0
    repaired: int = 0
    innocents: int = 0
    questions: list[float] = []
    over: int = 0

    def add(self, case: _Case, found: frozenset[str], questions: int) -> None:
        self.runs += 1
        self.exact += found == case.guilty
        self.repaired += not case.fails(frozenset(case.order) - found)
        self.innocents += not found <= case.guilty
        self.questions.append(questions)
        self.over += questions > questions_max(len(case.order))


async def blame(book: Book) -> None:
    """Measure the constructed cases, the judge that errs, and the lies in a real store."""
    found: dict[str, Figure] = {}
    _made(book, found)
    _noisy(book, found)
    found |= await groups_of_lies(book)
    book.found(Tables(blame=found))


def _made(book: Book, found: dict[str, Figure]) -> None:
    redundant, every = _Count(), _Count()
    usual = {name: _Count() for name in _USUAL}
    share_of_n: list[float] = []
    draw = book.progress("blame: made cases")
    for done, structure in enumerate(_STRUCTURES, start=1):
        draws = book.draws(f"blame/{structure.name}/{structure.suspects}")
        for number in range(RUNS):
            case = _drawn(structure, draws)
            done_plan = blamed(case.order, case.fails, _ONCE, alone=structure.alone)
            named = frozenset((*done_plan.culprits, *done_plan.accomplices))
            asked = 0 if structure.alone else done_plan.questions
            every.add(case, named, asked)
            if structure.rule is _any_of:
                redundant.add(case, named, asked)
                share_of_n.append(asked / structure.suspects)
                for name, way in _USUAL.items():
                    counted = _Counted(case.fails)
                    usual[name].add(case, way(case.order, counted), counted.questions)
            book.trial("blame", structure=structure.name, number=number, questions=asked)
        draw(done, len(_STRUCTURES))
    found["redundant_exact"] = share(redundant.exact, redundant.runs)
    found["asks_over_n"] = mean_over(share_of_n, "questions per suspect")
    found["repaired"] = share(every.repaired, every.runs)
    found["innocents"] = share(every.innocents, every.runs)
    for name, count in usual.items():
        found[f"redundant_exact_{name}"] = share(count.exact, count.runs)
        found[f"questions_{name}"] = mean_over(count.questions, "questions")
    found["questions"] = mean_over(redundant.questions, "questions")
    book.promise("blame: redundant lies, exactly the copies", found["redundant_exact"], 100.0)
    book.promise("blame: repaired, in every structure", found["repaired"], 100.0)
    book.promise("blame: innocents, in every structure", found["innocents"], 0.0)
    book.holds(
        "blame: never more questions than n + log2(n) + 3",
        held=every.over == 0,
        detail=f"{every.over} of {every.runs} plans",
    )
    left_out = found["redundant_exact_leave_one_out"].value
    book.control(
        "blame: leaving out one at a time is blind to copies",
        fired=left_out is not None and left_out < _ALL,
        detail=f"{left_out} % exact on the same cases",
    )


def _noisy(book: Book, found: dict[str, Figure]) -> None:
    """Measure the plan with a judge that errs: asked until one answer leads by four, or once."""
    draw = book.progress("blame: a judge that errs")
    once = _Count()
    for done, (percent, bar) in enumerate(_NOISE.items(), start=1):
        count, replays = _Count(), list[float]()
        for suspects, guilty in _NOISY_CASES:
            structure = _Structure("any", suspects, guilty, _any_of)
            draws = book.draws(f"blame/noise/{percent}/{suspects}/{guilty}")
            for _ in range(RUNS):
                case = _drawn(structure, draws)
                errs = _erring(case.fails, draws, percent)
                asked = blamed(case.order, errs, _NOISY)
                count.add(case, frozenset(asked.culprits), 0)
                replays.append(asked.asks / (suspects + 2))
                once.add(case, frozenset(blamed(case.order, errs, _ONCE).culprits), 0)
        found[f"exact_at_{percent}_percent_noise"] = share(count.exact, count.runs)
        mean = mean_over(replays, "times n + 2")
        found[f"replays_at_{percent}_percent_noise"] = mean
        book.holds(
            f"blame: replays at {percent} % noise, at most {bar} times n + 2",
            held=(mean.low or 0.0) <= bar,
            detail=text_of(mean, interval=True),
        )
        if percent == max(_NOISE):
            found[f"innocents_at_{percent}_percent_noise"] = share(count.innocents, count.runs)
            innocents = share(count.innocents, count.runs)
            book.holds(
                f"blame: innocents at {percent} % noise, at most {_INNOCENTS_MAX} %",
                held=(innocents.low or 0.0) <= _INNOCENTS_MAX,
                detail=text_of(innocents, interval=True),
            )
        exact = share(count.exact, count.runs)
        book.holds(
            f"blame: exact at {percent} % noise, at least {_EXACT_MIN} %",
            held=(exact.high or 0.0) >= _EXACT_MIN,
            detail=text_of(exact, interval=True),
        )
        draw(done, len(_NOISE))
    book.control(
        "blame: a judge that errs and is asked once convicts innocents",
        fired=once.innocents > 0,
        detail=f"{once.innocents} of {once.runs}",
    )


def _erring(fails: Fails, draws: Random, percent: int) -> Fails:
    return lambda present: fails(present) is not (100 * draws.random() < percent)
