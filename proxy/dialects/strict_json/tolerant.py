"""The JSON of a model's requests and replies, read tolerantly and encoded anew.

An agent's history has anything that its tools printed: control characters, halves of surrogate
pairs, numbers that no double can represent. A refusal would end the agent's work, so no body is
refused for its content. The new encoding is forwarded, so that a repeated key cannot mean one thing
here and another to the model.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias, cast

import msgspec

from proxy.seams.faults import MalformedRequest

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

DEPTH_MAX: Final = 100

_DECODER: Final = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()


def no_constant(_name: str) -> float:
    """Refuse NaN and Infinity, as a decoder's `parse_constant`."""
    raise ValueError


def _nearest(digits: str) -> float:
    """The number, or the nearest double if the number is too large: JSON has no infinity."""
    return max(-_LARGEST, min(_LARGEST, float(digits)))


_LARGEST: Final = 1.7976931348623157e308  # the largest IEEE 754 double
_LENIENT: Final = json.JSONDecoder(parse_constant=no_constant, parse_float=_nearest)


def read_body(raw: bytes) -> dict[str, Json]:
    """Decode the body of a request or reply, which must be a JSON object.

    Raises:
        MalformedRequest: The body is no JSON object in UTF-8, or is nested too deep.
    """
    value = read_json(raw)
    if not isinstance(value, dict):
        raise MalformedRequest("body: must be a JSON object", status=400)
    return value


def read_json(raw: bytes) -> Json:
    """Decode a body that may be any JSON value.

    Raises:
        MalformedRequest: The body is not JSON in UTF-8, or is nested too deep.
    """
    try:
        value: Json = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _slowly(raw)
    check_depth(value, raw)
    return value


def check_depth(value: Json, raw: bytes) -> None:
    """Refuse a value that is nested too deep for a recursive walk.

    Raises:
        MalformedRequest: The value is nested deeper than any client nests.
    """
    # With no more brackets than the limit, no value can be nested too deep.
    if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX and _deeper_than(value, DEPTH_MAX):
        raise MalformedRequest("body: nested too deeply", status=400)


def write_body(body: Json) -> bytes:
    """Encode a value as JSON; halves of surrogate pairs are written as escapes."""
    try:
        return _ENCODER.encode(body)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _slowly(raw: bytes) -> Json:
    """Parse, with a slower parser, JSON that the fast one refuses but a lenient server accepts."""
    try:
        return cast("Json", _LENIENT.decode(raw.decode("utf-8")))
    except (ValueError, RecursionError):
        raise MalformedRequest("body: not JSON", status=400) from None


def _deeper_than(value: Json, depth_max: int) -> bool:
    level: list[Json] = [value]
    for _ in range(depth_max):
        inner: list[Json] = []
        for part in level:
            if isinstance(part, dict):
                inner.extend(part.values())
            elif isinstance(part, list):
                inner.extend(part)
        if not inner:
            return False
        level = inner
    return True
