"""Keyed names: HMACs of what a client said, none of them shared by two meanings."""

from __future__ import annotations

import hmac
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.model import MemoryId, PrincipalId, Tenant
from storage.tables.keys import KeyedNames, named_incarnation
from tests.unit.storage.opening import candidate_of, submission_of

NAMES = KeyedNames(b"k" * 32)


@given(secret=st.binary(min_size=1, max_size=64), nonce=st.text(max_size=80))
def test_names_are_hmac_sha256(secret: bytes, nonce: str) -> None:
    principal = PrincipalId("agent-1")
    message = b"nonce\0" + b"".join(
        len(part).to_bytes(4, "big") + part for part in (principal.encode(), nonce.encode())
    )
    expected = hmac.digest(secret, message, "sha256")[:16]
    assert KeyedNames(secret).nonce(principal, nonce) == expected


def test_no_two_lists_of_parts_share_a_name() -> None:
    names = {
        NAMES.memory(Tenant("a"), MemoryId("bc")),
        NAMES.memory(Tenant("ab"), MemoryId("c")),
        NAMES.nonce(PrincipalId("a"), "bc"),
        NAMES.anchor(Tenant("a"), "bc"),
        NAMES.api_key("abc"),
        NAMES.principal(PrincipalId("abc")),
        KeyedNames(b"K" * 32).api_key("abc"),
    }
    assert len(names) == 7


def test_the_id_of_a_clients_own_key_is_a_uuid_of_tenant_and_key_that_needs_the_secret() -> None:
    own = NAMES.own(Tenant("a"), "bc")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", own)
    assert own == KeyedNames(b"k" * 32).own(Tenant("a"), "bc")
    others = {
        NAMES.own(Tenant("b"), "bc"),
        NAMES.own(Tenant("ab"), "c"),
        NAMES.own(Tenant("a"), "bd"),
        KeyedNames(b"K" * 32).own(Tenant("a"), "bc"),
        NAMES.own(Tenant("a"), "bc", 1),
        NAMES.own(Tenant("a"), "bc", 2),
    }
    assert len({own, *others}) == 7


@pytest.mark.parametrize("field", ["text", "target", "nonce", "principal_id"])
def test_the_binding_changes_with_digest_principal_target_and_nonce(field: str) -> None:
    first = submission_of(candidate_of("text", nonce="n"))
    values: dict[str, str] = {"text": "text", "nonce": "n"}
    other = submission_of(candidate_of(**(values | {field: "other"})))  # type: ignore[arg-type]
    assert NAMES.binding(first.candidate, first.digest) != NAMES.binding(
        other.candidate, other.digest
    )


@pytest.mark.parametrize("field", ["target", "nonce", "principal_id"])
def test_the_binding_names_each_of_them_beside_the_digest(field: str) -> None:
    """The digest covers them all; the binding does not rest on that alone."""
    first = submission_of(candidate_of("text", nonce="n"))
    other = msgspec.structs.replace(first.candidate, **{field: "other"})
    assert NAMES.binding(first.candidate, first.digest) != NAMES.binding(other, first.digest)


@pytest.mark.parametrize(
    ("nonce", "incarnation"),
    [
        ("0123456789abcdef-0:x", "0123456789abcdef-0"),
        ("0123456789abcdef-12:", "0123456789abcdef-12"),
        ("0123456789abcdef:x", None),
        ("order:77", None),
        ("0123456789ABCDEF-0:x", None),
        (" 0123456789abcdef-0:x", None),
        ("", None),
    ],
)
def test_only_a_whole_incarnation_is_one(nonce: str, incarnation: str | None) -> None:
    assert named_incarnation(nonce) == incarnation
