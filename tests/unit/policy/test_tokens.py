"""A promotion token fits one candidate and has one spelling; so have a candidate's defaults."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.canonical import canonical_bytes, decode_canonical
from policy.facts import TokenState
from policy.model import Candidate, ChangeKind, Digest, MemoryClass, PrincipalId, Scope, Tenant
from policy.tokens import (
    PromotionToken,
    TokenContext,
    TokenMalformed,
    binding_of,
    decode_token,
    encode_token,
    signing_bytes,
    token_key,
    token_state,
)

DIGEST = Digest(b"\x07" * 32)
SERIAL = "0123456789abcdef" * 2
TOKEN = PromotionToken(
    serial=SERIAL,
    binding=binding_of(SERIAL, DIGEST),
    tenant="default",
    principal_id="agent",
    nonce="n-1",
    from_class=MemoryClass.L3,
    to_class=MemoryClass.L1,
    expires_at_ms=1_000,
)
CONTEXT = TokenContext(
    digest=DIGEST,
    tenant="default",
    principal_id="agent",
    nonce="n-1",
    from_class=MemoryClass.L3,
    to_class=MemoryClass.L1,
    now_ms=999,
)
SIGNATURE = bytes(range(64))


def test_a_token_is_valid_for_its_candidate_until_it_expires() -> None:
    assert token_state(TOKEN, CONTEXT) is TokenState.VALID
    late = msgspec.structs.replace(CONTEXT, now_ms=1_000)
    assert token_state(TOKEN, late) is TokenState.EXPIRED


@pytest.mark.parametrize(
    "change",
    [
        {"digest": Digest(b"\x08" * 32)},
        {"tenant": "other"},
        {"principal_id": "mallory"},
        {"nonce": "n-2"},
        {"to_class": MemoryClass.L2},
    ],
)
def test_a_token_of_another_candidate_is_invalid_even_when_expired(
    change: dict[str, object],
) -> None:
    context = msgspec.structs.replace(CONTEXT, now_ms=5_000, **change)
    assert token_state(TOKEN, context) is TokenState.INVALID


@pytest.mark.parametrize("stored", [None, MemoryClass.L2, MemoryClass.L4])
def test_a_token_whose_memory_changed_class_is_expired_and_no_forgery(
    stored: MemoryClass | None,
) -> None:
    context = msgspec.structs.replace(CONTEXT, from_class=stored)
    assert token_state(TOKEN, context) is TokenState.EXPIRED


def test_a_token_reads_back_and_holds_no_digest() -> None:
    text = encode_token(TOKEN, SIGNATURE)
    assert decode_token(text) == (TOKEN, SIGNATURE)
    assert DIGEST.hex() not in signing_bytes(TOKEN).decode()
    assert len(token_key(text)) == 32


@given(st.text(max_size=80))
def test_no_other_text_is_a_token(text: str) -> None:
    with pytest.raises(TokenMalformed):
        decode_token(text)


@given(st.integers(min_value=0), st.characters(max_codepoint=127))
def test_a_token_has_one_spelling(place: int, char: str) -> None:
    text = encode_token(TOKEN, SIGNATURE)
    at = place % len(text)
    altered = f"{text[:at]}{char}{text[at + 1 :]}"
    try:
        token, signature = decode_token(altered)
    except TokenMalformed:
        return
    assert encode_token(token, signature) == altered
    assert (altered == text) == ((token, signature) == (TOKEN, SIGNATURE))


@pytest.mark.parametrize("suffix", ["=", "==", "\n", " ", ".", ".x"])
def test_a_token_with_something_behind_it_is_none(suffix: str) -> None:
    with pytest.raises(TokenMalformed):
        decode_token(encode_token(TOKEN, SIGNATURE) + suffix)


def test_what_is_signed_begins_with_its_own_domain() -> None:
    assert signing_bytes(TOKEN).startswith(b"mnemogate promotion token v1\n{")


PLAIN = Candidate(
    change=ChangeKind.CREATE,
    principal_id=PrincipalId("p"),
    tenant=Tenant("t"),
    nonce="n",
    text="x",
)


def _fresh(text: str) -> str:
    """Equal, and another object: as a decoder makes it."""
    return bytes(text, "ascii").decode()


@pytest.mark.parametrize(
    "fields",
    [{"target": _fresh("memories")}, {"scope": Scope()}],
    ids=["target", "scope"],
)
def test_a_default_has_one_spelling_wherever_it_came_from(fields: dict[str, object]) -> None:
    spelled = msgspec.structs.replace(PLAIN, **fields)
    assert spelled == PLAIN

    assert canonical_bytes(spelled) == canonical_bytes(PLAIN)


def test_what_is_no_default_is_spelled_out() -> None:
    filed = msgspec.structs.replace(PLAIN, scope=Scope(user_id="ada"), target="notes")

    assert canonical_bytes(filed) != canonical_bytes(PLAIN)
    assert decode_canonical(canonical_bytes(filed)) == filed
