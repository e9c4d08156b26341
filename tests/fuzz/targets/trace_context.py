"""W3C Trace Context: never an exception; what is taken over can be sent on and read again."""

from __future__ import annotations

from telemetry.propagation import accept, accept_meta, parse_tracestate, to_headers, to_meta
from tests.fuzz.choices import lines_of

WORDS = (
    b"00-",
    b"-01",
    b"ff-",
    b"4bf92f3577b34da6a3ce929d0e0e4736",
    b"00f067aa0ba902b7",
    b"congo=t61rcWkgMzE",
    b"tenant@vendor=",
    b",",
    b" \t",
)


def random(length: int) -> bytes:
    return b"\x11" * length


def check(data: bytes) -> None:
    parents, _, states = lines_of(data).partition("\n")
    traceparents = tuple(part for part in parents.split("|") if part)
    tracestates = tuple(states.split("\n"))
    context = accept(traceparents, tracestates, random)
    assert len(context.trace_id) == 32
    assert len(context.span_id) == 16
    headers = to_headers(context)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    states_again = (headers["tracestate"],) if "tracestate" in headers else ()
    again = accept((headers["traceparent"],), states_again, random)
    assert (again.trace_id, again.parent_span_id) == (context.trace_id, context.span_id)
    assert (again.sampled, again.tracestate) == (context.sampled, context.tracestate)
    assert parse_tracestate(context.tracestate) == context.tracestate
    meta: dict[str, object] = {"traceparent": parents, "tracestate": states, "baggage": states}
    assert "baggage" not in to_meta(meta, accept_meta(meta, random))
