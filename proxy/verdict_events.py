"""The telemetry record of one verdict: every check's outcome, and not a byte of the candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from policy.checks import STEPS
from policy.model import ChangeKind
from storage.interfaces import Outcome
from telemetry.events import StepOutcome, TraceContext, VerdictRecorded

if TYPE_CHECKING:
    from storage.errors import StorageError
    from storage.interfaces import Submission

# The GenAI memory conventions name no purge; it is a delete that leaves nothing.
_OPERATION = {
    ChangeKind.CREATE: "create_memory",
    ChangeKind.UPDATE: "update_memory",
    ChangeKind.DELETE: "delete_memory",
    ChangeKind.PURGE: "delete_memory",
}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when a candidate was judged."""

    context: TraceContext
    dialect: str
    started_ns: int
    ended_ns: int
    epoch: int


def verdict_event(
    submission: Submission, outcome: Outcome | StorageError, span: Span
) -> VerdictRecorded:
    """The event of one outcome, or of a gate that could not decide (decision "error")."""
    candidate = submission.candidate
    claimed = candidate.claimed_source
    decided = isinstance(outcome, Outcome)
    return VerdictRecorded(
        context=span.context,
        operation=_OPERATION[candidate.change],
        dialect=span.dialect,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        decision=outcome.decision.value if decided else "error",
        reason=outcome.reason.value if decided and outcome.reason else "",
        step=(outcome.step or 0) if decided else 0,
        memory_class=(outcome.memory_class if decided else candidate.memory_class).value,
        source_kind=(outcome.source if decided else submission.provenance.source).value,
        claimed_source_kind=claimed.value if claimed else "",
        basis=(outcome.basis if decided else submission.provenance.basis).value,
        principal=candidate.principal_id,
        tenant=candidate.tenant,
        candidate_id=submission.candidate_id,
        memory_id=_memory_id(submission, outcome),
        version=outcome.version if decided else 0,
        leaf_index=outcome.leaf_index if decided else -1,
        replayed=outcome.replayed if decided else False,
        ruleset_epoch=span.epoch,
        steps=_steps(outcome) if decided else (),
        queued_us=outcome.queued_us if decided else 0,
        gate_us=outcome.gate_us if decided else 0,
        commit_us=outcome.commit_us if decided else 0,
        error_type="" if decided else type(outcome).__name__,
    )


def _memory_id(submission: Submission, outcome: Outcome | StorageError) -> str:
    if isinstance(outcome, Outcome) and outcome.memory is not None:
        return outcome.memory.memory_id
    return submission.candidate.memory_id or ""


def _steps(outcome: Outcome) -> tuple[StepOutcome, ...]:
    passed = frozenset(outcome.passed)
    return tuple(
        StepOutcome(
            step=step.number,
            name=step.name,
            outcome=(
                "passed"
                if step.number in passed
                else "failed"
                if step.number == outcome.step
                else "not_reached"
            ),
        )
        for step in STEPS
    )
