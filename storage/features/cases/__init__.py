"""Cases of wrong answers: the record that an engine stores of each, and the values that it returns.

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
from storage.tables.names import RecordTable

UNDER_WAY: Final = frozenset({CaseStep.OPENED, CaseStep.REPRODUCED, CaseStep.CONVICTED})
"""The steps at which no person is needed yet; after a crash, cases at these steps are continued."""

_NEXT: Final = {
    CaseStep.OPENED: frozenset(CaseStep) - {CaseStep.OPENED, CaseStep.HEALED},
    CaseStep.REPRODUCED: frozenset({CaseStep.CONVICTED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),
    CaseStep.CONVICTED: frozenset(
        {CaseStep.CONVICTED, CaseStep.HEALED, CaseStep.NEEDS_PERSON, CaseStep.CLOSED}
    ),
    # The search found no wrong answer any more, but the model's next reply was wrong all the same.
    CaseStep.HEALED: frozenset({CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),
    CaseStep.CLOSED: frozenset[CaseStep](),
}
_ENDS: Final = frozenset({CaseStep.CLOSED})


def may_follow(step: CaseStep, after: CaseStep) -> bool:
    """Whether a case at step `after` may move to `step`.

    Only a person may close a case that has ended, and a healed case may turn out to need a person.
    """
    return step in _NEXT.get(after, _ENDS)


class CaseMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that a case names.

    `memory` is the memory's id if the store made the id, else "candidate" and the candidate's id.
    Server, tool and call name the origin of the memory's text, as in the leaf of its verdict.
    `trace_id` is the trace of the request in which the memory was committed.
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
    """The fields that a case has from its beginning. Ids are hex digits of ours; "" for none."""

    tenant: Tenant
    signal: CaseSignal
    by: PrincipalId
    failure_id: str = ""
    recall_id: str = ""
    reply_id: str = ""
    anchor_id: str = ""
    judge: str = ""
    # Whether the signal itself names what is wrong; the words of the signal are in no file.
    own_words: bool = False


class Case(
    CaseBeginning, frozen=True, kw_only=True, rename={"case_id": "incident_id", "step": "state"}
):
    """The record of one wrong answer.

    `controls` are the outcomes of the control questions of the last round, keyed by the value of
    `policy.after.attribution.Control`. `why` is the fixed word for why a person is needed.
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
    leaf_index: int = 0  # of the last step

    @property
    def under_way(self) -> bool:
        """Whether the case can continue without a person."""
        return self.step in UNDER_WAY


CASES: Final = RecordTable(b"cases", Case)
"""Every case, keyed by its id."""


class Opening(CaseBeginning, frozen=True, kw_only=True):
    """The beginning of a case, and the memories on probation that its signal is about."""

    # The memories on probation, which are hidden when the case is opened.
    implicated: tuple[MemoryId, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one more step of a case; its counts are added to the case's own counts."""

    mode: CaseMode
    suspects: int = 0
    asks: int = 0
    rounds: int = 0
    controls: dict[str, bool] = {}
    why: str = ""


class ConvictedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that caused a wrong answer, and the ordinal of the version that was replayed."""

    memory_id: MemoryId
    ordinal: int
    # Whether a newer memory with a more trusted label contradicts this memory, so that this
    # memory was true once.
    outdated: bool = False
    # The texts of earlier versions that may be shown again instead; None if no one judged them.
    fit: frozenset[str] | None = None
