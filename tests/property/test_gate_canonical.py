"""Canonical bytes are RFC 8785, whatever a candidate holds, and tell different candidates apart."""

from __future__ import annotations

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.canonical import canonical_bytes, decode_canonical, digest_of
from policy.model import (
    Candidate,
    ChangeKind,
    MemoryClass,
    MemoryId,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)

# Everything that JSON may carry; lone surrogates are no text and are refused at the edge.
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
DEFAULTS: list[tuple[str, object]] = [("scope", {}), ("target", "memories")]
AWKWARD = "".join(map(chr, range(0x20))) + '\x7f\x80\x9f\u2028\u2029\ufeff\uffff"\\/<>&\U0001f600'


def candidates() -> st.SearchStrategy[Candidate]:
    name = st.one_of(st.none(), NAME)
    text = st.one_of(st.none(), TEXT)
    return st.builds(
        Candidate,
        change=st.sampled_from(ChangeKind),
        principal_id=TEXT.map(PrincipalId),
        tenant=TEXT.map(Tenant),
        nonce=NAME,
        target=NAME,
        memory_id=st.one_of(st.none(), TEXT.map(MemoryId)),
        text=text,
        metadata_json=text,
        scope=st.builds(Scope, user_id=name, agent_id=name, run_id=name, app_id=name),
        memory_class=st.sampled_from(MemoryClass),
        class_named=st.booleans(),
        claimed_source=st.one_of(st.none(), st.sampled_from(SourceKind)),
        role=name,
        actor=name,
        derived_from=st.lists(TEXT.map(MemoryId), max_size=3).map(tuple),
        expires_at=text,
        vector_sha256=text,
    )


@settings(max_examples=300)
@given(candidates())
def test_canonical_bytes_are_rfc_8785(candidate: Candidate) -> None:
    data = canonical_bytes(candidate)
    assert data == rfc8785.dumps(msgspec.json.decode(data))


def test_every_awkward_code_point_is_escaped_as_rfc_8785_says() -> None:
    for char in AWKWARD:
        candidate = Candidate(
            change=ChangeKind.CREATE,
            principal_id=PrincipalId("p"),
            tenant=Tenant("t"),
            nonce="n",
            text=char,
        )
        assert canonical_bytes(candidate) == rfc8785.dumps(msgspec.to_builtins(candidate))


@given(candidates())
def test_what_was_staged_reads_back_as_it_was(candidate: Candidate) -> None:
    data = canonical_bytes(candidate)
    assert decode_canonical(data) == candidate
    assert canonical_bytes(decode_canonical(data)) == data


@given(candidates(), candidates())
def test_different_candidates_have_different_bytes(one: Candidate, other: Candidate) -> None:
    assert (canonical_bytes(one) == canonical_bytes(other)) == (one == other)


@given(candidates())
def test_every_field_is_under_the_digest(candidate: Candidate) -> None:
    digest = digest_of(canonical_bytes(candidate))
    changes: dict[str, object] = {
        "change": next(kind for kind in ChangeKind if kind is not candidate.change),
        "memory_class": next(kind for kind in MemoryClass if kind is not candidate.memory_class),
        "class_named": not candidate.class_named,
        "claimed_source": next(kind for kind in SourceKind if kind is not candidate.claimed_source),
        "scope": msgspec.structs.replace(candidate.scope, user_id=f"{candidate.scope.user_id}x"),
        "derived_from": (*candidate.derived_from, MemoryId("one more")),
    }
    fields = msgspec.structs.fields(Candidate)
    for field in fields:
        before = getattr(candidate, field.name)
        altered = changes.get(field.name, f"{before}x")
        changed = msgspec.structs.replace(candidate, **{field.name: altered})
        assert digest_of(canonical_bytes(changed)) != digest, field.name


@given(st.binary(max_size=60))
def test_bytes_that_are_no_candidate_are_refused_in_one_way(data: bytes) -> None:
    for altered in (data, b'{"change":"create"' + data, b'{"' + data + b'":1}'):
        with pytest.raises(msgspec.DecodeError):
            decode_canonical(altered)
