"""Promotion tokens: their content, and the exact bytes that are signed (MWP 3.2, check 6).

Pure: signing, the current time and whether a token was spent come from outside.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.facts import TokenState
from policy.model import NONCE_LEN_MAX, Digest, MemoryClass, Name

TOKEN_LEN_MAX: Final = 4_096
_DOMAIN: Final = b"mnemogate promotion token v1\n"
_SIGNATURE_LEN: Final = 64

Hex32 = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Hex64 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class TokenMalformed(ValueError):  # noqa: N818 - a state of the text
    """The error for a text that is not a promotion token."""


class PromotionToken(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Permission for one candidate to be written in one class, once.

    `binding` ties the token to the candidate's digest under the token's own random `serial`, so the
    token does not contain the digest. `from_class` is None where nothing is stored yet.
    """

    serial: Hex32
    binding: Hex64
    tenant: Name
    principal_id: Name
    nonce: Annotated[str, Meta(min_length=1, max_length=NONCE_LEN_MAX)]
    to_class: MemoryClass
    expires_at_ms: Annotated[int, Meta(ge=0, le=2**53 - 1)]
    from_class: MemoryClass | None = None
    # The version of the memory to change, as the operator saw it: an update keeps the fields that
    # it leaves out, so the token covers these fields too.
    from_version: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class TokenContext(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate that a promotion token came with, as the sidecar sees it."""

    digest: Digest
    tenant: str
    principal_id: str
    nonce: str
    from_class: MemoryClass | None
    to_class: MemoryClass
    now_ms: int
    from_version: int = 0


_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(PromotionToken)


def binding_of(serial: str, digest: Digest) -> str:
    """A value that ties a token to one candidate, in hex: SHA-256 over serial and digest."""
    return hashlib.sha256(_DOMAIN + serial.encode() + digest).hexdigest()


def signing_bytes(token: PromotionToken) -> bytes:
    """The bytes of a token that are signed.

    They are a domain prefix, so that no signature made for something else fits, and canonical JSON.
    """
    return _DOMAIN + _ENCODER.encode(token)


def encode_token(token: PromotionToken, signature: bytes) -> str:
    """A token as the text that an operator hands on: payload and Ed25519 signature in base64url."""
    return f"{_base64url(_ENCODER.encode(token))}.{_base64url(signature)}"


def decode_token(text: str) -> tuple[PromotionToken, bytes]:
    """The payload of a token and its signature, not verified yet.

    Raises:
        TokenMalformed: The text is not one that `encode_token` can have made.
    """
    payload, dot, signature = text.partition(".")
    if not dot or len(text) > TOKEN_LEN_MAX or not text.isascii():
        raise TokenMalformed("not a promotion token")
    try:
        token = _DECODER.decode(_unbase64url(payload))
        signed = _unbase64url(signature)
    except (msgspec.DecodeError, UnicodeError, RecursionError, binascii.Error):
        raise TokenMalformed("not a promotion token") from None
    # One token must have one spelling, because the store knows a spent token by its text's hash.
    if len(signed) != _SIGNATURE_LEN or encode_token(token, signed) != text:
        raise TokenMalformed("not a canonical promotion token")
    return token, signed


def token_state(token: PromotionToken, context: TokenContext) -> TokenState:
    """What a correctly signed token is worth for one candidate: valid, invalid or expired.

    A token expires when its time is over, and when the memory no longer has `from_class`. Only the
    store knows whether the token was spent.
    """
    bound = (
        token.binding == binding_of(token.serial, context.digest)
        and token.tenant == context.tenant
        and token.principal_id == context.principal_id
        and token.nonce == context.nonce
        and token.to_class is context.to_class
    )
    if not bound:
        return TokenState.INVALID
    # The memory was changed since the token was made. Another writer can cause that, so the bearer
    # must not be charged with a forgery; nor may the token cover a text that the operator did not
    # see.
    stale = token.from_class is not context.from_class or token.from_version != context.from_version
    expired = context.now_ms >= token.expires_at_ms
    return TokenState.EXPIRED if stale or expired else TokenState.VALID


def token_key(text: str) -> bytes:
    """The key under which a token is spent: a hash, so that the store holds no usable token."""
    return hashlib.sha256(b"spent\n" + text.encode()).digest()


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
