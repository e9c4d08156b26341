"""Cases of wrong answers: what an engine keeps of each, and the values that it returns.

A case is the record of one wrong answer, from its signal to its end. Users call it an incident; in
the code that word is taken by isolation and rewind (`features.incidents`). A case has a closed list
of fields and no content: no question, no reply, no text of a memory, no reason that a judge gave.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.after.closure import Act, CaseMode, CaseSignal, CaseStep, Relation
from policy.model import (
    Basis,
    CandidateId,
    MemoryClass,
    MemoryId,
    PrincipalId,
    SourceKind,
    Tenant,
)
from storage.tables.lmdb_store import RecordTable

NAMED_MAX: Final = 200
"""How many memories a case names; further ones are only counted."""


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


class CaseMemory(msgspec.Struct, frozen=True, kw_only=True):
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


class CaseBeginning(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a case has from its beginning. Ids are ours, hex digits; "" for none."""

    tenant: Tenant
    signal: CaseSignal
    by: PrincipalId
    failure_id: str = ""
    recall_id: str = ""
    reply_id: str = ""
    anchor_id: str = ""
    judge: str = ""
    # Whether the signal itself said what is wrong; its words are in no file.
    own_words: bool = False


class Case(
    CaseBeginning, frozen=True, kw_only=True, rename={"case_id": "incident_id", "step": "state"}
):
    """The record of one wrong answer.

    `controls` are the outcomes of the last round's control questions, by
    `policy.after.attribution.Control`. `why` says in a fixed word why a person is needed.
    """

    case_id: str
    step: CaseStep
    opened_at_ms: int
    at_ms: int
    mode: CaseMode | None = None
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""
    culprits: tuple[CaseMemory, ...] = ()
    listed: tuple[CaseMemory, ...] = ()
    listed_count: int = 0

    @property
    def under_way(self) -> bool:
        """Whether the case can go on without a person."""
        return self.step in UNDER_WAY


CASES: Final = RecordTable(b"cases", Case)
"""Every case by its id."""


class Opening(CaseBeginning, frozen=True, kw_only=True):
    """The beginning of a case, and the memories on probation that its signal is about."""

    # The opening hides them at once.
    implicated: tuple[MemoryId, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What one more step adds to a case: counts of that step, which are added to the case's own."""

    mode: CaseMode
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""


class ConvictedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is to blame for a wrong answer, with the step (ordinal) that was replayed."""

    memory_id: MemoryId
    ordinal: int
    # Whether a newer memory that is trusted more contradicts this one, so that this one was true
    # once.
    outdated: bool = False
    # The texts of its versions that may be shown again in its place; None: nobody judged them.
    fit: frozenset[str] | None = None
