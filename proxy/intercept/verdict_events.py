"""Makes the telemetry event of a verdict: each check's outcome, and no text of the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from policy.checks import STEPS
from policy.labels.derive import HOST
from policy.model import Basis, ChangeKind, Principal, SourceKind
from policy.verdict import Reason
from proxy.seams.guard import RefusedCall
from proxy.seams.operation import Proposal
from storage.audit import culprit_of, plain_name
from storage.ground.errors import StorageError
from storage.values import HeldCandidate, Outcome, Submission
from telemetry.events import StepOutcome, TraceContext, VerdictRecorded
from telemetry.propagation import RandomHex

# The GenAI memory conventions have no word for a purge; it is reported as a delete.
_OPERATION = {
    ChangeKind.CREATE: "create_memory",
    ChangeKind.UPDATE: "update_memory",
    ChangeKind.DELETE: "delete_memory",
    ChangeKind.PURGE: "delete_memory",
}


class VerdictPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect, trace, times and epoch of one verdict, for its telemetry event."""

    context: TraceContext
    dialect: str
    started_ns: int
    ended_ns: int
    epoch: int


def undecided_event(
    submission: Submission, failure: StorageError, span: VerdictPlace
) -> VerdictRecorded:
    """The event of a candidate without a verdict: decision "error", and the failure's name."""
    candidate = submission.candidate
    claimed = candidate.claimed_source
    return VerdictRecorded(
        context=span.context,
        operation=_OPERATION[candidate.change],
        dialect=span.dialect,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        decision="error",
        reason="",
        step=0,
        memory_class=candidate.memory_class.value,
        source_kind=submission.provenance.source.value,
        claimed_source_kind=claimed.value if claimed else "",
        basis=submission.provenance.basis.value,
        session=submission.provenance.session or "",
        principal=candidate.principal_id,
        tenant=candidate.tenant,
        candidate_id=submission.candidate_id,
        memory_id=candidate.memory_id or "",
        version=0,
        leaf_index=-1,
        replayed=False,
        ruleset_epoch=span.epoch,
        steps=(),
        queued_us=0,
        gate_us=0,
        commit_us=0,
        error_type=type(failure).__name__,
    )


def refused_event(
    refused: Proposal | RefusedCall, by: Principal, span: VerdictPlace
) -> VerdictRecorded:
    """The event of a change, or of a tool call, that was refused before it became a candidate.

    It has no id, and that of a call has no class and no name: whoever made the call chose the name,
    and may have spelled a refused text in it. A change is refused so for a character alone.
    """
    reason = Reason.CHARACTER_REFUSED
    if isinstance(refused, RefusedCall):
        operation, memory_class, reason = "execute_tool", "", refused.reason
    else:
        operation, memory_class = _OPERATION[refused.change], refused.memory_class.value
    return VerdictRecorded(
        context=span.context,
        operation=operation,
        dialect=span.dialect,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        decision="reject",
        reason=reason.value,
        step=0,
        memory_class=memory_class,
        source_kind=SourceKind.UNKNOWN.value,
        claimed_source_kind="",
        basis=Basis.UNPROVEN.value,
        principal=by.principal_id,
        tenant=by.tenant,
        candidate_id="",
        memory_id="",
        version=0,
        leaf_index=-1,
        replayed=False,
        ruleset_epoch=span.epoch,
        steps=(),
        queued_us=0,
        gate_us=0,
        commit_us=0,
    )


