"""What one round of replays found: which of the shown memories are to blame."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from policy.after.attribution import Control, Done, Ending, OpenCause, Suspect, believed_first
from policy.after.rule_judge import RuleJudge
from policy.model import Hit, SourceKind
from proxy.aftermath.rule_signals import judged_memory


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round of replays.

    `why` is a fixed word for why it could not name a culprit.
    """

    ending: Ending
    places: tuple[Hit, ...]
    culprits: tuple[Hit, ...]
    suspects: int
    asks: int
    controls: dict[str, bool]
    why: str = ""
    # The rules that judged; None where a caller's judge did.
    judge: RuleJudge | None = None


def judged_alone(judge: RuleJudge, places: tuple[Hit, ...]) -> Round:
    """Judge each memory alone. The answer is wrong if one memory is, so no set is replayed.

    If a rule contradicts a memory that is trusted as much as the rule itself, that rule blames
    nobody, and at the end a person is needed.
    """
    found = judge.judged(judged_memory(one.memory) for one in places)
    ids = {one.memory_id for one in found.blamed}
    culprits = tuple(one for one in places if one.memory.memory_id in ids)
    fails = bool(found.failing or found.doubted)
    ending = Ending.NEEDS_PERSON if fails else Ending.NOT_REPRODUCED
    controls = {Control.EVERYTHING.value: fails}
    if fails:
        controls[Control.NO_SUSPECT.value] = bool(found.doubted)
    if culprits:
        ending = Ending.CONVICTED
    return Round(
        ending=ending,
        places=places,
        culprits=culprits,
        suspects=len(places),
        asks=len(places),
        controls=controls,
        why=OpenCause.TRUSTED_MEMORY.value if ending is Ending.NEEDS_PERSON else "",
        judge=judge,
    )


def planned(done: Done, places: tuple[Hit, ...]) -> Round:
    """The result of a plan of replays."""
    named = frozenset((*done.culprits, *done.accomplices))
    return Round(
        ending=done.ending,
        places=places,
        culprits=tuple(one for one in places if one.memory.memory_id in named),
        suspects=len(places),
        asks=done.asks,
        controls=done.controls,
        why="" if done.open is None else done.open.value,
    )


def suspects_among(places: Iterable[Hit]) -> tuple[tuple[Suspect, ...], frozenset[str]]:
    """The memories that are trusted less than an operator's word, the most believed first.

    And all others.

    Only the former may be to blame.
    """
    trusted: set[str] = set()
    suspects: list[Suspect] = []
    for one in places:
        if one.memory.source is SourceKind.OPERATOR:
            trusted.add(one.memory.memory_id)
            continue
        suspects.append(
            Suspect(
                memory_id=one.memory.memory_id,
                trust=one.memory.source.trust / SourceKind.OPERATOR.trust,
                at_ms=one.memory.updated_at_ms,
                score=one.score,
            )
        )
    return believed_first(suspects), frozenset(trusted)


def nobody_judges(suspects: int) -> Round:
    """The result where no rule says what is wrong: a person is needed."""
    return Round(
        ending=Ending.NEEDS_PERSON,
        places=(),
        culprits=(),
        suspects=suspects,
        asks=0,
        controls={},
        why="no_judge",
    )
