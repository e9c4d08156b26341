"""A read with its answer, before the answer is sent."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from policy.model import Memory
from proxy.seams.operation import (
    EntitiesResult,
    GetHistory,
    GetMemory,
    GetResult,
    HistoryResult,
    ListEntities,
    ListMemories,
    ListResult,
    Search,
    SearchResult,
)

Read: TypeAlias = "Search | ListMemories | GetMemory | GetHistory | ListEntities"
Shown: TypeAlias = "SearchResult | ListResult | GetResult | HistoryResult | EntitiesResult"


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A read and its answer, before anything of the answer was sent.

    `name` is the read's `gen_ai.operation.name`, `count` the number of records that it returns. A
    search also has the unit vector and hashed words of its question, the ordinals with the best
    scores (`storage.values.SearchAnswer`), and the store's version. `left_out` are memories that
    matched the read and may not be shown (`proxy.withhold.screens.Screen.left_out`).
    """

    read: Read
    shown: Shown
    name: str
    count: int
    vector: bytes | None = None
    words: bytes = b""
    nearest: tuple[int, ...] = ()
    version: int = 0
    left_out: tuple[Memory, ...] = ()
