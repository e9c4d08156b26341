"""Mem0's self-hosted server: any request and any answer is read in one way, or refused."""

from __future__ import annotations

from proxy.backends.mem0_server.mem0_server import Mem0Server
from tests.fuzz.backends import check_backend
from tests.fuzz.choices import words

ADAPTER = Mem0Server()
WORDS = words(
    """
    /memories /search /entities /history /entities/user/bob POST GET DELETE PUT --- x-api-key null
    messages role user assistant system content user_id agent_id run_id metadata mnemogate infer
    false true prompt memory_type expiration_date text query filters AND OR NOT in contains top_k
    threshold show_expired results memory id memory_id old_memory new_memory created_at
    ed3074d1-bb8b-43b1-9519-2bfe3d0dbc96 2026-11-20T15:55:06.192058+00:00
    """
)


def check(data: bytes) -> None:
    check_backend(ADAPTER, data)
