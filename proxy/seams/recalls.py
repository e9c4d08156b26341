"""A read with its answer, and the Protocols that decide which memories a read shows."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from policy.model import HistoryEntry, Memory, Tenant
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
from storage.values import UpstreamChange

Read: TypeAlias = "Search | ListMemories | GetMemory | GetHistory | ListEntities"
Shown: TypeAlias = "SearchResult | ListResult | GetResult | HistoryResult | EntitiesResult"


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A read and its answer, before anything of the answer was sent.

    `name` is the read's `gen_ai.operation.name`, `count` the number of records that it returns. A
    search also has the unit vector and hashed words of its question, the ordinals with the best
    scores (`storage.values.SearchAnswer`), and the store's version. `left_out` are memories that
    matched the read and may not be shown (`ScreensRead.left_out`).
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


class ScreensRead(Protocol):
    """Decides what one read may show. One thread at a time; not on the event loop."""

    @property
    def left_out(self) -> tuple[Memory, ...]:
        """The memories that this read left out so far, and that were not reported yet."""
        ...

    def shows(self, memory: Memory) -> bool:
        """Whether the read may show a memory; a memory that it may not show is left out."""
        ...

    def history(self, entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
        """The steps of a memory's history without those that contain a text not to be shown."""
        ...

    def shows_name(self, name: str) -> bool:
        """Whether the read may show a name that memories are filed under."""
        ...


class ScreensRows(Protocol):
    """Decides which memories of upstream servers may be shown. Any thread."""

    def rules(self, tenant: Tenant) -> object:
        """A value that differs after each change of the rules on what a tenant's reads may show."""
        ...

    def failed_by(self, moved: UpstreamChange, tenant: Tenant) -> tuple[str, ...]:
        """The ids of the rules that forbid a server's answers to show a live memory; () if none."""
        ...

    def convicting(
        self, tenant: Tenant, texts: tuple[str, ...], rule_ids: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The sentences of a memory's texts that fail these rules; all texts if no sentence does.

        No sentence fails alone where a memory fails a rule only as a whole, or a rule was removed.
        """
        ...
