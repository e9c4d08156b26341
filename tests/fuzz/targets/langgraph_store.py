"""LangGraph's store dialect: any request is an operation or one of two refusals."""

from __future__ import annotations

from proxy.dialects.langgraph import LangGraphStore
from tests.fuzz.choices import words
from tests.fuzz.dialects import check_dialect

WORDS = words(
    """
    namespace key value index ttl refresh_ttl namespace_prefix filter limit offset query prefix
    suffix max_depth $eq $ne $gt $gte $lt $lte * . true false null /store/items
    /store/items/search /store/namespaces x-api-key PUT POST DELETE GET memories alice
    """
)

_DIALECT = LangGraphStore()


def check(data: bytes) -> None:
    check_dialect(_DIALECT, data)
