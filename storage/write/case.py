"""One candidate before the gate, and how a recorded outcome reads as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.canonical import decode_canonical
from policy.labels.ceiling import ceiling_of
from policy.verdict import Reason, Reject
from storage.tables.codec import HeldEvidence
from storage.values import Outcome

if TYPE_CHECKING:
    from policy.facts import Approval, InterceptRecord
    from policy.model import Candidate, Memory, Provenance
    from policy.trust.ladder import TrustState
    from policy.verdict import Hold
    from storage.tables.codec import FirstOutcome, HeldRow
    from storage.values import Submission

_BUDGETS: Final = 9


class HeldCase(msgspec.Struct, frozen=True, kw_only=True):
    """What a held candidate brings along when it is judged again."""

    row: HeldRow
    salt: bytes
    approval: Approval


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate before the gate: the evidence, and what staging holds of it now.

    `intercept` is the interceptor's own record, kept apart from staging.
    """

    submission: Submission
    intercept: InterceptRecord | None
    staged: bytes | None
    held: HeldCase | None = None


def staged_candidate(case: Case) -> Candidate:
    """The candidate to judge.

    What staging holds is what is judged; its digest decides whether it is what was sent.
    """
    submission = case.submission
    if case.staged is None or case.staged == submission.canonical:
        return submission.candidate
    try:
        return decode_canonical(case.staged)
    except msgspec.MsgspecError:
        return submission.candidate


def labelled(case: Case, provenance: Provenance | None) -> Case:
    """The case with the label that it was judged by: leaf, row and what is kept of it say that."""
    submission = case.submission
    if provenance is None or provenance is submission.provenance:
        return case
    submission = msgspec.structs.replace(submission, provenance=provenance, tainted=None, edit=None)
    return msgspec.structs.replace(case, submission=submission)


def evidence_of(submission: Submission, target_version: int) -> HeldEvidence:
    """What must be kept of a submission that waits for a person."""
    return HeldEvidence(
        provenance=submission.provenance,
        intercepted_at_ms=submission.intercepted_at_ms,
        token=submission.token,
        token_key=submission.token_key,
        shadow=submission.shadow,
        budget=submission.budget,
        vector=submission.vector,
        embedder_id=submission.embedder_id,
        trace_id=submission.trace_id,
        target_version=target_version,
        guarded_key=submission.guarded_key,
    )


def outcome_of(
    first: FirstOutcome,
    trust: TrustState,
    *,
    memory: Memory | None = None,
    replayed: bool = False,
    gate_us: int = 0,
) -> Outcome:
    """The answer that a recorded outcome stands for."""
    return Outcome(
        candidate_id=first.candidate_id,
        decision=first.decision,
        reason=first.reason,
        step=first.step,
        memory_class=first.memory_class,
        source=first.source,
        ceiling=ceiling_of(first),
        basis=first.basis,
        passed=first.passed,
        structural=first.structural,
        version=first.version,
        leaf_index=first.leaf_index,
        memory=memory,
        trust=trust,
        replayed=replayed,
        gate_us=gate_us,
    )


def not_held(verdict: Hold) -> Reject:
    """The refusal of what would be held, where too much of its sender is held already (step 9)."""
    return Reject(
        reason=Reason.QUOTA_EXCEEDED,
        step=_BUDGETS,
        memory_class=verdict.memory_class,
        passed=tuple(number for number in verdict.passed if number != _BUDGETS),
    )
