"""Leaves of the audit log as records for a SIEM: the names of the Elastic Common Schema, flat.

Pure. A record is made of leaves alone, so it has no content. Strings that a client chose (a target,
a memory id that is no UUID) are not in a leaf as text either.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from policy.after.case_steps import CaseStep
from policy.model import ForwardStatus
from storage.audit import (
    IncidentLeaf,
    InterceptedLeaf,
    Leaf,
    OperatorLeaf,
    ResultLeaf,
    VerdictLeaf,
    class_lowered,
)
from storage.values import Decision
from telemetry.propagation import recorded_parts

Record = dict[str, str | int | bool | list[str]]

ECS_VERSION: Final = "8.11"
_OUTCOMES: Final = {
    Decision.ADMIT: "success",
    Decision.HOLD: "unknown",
    Decision.REJECT: "failure",
}
_RESULTS: Final = {
    ForwardStatus.DONE: "success",
    ForwardStatus.FAILED: "failure",
    ForwardStatus.UNKNOWN: "unknown",
}
_ENDED: Final = frozenset({CaseStep.HEALED, CaseStep.CLOSED})


def record_of(index: int, leaf: Leaf, intercepted: InterceptedLeaf | None) -> Record | None:
    """The record of one leaf. None for an interception: its fields are in its verdict's record."""
    match leaf:
        case InterceptedLeaf():
            return None
        case VerdictLeaf():
            return _verdict(index, leaf, intercepted)
        case OperatorLeaf():
            return _operator(index, leaf)
        case ResultLeaf():
            return _result(index, leaf)
        case IncidentLeaf():
            return _incident(index, leaf)


def _common(index: int, at_ms: int, dataset: str) -> Record:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return {
        "@timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "ecs.version": ECS_VERSION,
        "event.module": "mnemogate",
        "event.dataset": f"mnemogate.{dataset}",
        "event.sequence": index,
    }


def _verdict(index: int, leaf: VerdictLeaf, intercepted: InterceptedLeaf | None) -> Record:
    objected = leaf.decision is not Decision.ADMIT or leaf.objection is not None
    record = _common(index, leaf.at_ms, "verdict") | {
        "event.kind": "alert" if objected else "event",
        "event.category": ["database"],
        "event.type": ["change", "allowed" if leaf.decision is Decision.ADMIT else "denied"],
        "event.outcome": _OUTCOMES[leaf.decision],
        "event.id": leaf.candidate_id,
        "mnemogate.decision": leaf.decision.value,
        "mnemogate.memory.class": leaf.memory_class.value,
        "mnemogate.source.kind": leaf.source.value,
        "mnemogate.basis": leaf.basis.value,
        "mnemogate.version": leaf.version,
        "mnemogate.epoch": leaf.ruleset_epoch,
        "mnemogate.structural": leaf.structural,
        "mnemogate.trust": leaf.trust_level,
    }
    if leaf.reason is not None:
        record["event.reason"] = leaf.reason.value
    if leaf.step is not None:
        record["mnemogate.step"] = leaf.step
    if leaf.memory_id is not None:
        record["mnemogate.memory.id"] = leaf.memory_id
    if leaf.objection is not None:
        record["mnemogate.observed"] = leaf.objection
    elif leaf.approved_by is not None:
        record["mnemogate.approved_by"] = leaf.approved_by
    if leaf.session is not None:
        record["mnemogate.session"] = leaf.session
    if leaf.culprit is not None:
        record |= {
            "mnemogate.culprit.source.kind": leaf.culprit.kind.value,
            "mnemogate.culprit.server": leaf.culprit.server,
            "mnemogate.culprit.tool": leaf.culprit.tool,
            "mnemogate.culprit.call_id": leaf.culprit.call_id,
        }
    if intercepted is not None:
        record |= _asked(leaf, intercepted)
    return record


def _asked(leaf: VerdictLeaf, intercepted: InterceptedLeaf) -> Record:
    """The fields of a verdict's record that come from what the client asked for."""
    trace_id, caller = recorded_parts(intercepted.trace_id)
    record: Record = {
        "event.action": f"memory-{intercepted.change.value}",
        "user.id": intercepted.principal_id,
        "organization.id": intercepted.tenant,
        "trace.id": trace_id,
        "mnemogate.class_named": intercepted.class_named,
    }
    if caller:
        record["mnemogate.caller"] = caller
    if class_lowered(intercepted, leaf):
        record["mnemogate.class_lowered"] = True
    if intercepted.claimed_source is not None:
        record["mnemogate.claimed.source.kind"] = intercepted.claimed_source.value
    return record


def _result(index: int, leaf: ResultLeaf) -> Record:
    return _common(index, leaf.at_ms, "result") | {
        "event.kind": "event",
        "event.category": ["database"],
        "event.type": ["change"],
        "event.outcome": _RESULTS[leaf.result],
        "event.action": "memory-forwarded",
        "event.id": leaf.candidate_id,
        "user.id": leaf.by,
        "mnemogate.result": leaf.result.value,
    }


def _incident(index: int, leaf: IncidentLeaf) -> Record:
    record = _common(index, leaf.at_ms, "incident") | {
        "event.kind": "alert",
        "event.category": ["intrusion_detection"],
        "event.type": ["end" if leaf.step in _ENDED else "info"],
        "event.outcome": "success" if leaf.step in _ENDED else "unknown",
        "event.action": f"incident-{leaf.step.value}",
        "event.id": leaf.case_id,
        "user.id": leaf.by,
        "mnemogate.incident.step": leaf.step.value,
        "mnemogate.incident.signal": leaf.signal.value,
        "mnemogate.incident.suspects": leaf.suspects,
        "mnemogate.incident.asks": leaf.asks,
        "mnemogate.incident.culprits": leaf.culprits,
    }
    if leaf.mode is not None:
        record["mnemogate.incident.mode"] = leaf.mode.value
    if leaf.why is not None:
        record["mnemogate.incident.why"] = leaf.why
    return record


def _operator(index: int, leaf: OperatorLeaf) -> Record:
    return _common(index, leaf.at_ms, "operator") | {
        "event.kind": "event",
        "event.category": ["configuration"],
        "event.type": ["change"],
        "event.outcome": "success",
        "event.action": leaf.action,
        "user.id": leaf.by,
        "mnemogate.subject": leaf.subject,
        "mnemogate.detail": leaf.detail,
    }
