"""Makes the spans of an incident: a root, and a child for each replay and each closure."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from telemetry import vocabulary
from telemetry.events import IncidentStepped

_UNSET: Final = Status(StatusCode.UNSET)
_TRACES_MAX: Final = 7  # as many ids as one attribute has room for
_FLAGS: Final = TraceFlags(TraceFlags.SAMPLED)

Attribute = str | int | bool


def incident_spans(
    event: IncidentStepped, resource: Resource, scope: InstrumentationScope
) -> list[ReadableSpan]:
    """The finished spans, root first; the root names the traces that committed the culprits."""
    own = _context(event, event.context.span_id)
    ended_ns = max(event.started_ns, event.ended_ns)

    def span(
        name: str,
        number: int,
        started_ns: int,
        ended_ns: int,
        attributes: dict[str, Attribute],
    ) -> ReadableSpan:
        seed = f"{event.context.trace_id}{event.context.span_id}{name}{number}".encode()
        return ReadableSpan(
            name=name,
            context=_context(event, blake2b(seed, digest_size=8).hexdigest()),
            parent=own,
            resource=resource,
            attributes=attributes,
            kind=SpanKind.INTERNAL,
            status=_UNSET,
            start_time=started_ns,
            end_time=max(started_ns, ended_ns),
            instrumentation_scope=scope,
        )

    root = ReadableSpan(
        name="mnemogate.incident",
        context=own,
        parent=None,
        resource=resource,
        attributes=_attributes(event),
        kind=SpanKind.INTERNAL,
        status=_UNSET,
        start_time=event.started_ns,
        end_time=ended_ns,
        instrumentation_scope=scope,
    )
    asks = (
        span(
            "mnemogate.ask",
            number,
            one.started_ns,
            one.ended_ns,
            {
                "mnemogate.ask.size": one.size,
                "mnemogate.ask.outcome": vocabulary.known(one.outcome, vocabulary.ASK_OUTCOMES),
                "mnemogate.ask.repeat": one.repeat,
                "mnemogate.incident.mode": vocabulary.known(event.mode, vocabulary.INCIDENT_MODES),
            },
        )
        for number, one in enumerate(event.asks)
    )
    closures = (
        span("mnemogate.closure", number, started_ns, done_ns, {})
        for number, (started_ns, done_ns) in enumerate(event.closures)
    )
    return [root, *asks, *closures]


def _attributes(event: IncidentStepped) -> dict[str, Attribute]:
    return {
        "mnemogate.incident.id": vocabulary.hex_id(event.incident_id),
        "mnemogate.incident.signal": vocabulary.known(event.signal, vocabulary.INCIDENT_SIGNALS),
        "mnemogate.incident.step": vocabulary.known(event.step, vocabulary.INCIDENT_STEPS),
        "mnemogate.incident.mode": vocabulary.known(event.mode, vocabulary.INCIDENT_MODES),
        "mnemogate.incident.why": vocabulary.known(event.why, vocabulary.INCIDENT_REASONS),
        "mnemogate.incident.suspects": event.suspects,
        "mnemogate.incident.rounds": event.rounds,
        "mnemogate.incident.culprits": event.culprits,
        "mnemogate.incident.traces": " ".join(map(vocabulary.hex_id, event.links[:_TRACES_MAX])),
        "mnemogate.tenant": vocabulary.printable(event.tenant),
    }


def _context(event: IncidentStepped, span_id: str) -> SpanContext:
    return SpanContext(
        trace_id=int(event.context.trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=_FLAGS,
    )