def verdict_event(
    submission: Submission, outcome: Outcome, span: VerdictPlace, *, lowered: bool
) -> VerdictRecorded:
    """The event of one verdict; in observe mode with the objection that would have refused it.

    `lowered`: the memory got a lower class than its client named.
    """
    candidate = submission.candidate
    claimed = candidate.claimed_source
    memory_id = outcome.memory.memory_id if outcome.memory else candidate.memory_id
    objection = outcome.objection
    origins = submission.provenance.culprits
    culprit = culprit_of(origins, candidate)
    resource = culprit and next((one.resource for one in origins if one.server or one.tool), None)
    reason, step = outcome.reason, outcome.step
    if objection is not None:
        reason, step = objection.reason, objection.step
    return VerdictRecorded(
        context=span.context,
        operation=_OPERATION[candidate.change],
        dialect=span.dialect,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        decision=outcome.decision.value,
        reason=reason.value if reason else "",
        step=step or 0,
        memory_class=outcome.memory_class.value,
        source_kind=outcome.source.value,
        claimed_source_kind=claimed.value if claimed else "",
        basis=outcome.basis.value,
        session=submission.provenance.session or "",
        principal=candidate.principal_id,
        tenant=candidate.tenant,
        # The candidate whose verdict is returned: for a repeated write, the first write's.
        candidate_id=outcome.candidate_id,
        memory_id=memory_id or "",
        version=outcome.version,
        leaf_index=outcome.leaf_index,
        replayed=outcome.replayed,
        ruleset_epoch=span.epoch,
        steps=_steps(outcome.passed, step),
        class_lowered=lowered,
        observed="" if objection is None else type(objection).__name__.lower(),
        culprit_kind=culprit.kind.value if culprit else "",
        culprit_server=culprit.server if culprit else "",
        culprit_tool=culprit.tool if culprit else "",
        culprit_call_id=culprit.call_id if culprit else "",
        culprit_resource=plain_name(
            resource.removeprefix(HOST), candidate.text, candidate.metadata_json
        )
        if resource
        else "",
        queued_us=outcome.queued_us,
        gate_us=outcome.gate_us,
        commit_us=outcome.commit_us,
    )


def rooted(
    events: Sequence[VerdictRecorded], trace: TraceContext, random_hex: RandomHex
) -> list[VerdictRecorded]:
    """The verdicts of one request, the gravest as the request's own span and the others below it.

    So a list of traces, which shows their roots, shows whether anything was held or refused.
    `random_hex` makes the others' span ids.
    """
    gravest = max(events, key=lambda one: one.gravity, default=None)
    below = msgspec.structs.replace(trace, parent_span_id=trace.span_id)
    return [
        event
        if event is gravest
        else msgspec.structs.replace(
            event, context=msgspec.structs.replace(below, span_id=random_hex(8))
        )
        for event in events
    ]


def decided_event(held: HeldCandidate, outcome: Outcome, span: VerdictPlace) -> VerdictRecorded:
    """The event of a person's verdict on a held candidate."""
    candidate = held.candidate
    memory_id = outcome.memory.memory_id if outcome.memory else None
    if memory_id is None and candidate is not None:
        memory_id = candidate.memory_id
    return VerdictRecorded(
        context=span.context,
        operation=_OPERATION[candidate.change if candidate else ChangeKind.CREATE],
        dialect=span.dialect,
        started_ns=span.started_ns,
        ended_ns=span.ended_ns,
        decision=outcome.decision.value,
        reason=outcome.reason.value if outcome.reason else "",
        step=outcome.step or 0,
        memory_class=outcome.memory_class.value,
        source_kind=outcome.source.value,
        claimed_source_kind="",
        basis=outcome.basis.value,
        session=held.session or "",
        principal=held.principal_id,
        tenant=held.tenant,
        candidate_id=outcome.candidate_id,
        memory_id=memory_id or "",
        version=outcome.version,
        leaf_index=outcome.leaf_index,
        replayed=False,
        ruleset_epoch=span.epoch,
        steps=_steps(outcome.passed, outcome.step),
        queued_us=outcome.queued_us,
        gate_us=outcome.gate_us,
        commit_us=outcome.commit_us,
    )


@lru_cache(maxsize=256)
def _steps(reached: tuple[int, ...], ended_at: int | None) -> tuple[StepOutcome, ...]:
    passed = frozenset(reached)
    return tuple(
        StepOutcome(
            step=step.number,
            name=step.name,
            outcome=(
                "passed"
                if step.number in passed
                else "failed"
                if step.number == ended_at
                else "not_reached"
            ),
        )
        for step in STEPS
    )
