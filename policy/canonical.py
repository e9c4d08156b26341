"""Canonical bytes (RFC 8785) and digest of a candidate."""

from __future__ import annotations

import hashlib

import msgspec

from policy.model import Candidate, Digest

_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(Candidate)
_FIELDS = {field.name: field.default for field in msgspec.structs.fields(Candidate)}
_TARGET = _FIELDS["target"]
_SCOPE = _FIELDS["scope"]


def canonical_bytes(candidate: Candidate) -> bytes:
    """The one byte string that is staged, hashed, judged and stored for a candidate.

    A candidate holds only ASCII keys, strings, booleans and arrays, for which sorted keys and
    minimal escapes are RFC 8785. A property test compares the result with the `rfc8785` package,
    which takes fifty times as long.
    """
    target, scope = candidate.target, candidate.scope
    # The encoder leaves out a field whose value is the default object itself, and keeps one that is
    # merely equal. Without this the same candidate could have two encodings, and so two digests.
    if (target == _TARGET and target is not _TARGET) or (scope == _SCOPE and scope is not _SCOPE):
        candidate = msgspec.structs.replace(
            candidate,
            target=_TARGET if target == _TARGET else target,
            scope=_SCOPE if scope == _SCOPE else scope,
        )
    return _ENCODER.encode(candidate)


def decode_canonical(data: bytes) -> Candidate:
    """Decode a candidate from its staged bytes.

    Raises:
        msgspec.DecodeError: The bytes are not a candidate's.
    """
    try:
        return _DECODER.decode(data)
    except UnicodeError:
        # msgspec raises `UnicodeDecodeError` instead of a `DecodeError` where a key of a map is not
        # UTF-8.
        raise msgspec.DecodeError("not UTF-8") from None


def digest_of(data: bytes) -> Digest:
    """The SHA-256 of a candidate's canonical bytes."""
    return Digest(hashlib.sha256(data).digest())
