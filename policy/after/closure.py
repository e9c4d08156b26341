"""What happens to a memory that was found to blame, and to the memories derived from it.

Pure: facts of stored memories go in, and an act for each of them comes out. The walk from parents
to children is made here, so that one place decides what is hidden automatically.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from policy.model import MemoryId, SourceKind


class CaseStep(enum.Enum):
    """How far a case is; values are stable."""

    OPENED = "opened"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    NOT_MEMORY_CAUSED = "not_memory_caused"
    CONVICTED = "convicted"
    NEEDS_PERSON = "needs_person"
    HEALED = "healed"
    CLOSED = "closed"


class CaseSignal(enum.Enum):
    """Which kind of source said that an answer was wrong; values are stable."""

    OPERATOR = "operator"
    PERSON = "person"
    ANCHOR = "anchor"
    CANARY = "canary"
    JUDGE = "judge"


class CaseMode(enum.Enum):
    """How answers were replayed in the search for a culprit; values are stable.

    Either what a search shows, or what a caller's judge says, or what the model says again.
    """

    RETRIEVAL = "retrieval"
    JUDGE = "judge"
    MODEL = "model"


NAMED_MAX: Final = 200
"""How many memories a case names; further ones are only counted."""
BLAST_MAX: Final = 100
"""How many memories a case acts on without a person; descendants above it wait for a person."""


class Relation(enum.Enum):
    """Why a case (a wrong answer that is looked into) names a memory; values are stable."""

    CULPRIT = "culprit"
    DESCENDANT = "descendant"
    SESSION = "session"
    ORIGIN = "origin"
    ALIKE = "alike"
    PAROLED = "unhidden"
    """The memory was on probation when the answer showed it."""


class Act(enum.Enum):
    """What becomes of a memory that a case names; values are stable."""

    QUARANTINE = "quarantine"
    STEP_BACK = "step_back"
    """An update introduced the lie: the memory is set back to its state before that update."""
    EXPIRE = "expire"
    """The memory was true once: reads no longer show it, and no principal's trust changes."""
    NOTHING = "nothing"
    """Nothing is done: the memory is named in the case, and a person decides."""


class ForPerson(enum.Enum):
    """Why nothing is done to the memories of a case without a person; values are stable."""

    BLAST = "blast"
    LABEL = "label"
    ANCHOR = "anchor"
    PROPOSED = "proposed"
    """The judge that convicted the memories may only propose acts."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One stored memory of a case, with the facts that decide what is done to it.

    `step` is the number of the version that is to blame. `back_to` is the number of the last
    version before it that had another text; None if the memory began with the wrong text, or if the
    text is kept on another server. `mended` is the number of a later version that put an end to the
    wrong text, made by a source that is trusted more or by taking the wrong step back; another edit
    by the author of a lie does not count. It is None if there is no such version.
    """

    memory_id: MemoryId
    label: SourceKind
    step: int
    back_to: int | None = None
    mended: int | None = None
    is_anchor: bool = False
    # The memory is past its own expiry, or a newer memory that is trusted more contradicts it.
    outdated: bool = False


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one memory of a case, and why the case names the memory."""

    fact: Fact
    relation: Relation
    act: Act


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """The acts for all memories of a case; `for_person` is why some or all acts are `NOTHING`."""

    consequences: tuple[Consequence, ...]
    for_person: ForPerson | None = None


def closure_of(
    culprits: Sequence[Fact],
    children: Callable[[Fact], Iterable[Fact]],
    *,
    blast_max: int = BLAST_MAX,
    culprits_max: int = BLAST_MAX,
    proposes: bool = False,
) -> Closure:
    """The acts for the culprits and the memories derived from them: each once, culprits first.

    What is done to the culprits is decided by the culprits alone: at most `culprits_max`, of which
    none is a person's word or an anchor. Otherwise whoever derives enough memories from a lie, or
    one memory that nothing may hide, would keep the lie shown. Culprits and descendants together
    are at most `blast_max`; more descendants wait for a person, and so do all of them where one may
    not be hidden.

    `children` must give the memories that were derived from a memory while it was wrong: after the
    version `Fact.step`, and not after the version `Fact.mended`. Nothing is done to a memory that
    was mended, but memories derived from it before that are acted on. A memory that is merely
    outdated was true once, so nothing is done to memories derived from it. The walk stops at one
    memory more than `blast_max`. With `proposes` every act is left to a person.
    """
    found: dict[MemoryId, Consequence] = {}
    for fact in culprits:
        found.setdefault(fact.memory_id, _consequence(fact, Relation.CULPRIT))
    why = ForPerson.PROPOSED if proposes else _for_person(tuple(found.values()), culprits_max)
    left_open = frozenset({Relation.DESCENDANT} if why is None else Relation)
    waiting = [one.fact for one in found.values() if not one.fact.outdated]
    while waiting and len(found) <= blast_max:
        for child in children(waiting.pop()):
            if child.memory_id not in found:
                found[child.memory_id] = _consequence(child, Relation.DESCENDANT)
                waiting.append(child)
                if len(found) > blast_max:
                    break
    why = why or _for_person(tuple(found.values()), blast_max)
    if why is None:
        return Closure(consequences=tuple(found.values()))
    decided = (
        msgspec.structs.replace(one, act=Act.NOTHING) if one.relation in left_open else one
        for one in found.values()
    )
    return Closure(consequences=tuple(decided), for_person=why)


def _consequence(fact: Fact, relation: Relation) -> Consequence:
    act = Act.QUARANTINE
    if fact.mended is not None:
        act = Act.NOTHING
    elif relation is Relation.CULPRIT and fact.outdated:
        act = Act.EXPIRE
    elif fact.back_to is not None:
        act = Act.STEP_BACK
    return Consequence(fact=fact, relation=relation, act=act)


def _for_person(found: tuple[Consequence, ...], blast_max: int) -> ForPerson | None:
    acting = [one.fact for one in found if one.act is not Act.NOTHING]
    if any(fact.is_anchor for fact in acting):
        return ForPerson.ANCHOR
    if any(fact.label.trust >= SourceKind.USER_INPUT.trust for fact in acting):
        return ForPerson.LABEL
    return ForPerson.BLAST if len(acting) > blast_max else None
