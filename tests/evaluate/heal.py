"""Whether a lie that a registered statement contradicts reaches an agent, and what comes next.

Four kinds of wrong memories stand among honest notes, in stores of three sizes: one lie, four
copies of a lie, a lie and a note that was derived from it, and what was true once. All are stored
before the truth is registered: a later write of them would be held.

The same cases are met in a second way, for comparison: every read shows what it finds, and after
each wrong answer the smallest set of memories that explains it is searched for by delta debugging,
and put under quarantine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from proxy.admin.wire.incidents import IncidentList
from proxy.admin.wire.registered import AnchorRequest
from proxy.admin.wire.upkeep import QuarantinedList, QuarantineRequest
from proxy.dialects.strict_json.strict import JsonValue
from tests.evaluate.attacks import Broken
from tests.evaluate.blame import ddmin
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, mean_over, share
from tests.evaluate.made_up import number_of, subject
from tests.evaluate.model import ScriptedModel, asked, scripted_model, tables, turn
from tests.evaluate.systems import ADMITTED, BY_NAME, Bench, Extras, running
from tests.evaluate.tables import Tables
from tests.evaluate.wire import Question, Write

SIZES: Final = (50, 200, 800)
"""Honest notes in a store, one store for each size."""
CASES_MAX: Final = 5
"""Cases of each kind, in each store."""
KINDS: Final = ("single", "redundant", "cascade", "rot")
_API: Final = "anthropic"
_OK: Final = 200
_SHOWN: Final = 3
_WRONG_ANSWERS_MAX: Final = 5
_ENDED_S: Final = 60.0
_OLD: Final = 66
_NEW: Final = 11
_COPIES: Final = (
    "The {} is {}.",
    "Since the move the {} is {}.",
    "As the desk says, the {} is {}.",
    "Note for everybody: the {} is {}.",
)
_ANSWERS: Final = '[after]\nheal = "answer"\ncanary_seconds = 0\n'
_HEALS: Final = '[after]\nheal = "next"\ncanary_seconds = 0\n'
# What a rule finds is proposed only, so that nothing but the compared way hides a memory.
_SHOWS: Final = '[after]\nheal = "off"\non_conviction = "propose"\ncanary_seconds = 0\n'


class _Hit(msgspec.Struct, frozen=True):
    id: str
    text: str


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A question with a wrong answer in memory.

    `lies` contradict the statement; `wrong` are these and what was derived from them, by id.
    """

    name: str
    kind: str
    question: str
    statement: str
    key: str
    lies: dict[str, str]
    wrong: dict[str, str]


class _Counts(msgspec.Struct):
    """How the cases of one kind ended, in all stores."""

    tried: int = 0
    leaked: int = 0
    leaked_off: int = 0
    healed: int = 0
    healed_usual: int = 0
    next_tried: int = 0
    next_healed: int = 0
    next_off: int = 0
    answer_tried: int = 0
    answer_healed: int = 0
    answer_off: int = 0
    expired: int = 0
    wrong_answers: list[float] = []


class _Honest(msgspec.Struct):
    """How many honest notes there were, and how many of them were hidden."""

    notes: int = 0
    hidden: int = 0


async def heal(book: Book) -> None:
    """Measure both ways in each store, and record what reads and next answers showed."""
    counts = {kind: _Counts() for kind in KINDS}
    honest = _Honest()
    draw = book.progress("heal")
    cases = min(book.trials, CASES_MAX)
    for done, size in enumerate(SIZES):
        async with scripted_model() as model:
            await _healed(model, size, cases, counts, honest)
            draw(3 * done + 1, 3 * len(SIZES))
            await _answered(model, size, cases, counts)
            draw(3 * done + 2, 3 * len(SIZES))
            await _compared(model, size, cases, counts)
            draw(3 * done + 3, 3 * len(SIZES))
    found = _figures(counts, honest)
    book.found(Tables(heal=found))
    never = ("leaked_after_recall", "honest_hidden")
    for name in never:
        book.promise(f"heal: {name}", found[name], 0.0)
    for name in (
        "healed_next",
        "healed_answer",
        "rot_expired",
        *(f"healed_{kind}" for kind in KINDS),
    ):
        book.promise(f"heal: {name}", found[name], 100.0)
    off = found["leaked_heal_off"].value
    book.control("heal: without healing the lie is shown", fired=bool(off), detail=f"{off} %")
    for name in ("healed_next_off", "healed_answer_off"):
        off = found[name].value
        book.control(f"heal: {name}: without healing the answer is wrong", fired=off == 0.0)


