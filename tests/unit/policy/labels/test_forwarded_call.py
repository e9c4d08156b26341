"""A call to another server, kept inside a candidate and taken out again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.canonical import canonical_bytes, decode_canonical
from policy.labels.effect import Effect, EffectKind
from policy.labels.forwarded_call import (
    MCP,
    ForwardedCall,
    NotForwardable,
    call_of,
    removes,
    target_of,
    texts_of,
)
from policy.model import METADATA_LEN_MAX, TEXT_LEN_MAX, Candidate, ChangeKind, PrincipalId, Tenant

ARGUMENTS = '{"entities":[{"entityType":1,"name":0,"observations":[2]}],"n":1e+21}'


def _call(*pieces: str, key: str = "Ada", arguments: str = ARGUMENTS) -> ForwardedCall:
    return ForwardedCall(tool="create_entities", arguments=arguments, key=key, pieces=pieces)


def _candidate(text: str | None, metadata_json: str | None) -> Candidate:
    return Candidate(
        change=ChangeKind.CREATE,
        principal_id=PrincipalId("agent"),
        tenant=Tenant("default"),
        nonce="n-1",
        target=target_of(MCP, "memory"),
        text=text,
        metadata_json=metadata_json,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), st.text("ab\n"))
def test_a_call_comes_back_as_it_was(pieces: list[str], key: str) -> None:
    call = _call(*pieces, key=key)
    candidate = decode_canonical(canonical_bytes(_candidate(*texts_of(call))))
    if pieces:
        assert call_of(candidate) == call


def test_an_effect_comes_back_and_a_call_without_one_reads_as_before() -> None:
    call = msgspec.structs.replace(_call("a", "b"), effect=Effect(EffectKind.REPLACE, 1, 0))
    candidate = decode_canonical(canonical_bytes(_candidate(*texts_of(call))))
    assert call_of(candidate) == call
    assert "effect" not in texts_of(_call("a"))[1]


def test_a_piece_with_line_breaks_is_not_two() -> None:
    one, two = _call("a\nb"), _call("a", "b")
    assert texts_of(one)[0] == texts_of(two)[0]
    assert texts_of(one)[1] != texts_of(two)[1]
    assert call_of(_candidate(*texts_of(one))) == one


@pytest.mark.parametrize("arguments", ["", "[]", "1", "{", '{"a":', "null", "\udc80"])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    with pytest.raises(NotForwardable) as refused:
        texts_of(_call("a", arguments=arguments))
    assert not refused.value.oversize


@pytest.mark.parametrize(
    "call",
    [
        _call("x" * TEXT_LEN_MAX, "y"),
        _call("x", arguments=f'{{"a":"{"b" * METADATA_LEN_MAX}"}}'),
        _call("x", key="k" * METADATA_LEN_MAX),
    ],
)
def test_what_is_too_long_is_said_to_be(call: ForwardedCall) -> None:
    with pytest.raises(NotForwardable) as refused:
        texts_of(call)
    assert refused.value.oversize


@pytest.mark.parametrize(
    ("text", "metadata_json"),
    [
        (None, None),
        ("a", None),
        (None, texts_of(_call("a"))[1]),
        ("a", "{}"),
        ("ab", texts_of(_call("a"))[1]),
        ("a", texts_of(_call("ab"))[1]),
        ("a", '{"arguments":{},"key":"","lengths":[-1],"tool":"t"}'),
        ("a", "nothing"),
        ("a", texts_of(_call("a"))[1].replace('"tool"', '"note":"The quay is paid.","tool"')),
    ],
)
def test_what_stands_for_no_call_is_none(text: str | None, metadata_json: str | None) -> None:
    assert call_of(_candidate(text, metadata_json)) is None


def test_metadata_that_looks_like_a_call_is_none_where_no_server_is_behind() -> None:
    candidate = _candidate(*texts_of(_call("a")))
    assert call_of(candidate) is not None, "control"
    assert call_of(msgspec.structs.replace(candidate, target="memories")) is None


@pytest.mark.parametrize(
    ("deleted", "stored", "gone"),
    [
        ((), ("Ada", "person", "sings"), True),
        (("Ada",), ("Ada", "person", "sings"), True),
        (("Ada", "sings"), ("Ada", "sings"), True),
        (("sings", "plays"), ("Ada", "plays"), True),
        (("Ada", "sings"), ("Ada", "person", "sings"), False),
        (("Ada", "sings"), ("Ada", "plays"), False),
    ],
)
def test_a_deletion_takes_what_it_names(
    deleted: tuple[str, ...], stored: tuple[str, ...], *, gone: bool
) -> None:
    assert removes(_call(*deleted), _call(*stored)) is gone
