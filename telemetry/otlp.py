"""Encodes finished spans as OTLP bytes (opentelemetry-proto, trace/v1).

The SDK's encoder takes about 100 us a span, holding the interpreter lock that the event loop and
the writer thread need too. The encoder here takes a tenth of that, mostly by caching repeated
attributes. It encodes scalar attributes only, no events and no links; tests compare its bytes with
the SDK's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind

# Each constant is the field number and wire type (0 varint, 1 fixed64, 2 length-delimited, 5
# fixed32) of one field.
_TRACE_ID: Final = b"\x0a\x10"  # field 1, 16 bytes: trace id
_SPAN_ID: Final = b"\x12\x08"  # field 2, 8 bytes: span id
_TRACE_STATE: Final = b"\x1a"  # field 3: trace state
_PARENT_SPAN_ID: Final = b"\x22\x08"  # field 4, 8 bytes: parent span id
_NAME: Final = b"\x2a"  # field 5: name
_KIND: Final = b"\x30"  # field 6: kind
_TIMES: Final = struct.Struct("<cQcQ")  # fields 7 and 8: start and end
_ATTRIBUTE: Final = b"\x4a"  # field 9: attributes
_STATUS: Final = b"\x7a"  # field 15: status
_FLAGS: Final = struct.Struct("<2sI")  # field 16: flags
_RESOURCE: Final = b"\x0a"
_SCOPE_SPANS: Final = b"\x12"
_SCOPE: Final = b"\x0a"
_SPAN: Final = b"\x12"
_RESOURCE_SPANS: Final = b"\x0a"

_BLANK: Final = SpanContext(trace_id=1, span_id=1, is_remote=False)
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200
_KINDS: Final = {
    SpanKind.INTERNAL: b"\x01",
    SpanKind.SERVER: b"\x02",
    SpanKind.CLIENT: b"\x03",
    SpanKind.PRODUCER: b"\x04",
    SpanKind.CONSUMER: b"\x05",
}
_UINT64_MASK: Final = (1 << 64) - 1
_ONE_BYTE: Final = 0x80


class Envelope:
    """The bytes around a request's spans, resource and scope, which are encoded only once."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        # The SDK encodes a blank span with resource and scope, of which only these two are used.
        blank = ReadableSpan(
            "", context=_BLANK, resource=resource, instrumentation_scope=scope, start_time=0
        )
        written = encode_spans([blank]).resource_spans[0]
        self._resource = _field(_RESOURCE, written.resource.SerializeToString())
        self._scope = _field(_SCOPE, written.scope_spans[0].scope.SerializeToString())

    def around(self, spans: Sequence[bytes]) -> bytes:
        """An ExportTraceServiceRequest with the given spans, each encoded by `encoded_span`."""
        scope_spans = self._scope + b"".join(spans)
        return _field(_RESOURCE_SPANS, self._resource + _field(_SCOPE_SPANS, scope_spans))


def encoded_span(span: ReadableSpan) -> bytes:
    """The bytes of one span, for `Envelope.around`.

    Raises:
        ValueError: The span lacks its context or a time.
        TypeError: An attribute is not a string, an integer or a truth value.
    """
    return _field(_SPAN, _span(span))


def _span(span: ReadableSpan) -> bytes:
    context = span.context
    if context is None or span.start_time is None or span.end_time is None:
        raise ValueError("the span is not finished")
    parts = [
        _TRACE_ID,
        context.trace_id.to_bytes(16, "big"),
        _SPAN_ID,
        context.span_id.to_bytes(8, "big"),
    ]
    if context.trace_state:
        state = ",".join(f"{key}={value}" for key, value in context.trace_state.items())
        parts.append(_field(_TRACE_STATE, state.encode()))
    if span.parent is not None:
        parts += (_PARENT_SPAN_ID, span.parent.span_id.to_bytes(8, "big"))
    parts.append(_field(_NAME, span.name.encode()))
    parts += (_KIND, _KINDS[span.kind])
    parts.append(_TIMES.pack(b"\x39", span.start_time, b"\x41", span.end_time))
    for key, value in (span.attributes or {}).items():
        if isinstance(value, (str, bool)):
            parts.append(_remembered_attribute(key, value))
        elif isinstance(value, int):
            parts.append(_attribute(key, b"\x18" + _varint(value)))
        else:
            raise TypeError("a span's attributes are strings, integers and truth values")
    code = span.status.status_code.value
    parts.append(_field(_STATUS, b"\x18" + _varint(code) if code else b""))
    parts.append(_FLAGS.pack(b"\x85\x01", _flags(span.parent)))
    return b"".join(parts)


@lru_cache(maxsize=8_192, typed=True)
def _remembered_attribute(key: str, value: str | bool) -> bytes:  # noqa: FBT001 - a value
    if isinstance(value, bool):
        return _attribute(key, b"\x10" + _varint(value))
    return _attribute(key, _field(b"\x0a", value.encode()))


def _attribute(key: str, value: bytes) -> bytes:
    return _field(_ATTRIBUTE, _key(key) + _field(b"\x12", value))


@lru_cache(maxsize=1_024)
def _key(key: str) -> bytes:
    return _field(b"\x0a", key.encode())


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """An integer as a varint (base 128, lowest bits first); negative ones as 64-bit complement."""
    if 0 <= number < _ONE_BYTE:
        return bytes((number,))
    number &= _UINT64_MASK
    digits = bytearray()
    while number >= _ONE_BYTE:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _flags(parent: SpanContext | None) -> int:
    return _HAS_IS_REMOTE | (_IS_REMOTE if parent is not None and parent.is_remote else 0)
