"""Pure functions from an event to its finished spans, called on the exporter's thread.

Spans are built after the event, from times that the event contains, without a tracer, context
variables or a processor. A reject is a success of the gate, so its status is UNSET (OpenTelemetry,
recording errors); only a gate that could not decide is an ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from telemetry import vocabulary
from telemetry.events import (
    Event,
    IncidentStepped,
    ModelServed,
    ReadServed,
    RequestServed,
    StepOutcome,
    TraceContext,
    VerdictRecorded,
)
from telemetry.incidents import incident_spans
from telemetry.settings import TelemetrySettings

PROVIDER: Final = "mnemogate"
SCOPE: Final = InstrumentationScope("mnemogate")
_UNSET: Final = Status(StatusCode.UNSET)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_NO_STATE: Final = TraceState()
_OPERATIONS: Final = vocabulary.WRITE_OPERATIONS | vocabulary.READ_OPERATIONS
# The lower half of a trace id is random in every generator (W3C Trace Context 2.2.3).
_SHARE_BITS: Final = 64
_TRACE_ID_LEN: Final = 32
_SPAN_ID_LEN: Final = 16
_NS_PER_US: Final = 1_000

Attribute = str | int | bool
# A call of a model can be refused before it is judged, and then there is no verdict on it.
_UNJUDGED: Final[dict[str, Attribute]] = {
    "output.value": "reject: a call that could not be judged",
    "output.mime_type": "text/plain",
    "mnemogate.decision": "reject",
    "mnemogate.objected": True,
    "mnemogate.reason": vocabulary.OTHER,
}


class SharedResource(Resource):
    """A resource whose hash is computed once; the SDK would hash it as JSON for each span."""

    def __init__(self, attributes: dict[str, str]) -> None:
        super().__init__(attributes)
        self._hashed = super().__hash__()

    def __hash__(self) -> int:
        return self._hashed

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


def resource_of(settings: TelemetrySettings) -> Resource:
    """The resource that identifies this process as the sender of spans.

    The SDK's detectors do not run, so OTEL_RESOURCE_ATTRIBUTES is ignored.
    """
    attributes = {key: vocabulary.printable(value) for key, value in settings.resource}
    attributes["service.name"] = vocabulary.printable(settings.service_name)
    if settings.service_version:
        attributes["service.version"] = vocabulary.printable(settings.service_version)
    return SharedResource(attributes)


def is_traced(event: Event) -> bool:
    """Whether the event becomes spans.

    Refusals are traced even if the caller's sampled flag is off: an agent could otherwise switch
    off the trace of its own attack. Requests are only in metrics and logs.
    """
    match event:
        case VerdictRecorded():
            return event.context.sampled or event.gravity > 0
        case ReadServed():
            return event.context.sampled
        case ModelServed():
            # Refused writes are always traced, and their spans have this request's span as parent.
            return event.context.sampled or event.refused > 0
        case IncidentStepped():
            return event.ended
        case RequestServed():
            return False


def spans_of(
    event: Event,
    resource: Resource,
    admit_detail_share: float,
    gravest: VerdictRecorded | None = None,
) -> list[ReadableSpan]:
    """The finished spans of one event, root first; [] for one that is not traced.

    `gravest` is the gravest verdict below the span of a model request; None if there is none.

    Raises:
        ValueError: An id of the trace context does not have the form that W3C requires.
    """
    if not is_traced(event):
        return []
    match event:
        case VerdictRecorded():
            return _verdict_spans(event, resource, admit_detail_share)
        case ReadServed():
            return [_read_span(event, resource)]
        case ModelServed():
            return [_model_span(event, resource, gravest)]
        case IncidentStepped():
            return incident_spans(event, resource, SCOPE)
        case RequestServed():
            return []


def is_detailed(event: VerdictRecorded, admit_detail_share: float) -> bool:
    """Whether the verdict gets a child span per step; for an admit, its trace id decides."""
    if event.gravity:
        return True
    drawn = int(event.context.trace_id[16:], 16)
    return drawn < int(admit_detail_share * (1 << _SHARE_BITS))


def _verdict_spans(
    event: VerdictRecorded, resource: Resource, admit_detail_share: float
) -> list[ReadableSpan]:
    own = _span_context(event.context, event.context.span_id)
    operation = _operation(event.operation)
    decision = vocabulary.known(event.decision, vocabulary.DECISIONS)
    root = ReadableSpan(
        # The name contains operation and decision, because lists of traces show names first.
        name=f"{operation} {decision}",
        context=own,
        parent=_parent(event.context),
        resource=resource,
        attributes=_verdict_attributes(event, operation),
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR) if event.decision == "error" else _UNSET,
        start_time=event.started_ns,
        end_time=max(event.started_ns, event.ended_ns),
        instrumentation_scope=SCOPE,
    )
    if not is_detailed(event, admit_detail_share):
        return [root]
    reached = [step for step in event.steps if step.outcome != "not_reached"]
    intervals = _step_intervals(event, reached)
    return [
        root,
        *(
            _step_span(event, step, interval, own, resource)
            for step, interval in zip(reached, intervals, strict=True)
        ),
    ]


def _verdict_attributes(event: VerdictRecorded, operation: str) -> dict[str, Attribute]:
    tenant = vocabulary.printable(event.tenant)
    attributes: dict[str, Attribute] = {
        # The attributes are in the order in which a person asks: the decision, its reason, and the
        # principal of the write.
        **_decided(event),
        "mnemogate.memory.class": vocabulary.known(event.memory_class, vocabulary.MEMORY_CLASSES),
        "mnemogate.source.kind": vocabulary.known(event.source_kind, vocabulary.SOURCE_KINDS),
        "mnemogate.claimed.source.kind": vocabulary.known(
            event.claimed_source_kind, vocabulary.SOURCE_KINDS
        ),
        "mnemogate.basis": vocabulary.known(event.basis, vocabulary.BASES),
        "mnemogate.principal": vocabulary.printable(event.principal),
        "mnemogate.tenant": tenant,
        "mnemogate.candidate.id": vocabulary.hex_id(event.candidate_id),
        "mnemogate.epoch": event.ruleset_epoch,
        "mnemogate.replayed": event.replayed,
        "mnemogate.dialect": vocabulary.name(event.dialect),
        "mnemogate.queued_us": event.queued_us,
        "mnemogate.gate_us": event.gate_us,
        "mnemogate.commit_us": event.commit_us,
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.memory.store.id": tenant,
        "gen_ai.memory.record.count": 1,
        "openinference.span.kind": "GUARDRAIL",
        **_session(event.session),
        **_culprit(event),
        **_caller(event.context),
    }
    if event.memory_id:
        attributes["gen_ai.memory.record.id"] = vocabulary.hex_id(event.memory_id)
    if event.class_lowered:
        attributes["mnemogate.class_lowered"] = True
    if event.error_type or event.decision == "error":
        attributes["error.type"] = vocabulary.name(event.error_type)
    return attributes


def _decided(event: VerdictRecorded) -> dict[str, Attribute]:
    """The decision and its reason, on the span of the verdict and on the root of its trace."""
    attributes: dict[str, Attribute] = {
        "output.value": _told(event),
        "output.mime_type": "text/plain",
        "mnemogate.decision": vocabulary.known(event.decision, vocabulary.DECISIONS),
    }
    if event.gravity:
        attributes |= {
            "mnemogate.objected": True,
            "mnemogate.reason": vocabulary.known(event.reason, vocabulary.REASONS),
            "mnemogate.step": event.step,
        }
    if event.observed:
        attributes["mnemogate.observed"] = vocabulary.known(event.observed, vocabulary.DECISIONS)
    return attributes


def _culprit(event: VerdictRecorded) -> dict[str, Attribute]:
    """The names of the text's origin; a tool of the host itself has no server."""
    names = {
        "server": event.culprit_server and vocabulary.name(event.culprit_server),
        "tool": event.culprit_tool and vocabulary.name(event.culprit_tool),
        "call_id": event.culprit_call_id and vocabulary.call_id(event.culprit_call_id),
        "resource": event.culprit_resource and vocabulary.call_id(event.culprit_resource),
    }
    if any(names.values()):
        names["source.kind"] = vocabulary.known(event.culprit_kind, vocabulary.SOURCE_KINDS)
    return {f"mnemogate.culprit.{part}": shown for part, shown in names.items() if shown}