def _figures(counts: dict[str, _Counts], honest: _Honest) -> dict[str, Figure]:
    every = tuple(counts.values())
    poison = [count for kind, count in counts.items() if kind != "rot"]
    tried = sum(one.tried for one in every)
    next_tried = sum(one.next_tried for one in poison)
    found = {
        "leaked_after_recall": share(sum(one.leaked for one in every), tried),
        "leaked_heal_off": share(sum(one.leaked_off for one in every), tried),
        "healed_next": share(sum(one.next_healed for one in poison), next_tried),
        "healed_next_off": share(sum(one.next_off for one in poison), next_tried),
        "healed_answer": share(
            sum(one.answer_healed for one in poison), sum(one.answer_tried for one in poison)
        ),
        "healed_answer_off": share(sum(one.answer_off for one in poison), next_tried),
    }
    for kind, one in counts.items():
        found[f"healed_{kind}"] = share(one.healed, one.tried)
        found[f"healed_{kind}_ddmin"] = share(one.healed_usual, one.tried)
        found[f"wrong_answers_{kind}_ddmin"] = mean_over(one.wrong_answers, "answers")
    found["rot_expired"] = share(counts["rot"].expired, counts["rot"].tried)
    found["honest_hidden"] = share(honest.hidden, honest.notes)
    return found


# ---- the cases, in a store -----------------------------------------------------------------------


async def _stored(bench: Bench, cases: int, size: int) -> tuple[list[_Case], dict[str, str]]:
    """Write the honest notes, and twice as many cases of each kind, one after the other."""
    key = await bench.key("heal-notes")
    texts = [f"The {subject(10_000 + at)} is {number_of(at)}." for at in range(size)]
    found: list[_Case] = []
    for number in range(2 * cases * len(KINDS)):
        found.append(await _case(bench, KINDS[number % len(KINDS)], number))
        first = subject(number).split()[0]
        texts.append(f"The {first} of the {subject(20_000 + number)} opens at nine.")
    answers = await bench.written([(key, Write(text=text)) for text in texts])
    honest = {
        one.body.id or "": text
        for one, text in zip(answers, texts, strict=True)
        if one.status in ADMITTED
    }
    return found, honest


async def _case(bench: Bench, kind: str, number: int) -> _Case:
    key = await bench.key(f"heal-{kind}-{number}")
    what = subject(number)
    copies = _COPIES if kind == "redundant" else _COPIES[:1]
    lies = {
        await _landed(bench, key, Write(text=text)): text
        for text in (copy.format(what, _OLD) for copy in copies)
    }
    wrong = dict(lies)
    if kind == "cascade":
        derived = f"Visitors ask for {' or '.join(what.split())} at the small desk."
        parents = tuple(lies)
        wrong[await _landed(bench, key, Write(text=derived, derived_from=parents))] = derived
    statement = f"The {what} is {_NEW}."
    if kind == "rot":
        await _landed(bench, bench.operator_key, Write(text=statement))
    return _Case(
        name=f"{kind}-{number}",
        kind=kind,
        question=f"What is the {what}?",
        statement=statement,
        key=key,
        lies=lies,
        wrong=wrong,
    )


async def _landed(bench: Bench, key: str, body: Write) -> str:
    tried = await bench.write(key, body)
    if tried.status not in ADMITTED or tried.body.id is None:
        raise Broken(f"a write of the comparison was answered {tried.status}")
    return tried.body.id


# ---- as shipped ----------------------------------------------------------------------------------


async def _healed(
    model: ScriptedModel, size: int, cases: int, counts: dict[str, _Counts], honest: _Honest
) -> None:
    config, secret = tables(model)
    async with running(BY_NAME["S4"], Extras(config=config + _HEALS, secret=secret)) as bench:
        stored, notes = await _stored(bench, cases, size)
        half = len(stored) // 2
        for case in stored[:half]:
            count = counts[case.kind]
            count.next_tried += 1
            first, after = await _two_answers(bench, model, case, heals=True)
            count.next_healed += after and not first
        for case in stored[half:]:
            count = counts[case.kind]
            count.tried += 1
            await _anchored(bench, case)
            count.leaked += not case.lies.keys().isdisjoint(await _asked(bench, case))
        await _ended(bench, stored)
        hidden = await _quarantined(bench)
        honest.notes += len(notes)
        honest.hidden += len(hidden & notes.keys())
        for case in stored[half:]:
            count = counts[case.kind]
            right = case.wrong.keys().isdisjoint(await _asked(bench, case))
            count.healed += right
            count.expired += right and hidden.isdisjoint(case.wrong)


async def _two_answers(
    bench: Bench, model: ScriptedModel, case: _Case, *, heals: bool
) -> tuple[bool, bool]:
    """Whether a model's first answer is right, and whether its next request is."""
    body = await _read_before(bench, model, case)
    first = not _wrong(case, await asked(bench, case.key, _API, body))
    if heals:
        await _ended(bench, [case])
    await asked(bench, case.key, _API, body)
    return first, not _wrong(case, model.received[-1])


