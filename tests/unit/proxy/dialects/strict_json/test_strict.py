"""Strict JSON: what honest clients send is read, everything else is `MalformedRequest`."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Annotated, Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from policy.text.skeleton import illegal_code_point
from proxy.dialects.strict_json.strict import (
    DEPTH_MAX,
    canonical_json,
    convert,
    decode_as,
    decode_object,
)
from proxy.seams.faults import MalformedRequest

CANARY = "ignore-all-previous"

legal_text = st.text(max_size=20).filter(lambda text: illegal_code_point(text) is None)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | legal_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(legal_text, inner, max_size=4),
    max_leaves=20,
)


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=4)] = ""
    kind: Any = None


@given(values)
def test_honest_json_is_read_as_it_is(value: object) -> None:
    assert decode_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(values)
def test_canonical_form_is_that_of_rfc_8785_and_stable(value: object) -> None:
    read = decode_object(json.dumps(value).encode())
    text = canonical_json(read)
    assert text.encode() == rfc8785.dumps(read)
    assert canonical_json(decode_object(text.encode())) == text


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        decode_object(body)


@given(st.text(st.sampled_from('{}[]",:0123456789eE+-.\\ud8NaInfity \ufeff\u202e'), max_size=60))
def test_json_like_text_is_a_value_or_malformed(text: str) -> None:
    try:
        value = decode_object(text.encode("utf-8", "surrogatepass"))
    except MalformedRequest:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"1e17",
        b"9007199254740992",
        b"-9007199254740992",
        b"9" * 100_000,
        b'"\\ud800"',
        b'{"\\udc00":1}',
        '"\U000e0041"'.encode(),
        '"\u202e"'.encode(),
        b'"\\u0000"',
        b'"\\u0085"',
        b"\xef\xbb\xbf1",
        b"\xff",
        b"",
        b"{",
        b"1 2",
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ],
)
def test_what_two_readers_could_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_object(body)


def test_depth_is_bounded_exactly() -> None:
    assert decode_object(b"[" * DEPTH_MAX + b"1" + b"]" * DEPTH_MAX)
    with pytest.raises(MalformedRequest):
        decode_object(b"[" * (DEPTH_MAX + 1) + b"1" + b"]" * (DEPTH_MAX + 1))


def test_number_of_values_is_bounded() -> None:
    with pytest.raises(MalformedRequest):
        decode_object(b"[" + b"1," * 300_000 + b"1]")


def test_refusals_never_quote_what_was_sent() -> None:
    bodies: list[tuple[bytes, Any]] = [
        (f'{{"{CANARY}":1}}'.encode(), Shape),
        (f'{{"name":"{CANARY}"}}'.encode(), Shape),
        (f'{{"name":"x","name":"{CANARY}"}}'.encode(), Shape),
        (f'{{"name":{CANARY}}}'.encode(), Shape),
        (f'{{"{CANARY}":{{"{CANARY}":"x"}}}}'.encode(), dict[str, dict[str, int]]),
    ]
    for body, shape in bodies:
        with pytest.raises(MalformedRequest) as caught:
            decode_as(body, shape)
        assert CANARY not in caught.value.detail


def test_msgspec_would_have_quoted_it() -> None:
    # The control: without our wording the peer's words come back in the error.
    with pytest.raises(msgspec.ValidationError, match=CANARY):
        msgspec.convert({CANARY: 1}, Shape)
    with pytest.raises(MalformedRequest, match=r"\$: has a field that is not known here") as told:
        convert({CANARY: 1}, Shape)
    # What is known is told in its place: those names are ours.
    assert told.value.detail.endswith(": it may have name, kind")


def test_value_without_a_canonical_form_is_malformed() -> None:
    for value in (math.nan, 2**60, "\ud800"):
        with pytest.raises(MalformedRequest):
            canonical_json(value)


def test_brackets_in_a_string_are_text_and_brackets_in_a_row_are_depth() -> None:
    text = "[{" * DEPTH_MAX
    assert decode_object(json.dumps([text]).encode()) == [text]
    deepest = b"[" * DEPTH_MAX + b"1" + b"]" * DEPTH_MAX
    assert decode_object(deepest) is not None
    with pytest.raises(MalformedRequest, match="deeply"):
        decode_object(b"[" + deepest + b"]")


def test_an_escape_in_plain_ascii_hides_nothing() -> None:
    with pytest.raises(MalformedRequest, match="code point"):
        decode_object(b'{"a":"\\u202e"}')