def _session(session: str) -> dict[str, Attribute]:
    """The id of the session, by the names that backends group traces by; {} for none."""
    names = ("mnemogate.session", "session.id", "gen_ai.conversation.id") if session else ()
    return dict.fromkeys(names, vocabulary.hex_id(session))


def _told(event: VerdictRecorded) -> str:
    """The verdict as one line of fixed words, for a list of traces."""
    decision = vocabulary.known(event.decision, vocabulary.DECISIONS)
    reason = vocabulary.known(event.reason, vocabulary.REASONS)
    told = decision if decision == "admit" else f"{decision}: {reason}"
    if event.observed:
        told = f"admit, observed {vocabulary.known(event.observed, vocabulary.DECISIONS)}: {reason}"
    memory_class = vocabulary.known(event.memory_class, vocabulary.MEMORY_CLASSES)
    source = vocabulary.known(event.source_kind, vocabulary.SOURCE_KINDS)
    return f"{told}, {memory_class} from {source}"


def _read_span(event: ReadServed, resource: Resource) -> ReadableSpan:
    operation = _operation(event.operation)
    tenant = vocabulary.printable(event.tenant)
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.memory.store.id": tenant,
        "gen_ai.memory.record.count": event.record_count,
        "openinference.span.kind": "RETRIEVER",
        "mnemogate.principal": vocabulary.printable(event.principal),
        "mnemogate.tenant": tenant,
        "mnemogate.dialect": vocabulary.name(event.dialect),
        **_caller(event.context),
    }
    if event.recall_id:
        attributes["mnemogate.recall.id"] = vocabulary.hex_id(event.recall_id)
    if event.error_type:
        attributes["error.type"] = vocabulary.name(event.error_type)
    return ReadableSpan(
        name=operation,
        context=_span_context(event.context, event.context.span_id),
        parent=_parent(event.context),
        resource=resource,
        attributes=attributes,
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR) if event.error_type else _UNSET,
        start_time=event.started_ns,
        end_time=max(event.started_ns, event.ended_ns),
        instrumentation_scope=SCOPE,
    )


