"""A model request's JSON, read tolerantly and written anew.

An agent's history has anything that its tools printed: control characters, halves of surrogate
pairs, numbers that no double can hold. A refusal would end the agent's work, so nothing is refused
for its content. The rewritten bytes go on, so a repeated key cannot mean one thing here and another
to the model.
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


def _no_constant(_name: str) -> float:
    raise ValueError


def _nearest(digits: str) -> float:
    """A number; if no double holds it, the nearest one, because JSON has no infinity."""
    return max(-_LARGEST, min(_LARGEST, float(digits)))


_LARGEST: Final = 1.7976931348623157e308  # the largest IEEE 754 double
_LENIENT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_nearest)


def read_body(raw: bytes) -> dict[str, Json]:
    """The object of a request or reply.

    Raises:
        MalformedRequest: The body is no JSON object in UTF-8, or is nested too deep.
    """
    value = read_json(raw)
    if not isinstance(value, dict):
        raise MalformedRequest("body: must be a JSON object", status=400)
    return value


def read_json(raw: bytes) -> Json:
    """The one value of a body that may be any JSON.

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
    # With fewer brackets than the limit the depth need not be counted.
    if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX and _deeper_than(value, DEPTH_MAX):
        raise MalformedRequest("body: nested too deeply", status=400)


def write_body(body: Json) -> bytes:
    """The bytes of a value; halves of surrogate pairs stay escapes."""
    try:
        return _ENCODER.encode(body)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _slowly(raw: bytes) -> Json:
    """Parse with a slower parser what the fast one refuses and a lenient server would accept."""
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
