"""W3C Trace Context: never an exception, no id of the caller's, and ours is known again."""

from __future__ import annotations

from telemetry.propagation import Traces, format_traceparent, recorded_id, recorded_parts

WORDS = (
    b"00-",
    b"-01",
    b"ff-",
    b"4bf92f3577b34da6a3ce929d0e0e4736",
    b"00f067aa0ba902b7",
    b"|",
    b",",
    b" \t",
)
TRACES = Traces(bytes(32), lambda count: "1" * 2 * count)


def check(data: bytes) -> None:
    given = tuple(part for part in data.decode("utf-8", "replace").split("|") if part)
    context = TRACES.accept(given)
    assert context.trace_id == TRACES.start().trace_id
    assert len(context.span_id) == 16
    assert recorded_parts(recorded_id(context)) == (context.trace_id, context.caller)
    again = TRACES.accept((format_traceparent(context),))
    assert (again.trace_id, again.parent_span_id) == (context.trace_id, context.span_id)
    assert (again.sampled, again.caller) == (context.sampled, "")
