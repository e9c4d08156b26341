"""Canonical bytes: what staging hands back is a candidate with one spelling, or no JSON of one."""

from __future__ import annotations

import msgspec

from policy.canonical import canonical_bytes, decode_canonical, digest_of
from policy.labels.derive import read_text
from tests.fuzz.choices import words

WORDS = words(
    """
    change principal_id tenant nonce target memory_id text metadata_json scope user_id
    memory_class class_named claimed_source role actor derived_from expires_at vector_sha256
    create update delete purge L1 operator memories \\ud800 \\u0000
    """
)


def check(data: bytes) -> None:
    try:
        candidate = decode_canonical(data)
    except msgspec.MsgspecError:
        return
    canonical = canonical_bytes(candidate)
    assert decode_canonical(canonical) == candidate
    assert canonical_bytes(decode_canonical(canonical)) == canonical
    assert (digest_of(canonical) == digest_of(data)) == (canonical == data)
    read_text(candidate.text, candidate.metadata_json)
