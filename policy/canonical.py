"""Canonical bytes (RFC 8785) and digest of a candidate."""

from __future__ import annotations

import hashlib

import msgspec

from policy.model import Candidate, Digest

_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(Candidate)


def canonical_bytes(candidate: Candidate) -> bytes:
    """The one byte string that is staged, hashed, judged and stored for a candidate.

    A candidate holds only ASCII keys, strings, booleans and arrays, for which sorted keys and
    minimal escapes are RFC 8785; a property test holds this against the `rfc8785` package, which
    takes fifty times as long.
    """
    return _ENCODER.encode(candidate)


def decode_canonical(data: bytes) -> Candidate:
    """Read back what was staged.

    Raises:
        msgspec.DecodeError: The bytes are not a candidate's.
    """
    return _DECODER.decode(data)


def digest_of(data: bytes) -> Digest:
    """SHA-256 over canonical bytes."""
    return Digest(hashlib.sha256(data).digest())
