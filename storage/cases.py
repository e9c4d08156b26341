"""Cases of wrong answers: what an engine keeps of each, and the values that it returns.

A case is the record of one wrong answer, from its signal to its end. Users call it an incident; in
the code that word is taken by isolation and rewind (`storage.incidents`). A case has a closed list
of fields and no content: no question, no reply, no text of a memory, no reason that a judge gave.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from policy.after.closure import BLAST_MAX, Act, Relation
from policy.model import (
    Basis,
    CandidateId,
    MemoryClass,
    MemoryId,
    PrincipalId,
    SourceKind,
    Tenant,
)

NAMED_MAX: Final = 200
"""How many memories a case names; further ones are only counted."""


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


UNDER_WAY: Final = frozenset({CaseStep.OPENED, CaseStep.REPRODUCED, CaseStep.CONVICTED})
"""A case at one of these steps is taken up again after a crash."""

_NEXT: Final = {
    CaseStep.OPENED: frozenset(CaseStep) - {CaseStep.OPENED, CaseStep.HEALED},
    CaseStep.REPRODUCED: frozenset({CaseStep.CONVICTED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),
    CaseStep.CONVICTED: frozenset(
        {CaseStep.CONVICTED, CaseStep.HEALED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}
    ),
    # The search found nothing wrong any more, and the model's next reply was wrong all the same.
    CaseStep.HEALED: frozenset({CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),
    CaseStep.CLOSED: frozenset[CaseStep](),
}
_ENDS: Final = frozenset({CaseStep.CLOSED})


def may_follow(step: CaseStep, after: CaseStep) -> bool:
    """Whether a case at step `after` may go on to `step`.

    Only a person may close an ended case, and a healed one may turn out to need a person.
    """
    return step in _NEXT.get(after, _ENDS)


class Named(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One memory in a case.

    `memory` is the memory's id if the store made it, else "candidate" and an id.

    Server, tool and call name where its text came from, as the leaf of its verdict says. `trace_id`
    is the trace of the request in which the memory was committed.
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
    """The record of one wrong answer. Ids are ours, hex digits; "" where there is none.

    `controls` are the outcomes of the last round's control questions, by
    `policy.after.attribution.Control`. `why` says in a fixed word why a person is needed.
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
    judge: str = ""
    # Whether the signal itself said what is wrong; its words are in no file.
    own_words: bool = True

    @property
    def under_way(self) -> bool:
        """Whether the case can go on without a person."""
        return self.step in UNDER_WAY


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a case has from its beginning; ids as in `Case`."""

    tenant: Tenant
    signal: CaseSignal
    by: PrincipalId
    failure_id: str = ""
    recall_id: str = ""
    reply_id: str = ""
    anchor_id: str = ""
    judge: str = ""
    own_words: bool = False
    # Memories on probation that the signal is about: the opening hides them at once.
    implicated: tuple[MemoryId, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What one more step adds to a case: counts of that step, which are added to the case's own."""

    mode: CaseMode
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""


class Accused(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is to blame for a wrong answer, with the step (ordinal) that was replayed."""

    memory_id: MemoryId
    ordinal: int
    # Whether a newer memory that is trusted more contradicts this one, so that this one was true
    # once.
    outdated: bool = False
    # The texts of its versions that may be shown again in its place; None: nobody judged them.
    fit: frozenset[str] | None = None


class Cases(Protocol):
    """The cases of one store. Coroutines on any loop; other calls on any thread, blocking.

    Coroutines raise as `MemoryWriter.submit`; each is one transaction with its leaves.
    """

    def all(self) -> tuple[Case, ...]:
        """Every case, oldest first."""
        ...

    def get(self, case_id: str) -> Case:
        """One case by its id.

        Raises:
            UnknownIncident: No case has that id.
        """
        ...

    async def open(self, opening: Opening) -> Case:
        """Record a new case, durably, before any memory is changed for it."""
        ...

    async def move(
        self, case_id: str, step: CaseStep, by: PrincipalId, progress: Progress | None = None
    ) -> Case:
        """Set how far a case is; nothing changes if this step cannot follow the present one.

        Raises:
            UnknownIncident: No case has that id.
        """
        ...

    async def convict(
        self,
        case_id: str,
        accused: Sequence[Accused],
        by: PrincipalId,
        progress: Progress,
        *,
        proposes: bool = False,
        blast_max: int = BLAST_MAX,
    ) -> Case:
        """Hide these memories and what was derived from them, or leave all of that to a person.

        With `proposes` the memories are only named, and a person has to hide them. The same holds
        if the case, with its earlier rounds, would hide more than `blast_max` memories in all.

        One transaction: the acts, a leaf for each memory that names the case, the outcome for each
        origin, and the case at `CONVICTED` or at `NEEDS_PERSON`. When it returns, no read that
        begins later shows any of these memories. An accused memory that is gone is left out; a case
        that cannot go on changes nothing.

        Raises:
            UnknownIncident: No case has that id.
            QuotaReached: There is no room for an earlier text; nothing was changed.
        """
        ...

    def preview(
        self, tenant: Tenant, accused: Sequence[Accused], *, blast_max: int = BLAST_MAX
    ) -> tuple[Named, ...]:
        """The memories that `convict` would name, with what it would do to each."""
        ...

    def related(self, tenant: Tenant, accused: Sequence[Accused]) -> tuple[Named, ...]:
        """Memories of the same session or origin, and near copies.

        It walks every row.
        """
        ...

    async def name_related(self, case_id: str, related: Sequence[Named]) -> Case:
        """Store the first `NAMED_MAX` of these memories with the case, and how many there are.

        The audit log gets no leaf about it. Returns the case as it is then.
        """
        ...
