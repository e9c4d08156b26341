"""Strict JSON: what honest clients send is read, everything else is `MalformedRequest`."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Annotated, Any, cast

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from policy.text.characters import odd_character
from proxy.dialects.strict_json.strict import (
    DEPTH_MAX,
    JsonValue,
    as_doubles,
    canonical_json,
    convert,
    decode_as,
    decode_object,
)
from proxy.seams.faults import MalformedRequest

CANARY = "ignore-all-previous"

legal_text = st.text(max_size=20).filter(lambda text: odd_character(text) == "")
numbers = (
    st.integers(-(2**64) + 1, 2**64 - 1)
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    st.none() | st.booleans() | numbers | legal_text,
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
def test_canonical_form_is_stable_and_has_the_same_value(value: object) -> None:
    read = decode_object(json.dumps(value).encode())
    text = canonical_json(read)
    again = decode_object(text.encode())
    assert again == value
    assert canonical_json(again) == text
    # msgspec decodes stored metadata, for filters and for what an agent is shown.
    assert msgspec.json.decode(text) == value


@given(values)
def test_canonical_form_is_that_of_rfc_8785_below_2_to_53(value: object) -> None:
    if _is_small(value):
        given = cast("JsonValue", value)
        assert canonical_json(given).encode() == rfc8785.dumps(given)


def test_rfc_8785_alone_loses_large_numbers() -> None:
    # The control: the library refuses the integer, and gives two numbers one text.
    with pytest.raises(rfc8785.IntegerDomainError):
        rfc8785.dumps(2**63)
    assert rfc8785.dumps(2.0**63) == b"9223372036854776000"
    assert canonical_json(2.0**63) != canonical_json(9223372036854776000)


@given(values, values)
def test_different_values_have_different_canonical_forms(one: object, other: object) -> None:
    if canonical_json(cast("JsonValue", one)) == canonical_json(cast("JsonValue", other)):
        assert _typed(one) == _typed(other)


@given(numbers)
def test_no_string_has_the_canonical_form_of_a_number(number: float) -> None:
    text = canonical_json(number)
    for said in (text, f'"{text}"', f"\\u0000{text}", f"int:{text}", f"={text}", f"#{text}"):
        kept = canonical_json({"a": said})
        assert kept != canonical_json({"a": number})
        assert decode_object(kept.encode()) == {"a": said}
        assert isinstance(msgspec.json.decode(kept)["a"], str)
    assert type(msgspec.json.decode(text)) in {int, float}


def _is_small(value: object) -> bool:
    """Whether no number in a value is 2^53 or larger."""
    if isinstance(value, dict):
        return all(map(_is_small, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return all(map(_is_small, cast("list[object]", value)))
    return not isinstance(value, int | float) or abs(value) < 2**53


def _typed(value: object) -> object:
    """The value with the type of each scalar; an integer and a float that are equal are one."""
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_typed(one) for one in cast("list[object]", value)]
    kind = "number" if type(value) in {int, float} else type(value).__name__
    return kind, value


CLOCK_NS = 1_764_381_234_567_890_123  # of time.time_ns()
SNOWFLAKE = 1_328_112_384_000_000_001


@pytest.mark.parametrize(
    "number",
    [
        *(CLOCK_NS, SNOWFLAKE, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1 - 2**64, 10**16),
        *(1e16, 1.5e18, 2.0**53, 2.0**63, 1.7976931348623157e308, 5e-324, -1e300, 1e22),
    ],
)
def test_large_numbers_come_back_as_they_were_sent(number: float) -> None:
    again = msgspec.json.decode(canonical_json(decode_object(json.dumps([number]).encode())))
    assert again == [number]
    assert type(again[0]) is type(number)


def test_a_number_that_a_server_rounds_is_the_same_number() -> None:
    for sent, told in (
        (CLOCK_NS, b"1764381234567890200"),  # what JSON.stringify writes
        (CLOCK_NS, b"1.7643812345678902e18"),
        (2**64 - 1, b"18446744073709552000"),
    ):
        found = decode_object(b'{"at":[%s]}' % told, any_text=True)
        assert found != {"at": [sent]}
        assert as_doubles(found) == as_doubles({"at": [sent]})
        # The control: another moment is another value.
        assert as_doubles(found) != as_doubles({"at": [sent - 10_000]})


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
        b"18446744073709551616",
        b"-18446744073709551616",
        b"1.8e309",
        b"9" * 100_000,
        b'"\\ud800"',
        b'{"\\udc00":1}',
        '"\U000e0041"'.encode(),
        '"\u202e"'.encode(),
        b'"\\u0000"',
        b'"\\u0084"',
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
    for value in (math.nan, math.inf, -math.inf, 2**64, "\ud800"):
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
    with pytest.raises(MalformedRequest, match=r"U\+202E .* at offset 0"):
        decode_object(b'{"a":"\\u202e"}')