def _model_span(
    event: ModelServed, resource: Resource, gravest: VerdictRecorded | None
) -> ReadableSpan:
    model = vocabulary.model_name(event.model, event.status)
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": vocabulary.known(event.provider, vocabulary.PROVIDERS),
        "gen_ai.request.model": model,
        "openinference.span.kind": "LLM",
        "http.response.status_code": event.status,
        "mnemogate.api": vocabulary.known(event.api, vocabulary.MODEL_APIS),
        "mnemogate.principal": vocabulary.printable(event.principal),
        "mnemogate.tenant": vocabulary.printable(event.tenant),
        **_session(event.session),
        "mnemogate.streamed": event.streamed,
        "mnemogate.askings": event.askings,
        "mnemogate.calls": event.calls,
        "mnemogate.calls.refused": event.refused,
        "mnemogate.withheld": event.withheld,
        "mnemogate.reply.memories": event.reply_memories,
        **_caller(event.context),
    }
    if gravest is not None:
        attributes |= _decided(gravest)
    if event.refused and "mnemogate.objected" not in attributes:
        attributes |= _UNJUDGED
    for name, at_ns in (("sent_us", event.sent_ns), ("first_byte_us", event.first_ns)):
        if at_ns:
            attributes[f"mnemogate.{name}"] = max(0, at_ns - event.started_ns) // _NS_PER_US
    if event.error_type:
        attributes["error.type"] = vocabulary.name(event.error_type)
    return ReadableSpan(
        name=f"chat {model}",
        context=_span_context(event.context, event.context.span_id),
        parent=_parent(event.context),
        resource=resource,
        attributes=attributes,
        kind=SpanKind.CLIENT,
        status=Status(StatusCode.ERROR) if event.error_type else _UNSET,
        start_time=event.started_ns,
        end_time=max(event.started_ns, event.ended_ns),
        instrumentation_scope=SCOPE,
    )