async def _read_before(bench: Bench, model: ScriptedModel, case: _Case) -> dict[str, JsonValue]:
    """A request whose read of the memory is older than the statement that it contradicts.

    The model repeats what is wrong in it, if it gets that to read.
    """
    read = Question(query=case.question, limit=_SHOWN)
    result = (await bench.call("POST", "/v1/search", case.key, read)).raw.decode()
    model.believes = tuple(case.wrong.values())
    await _anchored(bench, case)
    return turn(_API, case.question, result, stream=False)


def _wrong(case: _Case, said: bytes) -> bool:
    return any(text.encode() in said for text in case.wrong.values())


async def _answered(
    model: ScriptedModel, size: int, cases: int, counts: dict[str, _Counts]
) -> None:
    """Count the answers of a model that are right although its request was not, in a new store."""
    config, secret = tables(model)
    async with running(BY_NAME["S4"], Extras(config=config + _ANSWERS, secret=secret)) as bench:
        stored, _ = await _stored(bench, cases, size)
        for case in stored[: len(stored) // 2]:
            # What was true once expires, and stays in what a conversation read before.
            if case.kind != "rot":
                count = counts[case.kind]
                count.answer_tried += 1
                body = await _read_before(bench, model, case)
                answer = await asked(bench, case.key, _API, body)
                count.answer_healed += b"Done." in answer and not _wrong(case, answer)


async def _ended(bench: Bench, cases: Sequence[_Case]) -> None:
    """Wait until the incident of each of these cases goes no further without a person."""
    waiting = {one.name for one in cases}
    async with asyncio.timeout(_ENDED_S):
        while True:
            raw = (await bench.operate("GET", "/incidents")).raw
            found = msgspec.json.decode(raw, type=IncidentList).wrong_answers
            under_way = {"opened", "reproduced", "convicted"}
            if waiting <= {one.anchor_id for one in found if one.step.value not in under_way}:
                return
            await asyncio.sleep(0.05)


# ---- the compared way ----------------------------------------------------------------------------


async def _compared(
    model: ScriptedModel, size: int, cases: int, counts: dict[str, _Counts]
) -> None:
    config, secret = tables(model)
    async with running(BY_NAME["S4"], Extras(config=config + _SHOWS, secret=secret)) as bench:
        stored, _ = await _stored(bench, cases, size)
        half = len(stored) // 2
        for case in stored[:half]:
            first, after = await _two_answers(bench, model, case, heals=False)
            counts[case.kind].answer_off += first
            counts[case.kind].next_off += after
        for case in stored[half:]:
            await _anchored(bench, case)
            await _healed_usually(bench, case, counts[case.kind])


async def _healed_usually(bench: Bench, case: _Case, count: _Counts) -> None:
    """Answer, look for the cause of a wrong answer, hide it, and answer again."""
    wrong_answers = 0
    while True:
        shown = await _asked(bench, case)
        if wrong_answers == 0:
            count.leaked_off += not case.lies.keys().isdisjoint(shown)
        wrong_answers += not case.wrong.keys().isdisjoint(shown)
        guilty = ddmin(shown, _denying(case))
        if not guilty or wrong_answers == _WRONG_ANSWERS_MAX:
            break
        for memory_id in sorted(guilty):
            path = f"/memories/{memory_id}/quarantine"
            await _operated(bench, path, QuarantineRequest())
    count.healed_usual += case.wrong.keys().isdisjoint(shown)
    count.wrong_answers.append(wrong_answers)


def _denying(case: _Case) -> Callable[[frozenset[str]], bool]:
    """An answer is wrong where a memory in it denies the registered statement."""
    return lambda present: not case.lies.keys().isdisjoint(present)


# ---- what both ways ask --------------------------------------------------------------------------


async def _asked(bench: Bench, case: _Case) -> list[str]:
    """The ids of the memories that an agent is shown for the question."""
    read = Question(query=case.question, limit=_SHOWN)
    answer = await bench.call("POST", "/v1/search", case.key, read)
    return [msgspec.json.decode(one, type=_Hit).id for one in answer.body.results]


async def _anchored(bench: Bench, case: _Case) -> None:
    request = AnchorRequest(
        anchor_id=case.name, statement=case.statement, questions=(case.question,)
    )
    await _operated(bench, "/anchors", request)


async def _quarantined(bench: Bench) -> frozenset[str]:
    raw = (await bench.operate("GET", "/quarantined")).raw
    return frozenset(
        one.memory_id for one in msgspec.json.decode(raw, type=QuarantinedList).memories
    )


async def _operated(bench: Bench, path: str, body: msgspec.Struct) -> None:
    tried = await bench.operate("POST", path, body)
    if tried.status != _OK:
        raise Broken(f"{path} was answered {tried.status}")
