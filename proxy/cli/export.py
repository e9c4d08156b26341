"""`mnemogate audit export` prints the log's files as JSON lines, `mnemogate trace` one request."""

from __future__ import annotations

import enum
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from policy.after.closure import CaseStep
from policy.checks import STEPS
from policy.model import ForwardStatus
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import next_step, opening
from proxy.cli.terminal import answering, inert
from proxy.reporting.ocsf import DetectionFinding, finding_of
from storage.audit import (
    IncidentLeaf,
    InterceptedLeaf,
    Leaf,
    OperatorLeaf,
    ResultLeaf,
    VerdictLeaf,
    class_lowered,
)
from storage.ground.errors import StorageError
from storage.ground.trusted_files import reason
from storage.opening import offline_store
from storage.values import Decision
from telemetry.propagation import recorded_parts

if TYPE_CHECKING:
    from storage.interfaces import OfflineStore

# The number of leaves read in one transaction. While a transaction is open, the sidecar cannot
# reuse pages of the store that it freed.
SLICE_LEN: Final = 5_000
FOLLOW_S: Final = 1.0


Record = dict[str, str | int | bool | list[str]]
_Fields = Mapping[str, str | int | list[str] | enum.Enum | None]

ECS_VERSION: Final = "8.11"
_OUTCOMES: Final = {
    Decision.ADMIT: "success",
    Decision.HOLD: "unknown",
    Decision.REJECT: "failure",
}
_RESULTS: Final = {
    ForwardStatus.DONE: "success",
    ForwardStatus.FAILED: "failure",
    ForwardStatus.NO_EFFECT: "failure",
    ForwardStatus.UNKNOWN: "unknown",
}
_ENDED: Final = frozenset({CaseStep.HEALED, CaseStep.CLOSED})


def record_of(index: int, leaf: Leaf, intercepted: InterceptedLeaf | None) -> Record | None:
    """The record of one leaf; None for an interception, as its verdict's record has its fields."""
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


def _present(fields: _Fields) -> Record:
    """The fields that have a value; that of an enum is its value."""
    return {
        name: one.value if isinstance(one, enum.Enum) else one
        for name, one in fields.items()
        if one is not None
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
    record |= _present(
        {
            "event.reason": leaf.reason,
            "mnemogate.step": leaf.step,
            "mnemogate.memory.id": leaf.memory_id,
            "mnemogate.observed": leaf.objection,
            "mnemogate.approved_by": leaf.approved_by if leaf.objection is None else None,
            "mnemogate.session": leaf.session,
        }
    )
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
    """The fields of a verdict's record that describe the client's request."""
    trace_id, caller = recorded_parts(intercepted.trace_id)
    return _present(
        {
            "event.action": f"memory-{intercepted.change.value}",
            "user.id": intercepted.principal_id,
            "organization.id": intercepted.tenant,
            "trace.id": trace_id,
            "mnemogate.class_named": intercepted.class_named,
            "mnemogate.caller": caller or None,
            "mnemogate.class_lowered": class_lowered(intercepted, leaf) or None,
            "mnemogate.claimed.source.kind": intercepted.claimed_source,
        }
    )


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
    fields: _Fields = {
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
        "mnemogate.incident.mode": leaf.mode,
        "mnemogate.incident.why": leaf.why,
    }
    return _common(index, leaf.at_ms, "incident") | _present(fields)


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


class _Export(msgspec.Struct, frozen=True, kw_only=True):
    since: Annotated[int, Meta(ge=0, le=2**62)] = 0
    follow: bool = False
    incidents: str = "ecs"


def exported(
    store: OfflineStore, since: int, *, ocsf: bool = False
) -> Iterator[tuple[int, list[Record | DetectionFinding]]]:
    """Yield the committed log from leaf `since` on: the index of the next leaf, and some records.

    With `ocsf`, steps of incidents of wrong answers are in the form of OCSF Detection Findings.

    Raises:
        StoreUnavailable: The store cannot be read.
        UnknownFormat: Another version wrote the store.
        StoreCorrupt: A leaf is missing or damaged.
    """
    at = since
    while leaves := store.leaves(at, SLICE_LEN):
        told = (_told(index, *leaf, ocsf=ocsf) for index, leaf in enumerate(leaves, at))
        at += len(leaves)
        yield at, [record for record in told if record is not None]


def _told(
    index: int, leaf: Leaf, intercepted: InterceptedLeaf | None, *, ocsf: bool
) -> Record | DetectionFinding | None:
    if ocsf and isinstance(leaf, IncidentLeaf):
        return finding_of(leaf)
    return record_of(index, leaf, intercepted)


def _export(context: Context) -> Exit:
    asked = context.arguments(_Export)
    store = offline_store(settings_of(context).state)
    stop = threading.Event()
    if asked.follow:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())
    at = asked.since
    try:
        while True:
            for until, records in exported(store, at, ocsf=asked.incidents == "ocsf"):
                for record in records:
                    with answering():
                        sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
                with answering():
                    sys.stdout.buffer.flush()
                at = until
                if stop.is_set():
                    return Exit.OK
            if not asked.follow or stop.wait(FOLLOW_S):
                return Exit.OK
    except BrokenPipeError:
        raise  # the reader of the output closed the pipe, so the export ends here
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"stopped before leaf {at}: {reason(error)}",
            then=next_step(error, f"run as the sidecar's user or root; go on with --since {at}"),
        ) from error


