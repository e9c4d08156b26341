"""Promotion tokens: what decodes has one spelling; a payload in base64 is reached as well."""

from __future__ import annotations

import base64

from policy.facts import TokenState
from policy.model import Digest, MemoryClass
from policy.tokens import (
    TokenContext,
    TokenMalformed,
    decode_token,
    encode_token,
    signing_bytes,
    token_key,
    token_state,
)
from tests.fuzz.choices import Choices, lines_of, words

WORDS = words(
    """
    serial binding tenant principal_id nonce to_class from_class expires_at_ms L1
    """
)
_CONTEXT = TokenContext(
    digest=Digest(b"\x07" * 32),
    tenant="default",
    principal_id="agent",
    nonce="n-1",
    from_class=None,
    to_class=MemoryClass.L1,
    now_ms=1_750_000_000_000,
)


def check(data: bytes) -> None:
    choices = Choices(data)
    if choices.byte() % 2:
        # Wrapped in a well-formed envelope, so that the payload's own decoder is reached.
        payload = base64.urlsafe_b64encode(choices.rest()).rstrip(b"=").decode()
        text = payload + "." + base64.urlsafe_b64encode(b"\x01" * 64).rstrip(b"=").decode()
    else:
        text = lines_of(choices.rest())
    try:
        token, signature = decode_token(text)
    except TokenMalformed:
        return
    assert encode_token(token, signature) == text
    assert signing_bytes(token)
    assert len(token_key(text)) == 32
    # No token was signed for this context, and the fuzzer cannot guess the SHA-256 that binds one.
    assert token_state(token, _CONTEXT) is TokenState.INVALID
