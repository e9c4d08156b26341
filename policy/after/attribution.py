"""The search for the memories that caused a wrong answer, as a plan of replays.

The plan is pure. `Plan.next` names a set of memories; the caller asks the failed question again
with exactly this set present, and reports the outcome. Two controls come first: with all memories
present the answer must be wrong again, and with no suspect present it must be right. Then suspects
are put back one at a time, the most trusted first, and a suspect that makes the answer wrong again
is left out for good. The suspects left out are a 1-minimal correction set: without them the answer
is right, and each of them was seen to make it wrong. Above `BISECT_ABOVE` suspects the first
culprit is found by bisection.

Leaving out one memory at a time, the usual way, misses a lie that was stored twice: without one
copy the other still makes the answer wrong. Delta debugging (Zeller and Hildebrandt, 2002) finds
such copies too, but needs two to four times as many replays where there are several culprits.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from typing import Final

import msgspec

from policy.verdict import InvariantBroken

BISECT_ABOVE: Final = 12
"""Up to this many suspects, one replay for each suspect costs no more than bisection."""


class Control(enum.Enum):
    """A replay that checks the method: with all memories, without suspects, without any memory."""

    EVERYTHING = "everything"
    NO_SUSPECT = "no_suspect"
    NOTHING = "nothing"


class Ending(enum.Enum):
    """How the search for the memories to blame ended."""

    CONVICTED = "convicted"
    NOT_REPRODUCED = "not_reproduced"
    NOT_MEMORY_CAUSED = "not_memory_caused"
    NEEDS_PERSON = "needs_person"


class OpenCause(enum.Enum):
    """Why a search that ended with `NEEDS_PERSON` could not name a culprit."""

    TRUSTED_MEMORY = "trusted_memory"
    """The answer is wrong without suspects, right without memories: a trusted memory is wrong."""
    UNKNOWN = "unknown"
    """A replay had no outcome; a missing outcome blames no memory."""
    UNDECIDED = "undecided"
    """One replay was judged `repeats_max` times, and the judgements still disagree."""
    BUDGET = "budget"
    """The limit of replays was reached before the search was done."""
    TOKENS = "tokens"
    """The next replay would cost more tokens than are left for replays."""


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that may be to blame, with the facts that decide when it is put back.

    `trust` is a number from 0 to 1, `at_ms` is when the memory was written (Unix ms), and `score`
    is the memory's score in the search that led to the wrong answer.
    """

    memory_id: str
    trust: float
    at_ms: int
    score: float


class ReplayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often the same replay is judged, and how many replays there may be.

    A judge that is `deterministic` judges each replay once. Any other judge judges the same replay
    until one of its two answers leads by `lead` judgements, `repeats_max` times at most. At a lead
    of three, a judge that errs one time in ten blames one innocent memory in a hundred; at a lead
    of four, three in a thousand.
    """

    deterministic: bool = False
    lead: int = 4
    repeats_max: int = 21
    asks_max: int = 1_000
    """How many replays there may be in all, repeats included."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a `Plan`: replay the failure with exactly the memories in `present`.

    `control` is set where the question only checks that the replay works.
    """

    present: frozenset[str]
    control: Control | None
    repeat: int
    """How often this set of memories was replayed before."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a `Plan`: which memories are to blame, and how many replays that took."""

    ending: Ending
    open: OpenCause | None = None
    culprits: tuple[str, ...] = ()
    """The memories to blame, in the order found; after `NEEDS_PERSON`, those found until then."""
    accomplices: tuple[str, ...] = ()
    """Suspects not blamed that cause the failure alone; searched for only with `whole_cause`."""
    controls: dict[str, bool]
    """For each control, whether the answer was wrong."""
    questions: int
    """How many distinct sets of memories were replayed, controls included."""
    asks: int
    """How many replays there were, repeats included."""


