"""Promotion tokens: minted for an operator, verified for the gate (MWP 3.2, check 6).

The content of a token and its signed bytes are in `policy.tokens`; the key and the store are here.
"""

from __future__ import annotations

import secrets

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from policy.canonical import canonical_bytes, digest_of
from policy.facts import TokenState
from policy.labels.derive import effective_class, read_candidate
from policy.model import Candidate, ChangeKind, Memory, MemoryClass
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
from storage.interfaces import MemoryReader


class VerifiedToken(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is worth for a candidate, and the key under which the store records it as spent.

    The key is None without a token.
    """

    state: TokenState
    key: bytes | None = None


ABSENT = VerifiedToken(state=TokenState.ABSENT)
_INVALID = VerifiedToken(state=TokenState.INVALID)


class TokenSigner:
    """Mints tokens. Keeps the private key to itself."""

    def __init__(self, seed: bytes) -> None:
        """`seed` is the 32-byte Ed25519 seed of the state directory."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The public key with which verifiers check tokens."""
        return self._key.public_key()

    def mint(
        self, candidate: Candidate, stored: Memory | None, expires_at_ms: int
    ) -> PromotionGrant:
        """A token that lets exactly this candidate land in a class closed to its source.

        `stored` is the memory that the candidate changes, in its present version; the token holds
        for no other version.
        """
        from_class = None if stored is None else stored.memory_class
        serial = secrets.token_hex(16)
        token = PromotionToken(
            serial=serial,
            binding=binding_of(serial, digest_of(canonical_bytes(candidate))),
            tenant=candidate.tenant,
            principal_id=candidate.principal_id,
            nonce=candidate.nonce,
            from_class=from_class,
            to_class=landing_class(candidate, from_class),
            expires_at_ms=expires_at_ms,
            from_version=0 if stored is None else stored.version,
        )
        text = encode_token(token, self._key.sign(signing_bytes(token)))
        return PromotionGrant(token=text, to_class=token.to_class)


class PromotionGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A minted token, and the class it lets the candidate land in."""

    token: str
    to_class: MemoryClass


class TokenVerifier:
    """Tells what a token is worth for one candidate. Event loop or writer thread."""

    def __init__(self, public_key: Ed25519PublicKey) -> None:
        self._public_key = public_key

    def verify(
        self, text: str | None, candidate: Candidate, stored: Memory | None, now_ms: int
    ) -> VerifiedToken:
        """The state of the token: valid, invalid, expired or absent.

        Whether the token was spent, the store checks. `stored` is the memory that the candidate
        would change; the store also checks whether it still is that version. An unreadable token
        counts as forged: an honest client passes on what it was given.
        """
        if text is None:
            return ABSENT
        try:
            token, signature = decode_token(text)
            self._public_key.verify(signature, signing_bytes(token))
        except (TokenMalformed, InvalidSignature):
            return _INVALID
        from_class = None if stored is None else stored.memory_class
        context = TokenContext(
            digest=digest_of(canonical_bytes(candidate)),
            tenant=candidate.tenant,
            principal_id=candidate.principal_id,
            nonce=candidate.nonce,
            from_class=from_class,
            to_class=landing_class(candidate, from_class),
            now_ms=now_ms,
            from_version=0 if stored is None else stored.version,
        )
        return VerifiedToken(state=token_state(token, context), key=token_key(text))


def landing_class(candidate: Candidate, stored: MemoryClass | None) -> MemoryClass:
    """The class the candidate would land in, floor included: a token is bound to it.

    If a token were bound to the class that the client named, a token for a harmless class would
    carry a directive into the policy class.
    """
    return effective_class(candidate, read_candidate(candidate), stored)


def stored_of(reader: MemoryReader, candidate: Candidate) -> Memory | None:
    """The memory that a candidate would change; None where it makes a new one."""
    if candidate.change is ChangeKind.CREATE or candidate.memory_id is None:
        return None
    return reader.get(candidate.tenant, candidate.memory_id)
