"""Mem0's platform dialect: any request is an operation or one of two refusals."""

from __future__ import annotations

from tests.fuzz.choices import words
from tests.fuzz.dialects import check_dialect
from tests.unit.proxy.dialects.mem0.sample import PLATFORM

WORDS = words(
    """
    messages role content user_id agent_id run_id app_id metadata filters AND OR NOT in nin
    gte lte gt lt ne contains icontains created_at updated_at keywords categories memory_id
    memory_ids text query top_k threshold page page_size expiration_date mnemogate_class
    memory_type infer immutable version output_format assistant system tool /v1/memories/
    /v2/memories/ /v3/memories/ /v1/memories/search/ /v1/entities/ /v1/ping/ history * POST
    PUT PATCH DELETE GET authorization 11111111-1111-4111-8111-111111111111 2026-01-01
    """
)


def check(data: bytes) -> None:
    check_dialect(PLATFORM, data)