def _step_span(
    event: VerdictRecorded,
    step: StepOutcome,
    interval: tuple[int, int],
    root: SpanContext,
    resource: Resource,
) -> ReadableSpan:
    step_name = vocabulary.name(step.name)
    outcome = vocabulary.known(step.outcome, vocabulary.OUTCOMES)
    attributes: dict[str, Attribute] = {
        "openinference.span.kind": "GUARDRAIL",
        "mnemogate.step": step.step,
        "mnemogate.step.name": step_name,
        "mnemogate.step.outcome": outcome,
        "mnemogate.candidate.id": vocabulary.hex_id(event.candidate_id),
    }
    ended = ""
    if outcome == "failed" and step.step == event.step:
        reason = vocabulary.known(event.reason, vocabulary.REASONS)
        attributes["mnemogate.decision"] = vocabulary.known(event.decision, vocabulary.DECISIONS)
        attributes["mnemogate.reason"] = reason
        ended = f" failed: {reason}"
    return ReadableSpan(
        name=f"step {step.step} {step_name}{ended}",
        context=_span_context(event.context, _step_span_id(event.context, step.step)),
        parent=root,
        resource=resource,
        attributes=attributes,
        kind=SpanKind.INTERNAL,
        status=_UNSET,
        start_time=interval[0],
        end_time=interval[1],
        instrumentation_scope=SCOPE,
    )


def _step_intervals(event: VerdictRecorded, steps: Sequence[StepOutcome]) -> list[tuple[int, int]]:
    """Start and end of each step, in Unix nanoseconds: equal parts of the gate's own interval.

    The gate measures no step, and is taken to have ended when the commit began.
    """
    earliest, latest = event.started_ns, max(event.started_ns, event.ended_ns)
    gate_ns = max(0, event.gate_us) * _NS_PER_US
    started_ns = max(earliest, latest - max(0, event.commit_us) * _NS_PER_US - gate_ns)
    gate_ns = min(gate_ns, latest - started_ns)
    count = max(1, len(steps))
    return list(pairwise(started_ns + gate_ns * at // count for at in range(len(steps) + 1)))


def _operation(operation: str) -> str:
    return vocabulary.known(operation, _OPERATIONS)


def _span_context(context: TraceContext, span_id: str, *, is_remote: bool = False) -> SpanContext:
    if len(context.trace_id) != _TRACE_ID_LEN or len(span_id) != _SPAN_ID_LEN:
        raise ValueError("trace or span id has the wrong length")
    # The trace state is empty: an agent could put half a kilobyte of refused text into its
    # `tracestate`, which is therefore not read.
    return SpanContext(
        trace_id=int(context.trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=is_remote,
        trace_flags=_SAMPLED,
        trace_state=_NO_STATE,
    )


def _caller(context: TraceContext) -> dict[str, Attribute]:
    """The attribute with the hash of the caller's trace id, to find the caller's trace by."""
    return {"mnemogate.caller": vocabulary.hex_id(context.caller)} if context.caller else {}


def _parent(context: TraceContext) -> SpanContext | None:
    parent = context.parent_span_id
    return _span_context(context, parent, is_remote=True) if parent else None


def _step_span_id(context: TraceContext, step: int) -> str:
    """The span id of a step, computed from the write's trace and span id, so not random."""
    return blake2b(f"{context.trace_id}{context.span_id}{step}".encode(), digest_size=8).hexdigest()
