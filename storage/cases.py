# ruff: noqa: TC001 - msgspec reads these annotations when it builds the decoders
"""Wrong answers: what an engine keeps of each, and the values that cross.

A case is the record of one wrong answer, from its signal to its end. Users call it an incident; in
code that word is taken by isolation and rewind (`storage.incidents`). A case has a closed list of
fields and no content: no question, no reply, no text of a memory, no reason that a judge gave.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from policy.after.closure import Act, Relation
from policy.model import (
    Basis,
    CandidateId,
    MemoryClass,
    MemoryId,
    PrincipalId,
    SourceKind,
    Tenant,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED_MAX: Final = 200
"""Memories that a case names; what is beyond is counted."""


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
    """Who said that an answer was wrong; values are stable."""

    OPERATOR = "operator"
    PERSON = "person"
    ANCHOR = "anchor"
    CANARY = "canary"
    JUDGE = "judge"


class CaseMode(enum.Enum):
    """What was asked again: what a retrieval shows, or a caller's judge; values are stable."""

    RETRIEVAL = "retrieval"
    JUDGE = "judge"


UNDER_WAY: Final = frozenset({CaseStep.OPENED, CaseStep.REPRODUCED, CaseStep.CONVICTED})
"""A case at one of these steps is taken up again after a crash."""

_NEXT: Final = {
    CaseStep.OPENED: frozenset(CaseStep) - {CaseStep.OPENED, CaseStep.HEALED},
    CaseStep.REPRODUCED: frozenset({CaseStep.CONVICTED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),
    CaseStep.CONVICTED: frozenset(
        {CaseStep.CONVICTED, CaseStep.HEALED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}
    ),
    CaseStep.CLOSED: frozenset[CaseStep](),
}
_ENDS: Final = frozenset({CaseStep.CLOSED})


def may_follow(step: CaseStep, after: CaseStep) -> bool:
    """Whether a case at `after` may go on to `step`: of an ended one only a person closes it."""
    return step in _NEXT.get(after, _ENDS)


class Named(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One memory in a case. `memory` is its id where we made it, else "candidate" and an id.

    Server, tool and call are those of the verdict's leaf, which holds no content. `trace_id`: the
    trace in which it was committed.
    """

    memory: str
    candidate_id: CandidateId
    relation: Relation
    act: Act
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    leaf_index: int
    server: str = ""
    tool: str = ""
    call_id: str = ""
    trace_id: str = ""


class Case(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One wrong answer. `case_id` and the other ids are ours, hex digits; "" where there is none.

    `controls` are the outcomes of the last round, by `policy.after.attribution.Control`. `why` says
    in a fixed word why a person is needed.
    """

    case_id: str
    tenant: Tenant
    signal: CaseSignal
    step: CaseStep
    opened_at_ms: int
    at_ms: int
    by: PrincipalId
    failure_id: str = ""
    recall_id: str = ""
    reply_id: str = ""
    anchor_id: str = ""
    mode: CaseMode | None = None
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""
    culprits: tuple[Named, ...] = ()
    listed: tuple[Named, ...] = ()
    listed_count: int = 0

    @property
    def under_way(self) -> bool:
        """Whether it goes on by itself."""
        return self.step in UNDER_WAY


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a case begins with; ids as in `Case`."""

    tenant: Tenant
    signal: CaseSignal
    by: PrincipalId
    failure_id: str = ""
    recall_id: str = ""
    reply_id: str = ""
    anchor_id: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What one more step adds: counts of this step alone, which the case sums up."""

    mode: CaseMode
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""


class Accused(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was convicted, at the step that was replayed (its ordinal)."""

    memory_id: MemoryId
    ordinal: int
    # A newer memory that is trusted more says otherwise: it was true once.
    outdated: bool = False


class Cases(Protocol):
    """The wrong answers of one store. Coroutines on any loop; other calls on any thread, blocking.

    Coroutines raise as `MemoryWriter.submit`; each is one transaction with its leaves.
    """

    def all(self) -> tuple[Case, ...]:
        """Every case, oldest first."""
        ...

    def get(self, case_id: str) -> Case:
        """One case.

        Raises:
            UnknownIncident: There is none of that id.
        """
        ...

    async def open(self, opening: Opening) -> Case:
        """A new case, durable before anything is done about it."""
        ...

    async def move(
        self, case_id: str, step: CaseStep, by: PrincipalId, progress: Progress | None = None
    ) -> Case:
        """The case at another step; unchanged where that cannot follow.

        Raises:
            UnknownIncident: There is none of that id.
        """
        ...

    async def convict(
        self, case_id: str, accused: Sequence[Accused], by: PrincipalId, progress: Progress
    ) -> Case:
        """Hide these memories and what was derived from them, or leave all of it to a person.

        One transaction: the acts, a leaf for each memory that names the case, the outcome for each
        origin, and the case at `CONVICTED`, or at `NEEDS_PERSON`. When it returns, no read that
        begins later shows any of them. An accused that is gone is left out; a case that does not
        go on changes nothing.

        Raises:
            UnknownIncident: There is no case of that id.
            QuotaReached: There is no room for an earlier text; nothing was changed.
        """
        ...

    def preview(self, tenant: Tenant, accused: Sequence[Accused]) -> tuple[Named, ...]:
        """What `convict` would name, with what it would do."""
        ...

    def related(self, tenant: Tenant, accused: Sequence[Accused]) -> tuple[Named, ...]:
        """Memories of the same session or origin, and near copies; walks every row."""
        ...

    async def name_related(self, case_id: str, related: Sequence[Named]) -> Case:
        """Keep the first `NAMED_MAX` of these with the case, and count all; no leaf."""
        ...
