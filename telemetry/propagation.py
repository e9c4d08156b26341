"""W3C Trace Context with trace ids made here; a caller's trace id is reported only as a hash.

A caller chooses the sixteen bytes of its trace id, and could write a refused text into the log and
the export with them. So the caller's id is hashed with the store's key. Of the caller's other
values only the sampled flag is used: no `tracestate`, no baggage.

A header that does not exactly follow the recommendation counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from telemetry.events import TraceContext

RandomHex = Callable[[int], str]
"""Returns `n` unpredictable bytes as `2n` hex digits."""

_SPAN_ID_BYTES: Final = 8
_MARK_BYTES: Final = 8
_NO_SPAN: Final = "0" * 2 * _SPAN_ID_BYTES
_SAMPLED: Final = 0x01
_PARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-"
    r"(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII,
)
_PARENT_LEN_MAX: Final = 512


class Traces:
    """Makes the trace context of each request. Thread-safe if `random_hex` is.

    The second half of a trace id made here is a keyed hash of the first half. So the id is
    recognised without a list of ids, when another process of the sidecar or a client continues its
    trace.
    """

    def __init__(self, key: bytes, random_hex: RandomHex) -> None:
        """`key` is the key of all hashes; with the same key, ids are recognised after a restart."""
        self._key = key
        self._random_hex = random_hex

    def start(self, *, sampled: bool = True, caller: str = "") -> TraceContext:
        """A new trace without a parent; `caller` is the hash of a caller's trace id."""
        half = self._random_hex(_MARK_BYTES)
        return TraceContext(
            trace_id=half + self._hashed(b"own", half),
            span_id=_drawn_span(self._random_hex),
            sampled=sampled,
            caller=caller,
        )

    def accept(self, traceparents: Sequence[str]) -> TraceContext:
        """The context of a request, from the values of its `traceparent` headers.

        A trace whose id was made here is continued, below the caller's span. Any other id, or none,
        begins a new trace. More than one header is ambiguous (W3C Trace Context 3.2), and counts as
        none.
        """
        parsed = _parse_traceparent(traceparents[0]) if len(traceparents) == 1 else None
        if parsed is None:
            return self.start()
        trace_id, parent_span_id, sampled = parsed
        if self._is_ours(trace_id):
            return TraceContext(
                trace_id=trace_id,
                span_id=_drawn_span(self._random_hex),
                parent_span_id=parent_span_id,
                sampled=sampled,
            )
        return self.start(sampled=sampled, caller=self._hashed(b"caller", trace_id))

    def _is_ours(self, trace_id: str) -> bool:
        half = trace_id[: 2 * _MARK_BYTES]
        return compare_digest(trace_id, half + self._hashed(b"own", half))

    def _hashed(self, purpose: bytes, text: str) -> str:
        return blake2b(
            text.encode(), digest_size=_MARK_BYTES, key=self._key, person=purpose
        ).hexdigest()


def recorded_id(context: TraceContext) -> str:
    """The form of a trace in the audit log: its id, and after a hyphen the caller id's hash."""
    return f"{context.trace_id}-{context.caller}" if context.caller else context.trace_id


def recorded_parts(recorded: str) -> tuple[str, str]:
    """The two parts of a `recorded_id`: the trace id, and the caller id's hash or ""."""
    trace_id, _, caller = recorded.partition("-")
    return trace_id, caller


def format_traceparent(context: TraceContext) -> str:
    """The `traceparent` value that makes `context` the parent of the receiver's span."""
    return f"00-{context.trace_id}-{context.span_id}-{_SAMPLED if context.sampled else 0:02x}"


def _parse_traceparent(value: str) -> tuple[str, str, bool] | None:
    """The trace id, span id and sampled flag in a header's value; None if it is invalid."""
    if len(value) > _PARENT_LEN_MAX:
        return None
    match = _PARENT.fullmatch(value)
    if match is None or match["version"] == "ff":
        return None
    if match["version"] == "00" and match["more"] is not None:
        return None
    if not match["trace"].strip("0") or not match["span"].strip("0"):
        return None
    return match["trace"], match["span"], bool(int(match["flags"], 16) & _SAMPLED)


def _drawn_span(random_hex: RandomHex) -> str:
    """A random span id; never all zeros, which W3C forbids."""
    while True:
        drawn = random_hex(_SPAN_ID_BYTES)
        if drawn != _NO_SPAN:
            return drawn
