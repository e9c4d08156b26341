"""Strict JSON: what it accepts has one canonical text, which it accepts as the same."""

from __future__ import annotations

from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from tests.fuzz.choices import withholds

WORDS = (
    b"null",
    b"true",
    b'"',
    b"{",
    b"[",
    b"\\u",
    b"\\ud83d",
    b"1e308",
    b"-0.0",
    b"9007199254740993",
    b"18446744073709551615",
    b"1e16",
)


def check(data: bytes) -> None:
    try:
        value = decode_object(data)
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    text = canonical_json(value)
    again = decode_object(text.encode())
    assert again == value
    assert canonical_json(again) == text