# The fields of a record that may name the trace that is asked for, and those in its first lines.
_IDS: Final = ("trace.id", "mnemogate.caller", "event.id", "mnemogate.memory.id")
_HEADS: Final = ("@", "ecs.", "event.", "mnemogate.decision", "mnemogate.result")


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, Meta(min_length=8, max_length=64)]


def _trace(context: Context) -> Exit:
    begins, state = context.arguments(_Trace).id, settings_of(context).state
    candidates: set[object] = set()
    with opening(state):
        for _, records in exported(offline_store(state), 0):
            for record in (one for one in records if isinstance(one, dict)):
                named = any(str(record.get(name, "")).startswith(begins) for name in _IDS)
                # The outcome of a forwarded change has no trace: its candidate was named before.
                if named or record.get("event.id") in candidates:
                    candidates.add(record["event.id"])
                    _show(context, record | {"mnemogate.steps": _steps(record)})
    if not candidates:
        raise CommandFailed(
            Exit.NOT_FOUND, "no verdict has a trace, caller, candidate or memory of this id"
        )
    return Exit.OK


def _show(context: Context, record: Record) -> None:
    context.terminal.answer(record)
    heads = ("event.action", "mnemogate.decision", "mnemogate.result", "event.reason")
    decided = " ".join(str(record[name]) for name in heads if name in record)
    context.terminal.say(
        f"{record['@timestamp']} {decided}\n"
        f"  candidate {record['event.id']}, leaf {record['event.sequence']}"
    )
    told = {name: one for name, one in record.items() if not name.startswith(_HEADS)}
    for name, value in told.items():
        for line in value if isinstance(value, list) else [str(value)]:
            context.terminal.say(f"  {name.removeprefix('mnemogate.'):<20} {inert(line)}")


def _steps(record: Record) -> list[str]:
    """The gate's steps in their order, as far as the leaves show them.

    None for a decision that no step made, as a person's, or one that observe mode passed over.
    """
    decision, ended = record.get("mnemogate.decision"), record.get("mnemogate.step")
    unknown = decision != "admit" and not ended
    if unknown or "mnemogate.approved_by" in record or "mnemogate.observed" in record:
        return []
    numbers: list[object] = [step.number for step in STEPS]
    ran = numbers.index(ended) + 1 if decision == "reject" else len(STEPS)
    # A leaf names the step that refused, or the first of the steps that held.
    other = "passed" if decision == "admit" else "no refusal"
    return [
        f"{step.number:>2} {step.name:<17} {decision if step.number == ended else other}"
        for step in STEPS[:ran]
    ]


COMMANDS = (
    Command(
        words=("audit", "export"),
        summary="print verdicts and operators' acts as JSON lines for a SIEM, without content",
        act=_export,
        options=(
            option(
                "--since",
                "the first leaf to tell: one more than the last event.sequence (default: 0)",
                metavar="INDEX",
            ),
            option("--follow", "go on as the log grows"),
            option(
                "--incidents",
                "the schema of incidents of wrong answers; everything else is ECS (default: ecs)",
                choices=("ecs", "ocsf"),
            ),
        ),
        form=_Export,
    ),
    Command(
        words=("trace",),
        summary="print the verdicts of one request with the gate's steps, from the log's files",
        act=_trace,
        options=(
            option(
                "id",
                "a trace, its caller (Mnemogate-Caller), a candidate or a memory: the id, or its "
                "first 8 characters or more",
                metavar="ID",
            ),
        ),
        form=_Trace,
    ),
)
