"""LangGraph's server: any request and any answer is read in one way, or refused."""

from __future__ import annotations

from proxy.backends.langgraph.langgraph import LangGraph
from tests.fuzz.backends import check_backend
from tests.fuzz.choices import words

ADAPTER = LangGraph()
WORDS = words(
    """
    namespace key value index ttl namespace_prefix filter limit offset query prefix suffix
    max_depth items namespaces null true --- PUT POST GET DELETE PATCH /store/items
    /store/items/search /store/namespaces /runs/wait /threads/1/state /assistants x-api-key
    """
)


def check(data: bytes) -> None:
    check_backend(ADAPTER, data)