def believed_first(suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """The suspects in the order of being put back: most trusted, oldest, least similar first.

    Where two memories cause the failure only together, the one that is put back later is blamed. If
    the most similar came first, a lie that was written to match the question would not be blamed.
    """
    return tuple(
        sorted(suspects, key=lambda each: (-each.trust, each.at_ms, each.score, each.memory_id))
    )


class Plan:
    """A sequence of replays, one at a time, until the memories to blame are known. Not thread-safe.

    Args:
        suspects: The memories that may be to blame, as `believed_first` orders them; ids are
            distinct.
        trusted: The memories above suspicion; every replay but `Control.NOTHING` includes them.
        limits: How often the same replay is judged, and how many replays there may be.
        whole_cause: Also replay once for each suspect that was not blamed, with that suspect alone
            beside the trusted memories, to find every memory that alone causes the failure.

    Raises:
        ValueError: A memory is named twice.
    """

    def __init__(
        self,
        suspects: Sequence[Suspect],
        trusted: frozenset[str],
        limits: ReplayLimits,
        *,
        whole_cause: bool = False,
    ) -> None:
        self._ids = tuple(each.memory_id for each in suspects)
        if len(set(self._ids)) < len(self._ids) or trusted.intersection(self._ids):
            raise ValueError("a memory is named twice")
        self._trusted = trusted
        self._limits = limits
        self._whole_cause = whole_cause
        self._known: dict[frozenset[str], bool] = {}
        self._votes: list[bool] = []
        self._asks = 0
        self._culprits: list[str] = []
        self._accomplices: list[str] = []
        self._controls: dict[str, bool] = {}
        self._ending = Ending.NEEDS_PERSON
        self._open: OpenCause | None = None
        self._steps = self._run()
        self._ask: Ask | None = None
        self._advance(outcome=None)

    def next(self) -> Ask | Done:
        """Return the replay to do now, or the end of the search.

        The same replay is returned until its outcome is reported to `tell`.
        """
        if self._ask is not None:
            return self._ask
        return Done(
            ending=self._ending,
            open=self._open,
            culprits=tuple(self._culprits),
            accomplices=tuple(self._accomplices),
            controls=dict(self._controls),
            questions=len(self._known),
            asks=self._asks,
        )

    def tell(self, ask: Ask, *, fails: bool | None) -> None:
        """Record the outcome of a replay: whether the answer was wrong, or None if that is unknown.

        Raises:
            InvariantBroken: `ask` is not the question that `next` named.
        """
        if self._ask is None or ask != self._ask:
            raise InvariantBroken("an outcome was told for a question that was not asked")
        self._asks += 1
        if fails is None:
            self.stop(OpenCause.UNKNOWN)
            return
        self._votes.append(fails)
        decided = self._decided()
        if decided is not None:
            self._known[ask.present] = decided
            self._votes = []
            self._advance(outcome=decided)
        elif len(self._votes) >= self._limits.repeats_max:
            self.stop(OpenCause.UNDECIDED)
        else:
            self._put(ask.present, ask.control)

    def stop(self, why: OpenCause) -> None:
        """End the search here: the replay that `next` named cannot be done."""
        self._ask = None
        self._ending, self._open = Ending.NEEDS_PERSON, why

    def _decided(self) -> bool | None:
        for_it = sum(self._votes)
        lead = 2 * for_it - len(self._votes)
        if self._limits.deterministic or abs(lead) >= self._limits.lead:
            return lead > 0
        return None

    def _put(self, present: frozenset[str], control: Control | None) -> None:
        if self._asks >= self._limits.asks_max:
            self.stop(OpenCause.BUDGET)
        else:
            self._ask = Ask(present=present, control=control, repeat=len(self._votes))

    def _advance(self, *, outcome: bool | None) -> None:
        """Move to the next set of memories whose outcome is not known; no set is replayed twice."""
        self._ask = None
        try:
            present, control = next(self._steps) if outcome is None else self._steps.send(outcome)
            while present in self._known:
                present, control = self._steps.send(self._known[present])
        except StopIteration:
            return
        self._put(present, control)

    def _run(self) -> Generator[tuple[frozenset[str], Control | None], bool]:
        """The search as a generator: it yields sets of memories and is sent the outcomes."""
        suspects = frozenset(self._ids)
        fails = yield from self._control(Control.EVERYTHING, suspects | self._trusted)
        if not fails:
            self._ending = Ending.NOT_REPRODUCED
            return
        fails = yield from self._control(Control.NO_SUSPECT, self._trusted)
        if fails:
            fails = yield from self._control(Control.NOTHING, frozenset())
            self._ending = Ending.NOT_MEMORY_CAUSED if fails else Ending.NEEDS_PERSON
            self._open = None if fails else OpenCause.TRUSTED_MEMORY
            return
        believed: list[str] = []
        rest = list(self._ids)
        if len(rest) > BISECT_ABOVE:
            first = yield from self._first_culprit(rest)
            believed, rest = rest[:first], rest[first + 1 :]
            without = yield from self._fails([*believed, *rest])
            if not without:
                believed, rest = [*believed, *rest], []
        for suspect in rest:
            fails = yield from self._fails([*believed, suspect])
            if fails:
                self._culprits.append(suspect)
            else:
                believed.append(suspect)
        if self._whole_cause:
            for suspect in believed:
                fails = yield from self._fails([suspect])
                if fails:
                    self._accomplices.append(suspect)
        self._ending = Ending.CONVICTED

    def _control(
        self, control: Control, present: frozenset[str]
    ) -> Generator[tuple[frozenset[str], Control | None], bool, bool]:
        fails = yield present, control
        self._controls[control.value] = fails
        return fails

    def _fails(
        self, suspects: Sequence[str]
    ) -> Generator[tuple[frozenset[str], Control | None], bool, bool]:
        return (yield self._trusted.union(suspects), None)

    def _first_culprit(
        self, ids: Sequence[str]
    ) -> Generator[tuple[frozenset[str], Control | None], bool, int]:
        """Blame the first suspect that, added to the earlier ones, makes the answer wrong.

        Return its index.
        """
        # Bisection: with the first `good` suspects present the answer is right, with the first
        # `bad` ones it is wrong.
        good, bad = 0, len(ids)
        while bad - good > 1:
            middle = (good + bad) // 2
            fails = yield from self._fails(ids[:middle])
            if fails:
                bad = middle
            else:
                good = middle
        self._culprits.append(ids[bad - 1])
        return bad - 1
