"""The native dialect: any request is an operation or one of two refusals."""

from __future__ import annotations

from proxy.dialects.native.dialect import Native
from tests.fuzz.choices import words
from tests.fuzz.dialects import check_dialect

DIALECT = Native()
WORDS = words(
    """
    text op id class source target user_id agent_id run_id app_id metadata role actor nonce
    derived_from expires_at promotion_token vector operations query filters limit threshold
    offset create update delete L1 L2 user_input unknown 2030-01-01 idempotency-key POST PUT
    PATCH DELETE GET HEAD /v1/memories /v1/memories/batch /v1/search /history /v1/entities
    00000000-0000-4000-8000-00000000000a
    """
)


def check(data: bytes) -> None:
    check_dialect(DIALECT, data)
