"""Tells the recall ledger which memories an answer of a server behind the gate shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from policy.model import MemoryId, Principal
from proxy.guard.live_texts import LiveTexts
from storage.features.recalls import LaterHits, Recall, RecalledMemory, Recalls

_OPERATION: Final = "execute_tool"
"""OpenTelemetry's `gen_ai.operation.name` of what another server did."""
_KEPT_MAX: Final = 64


class AnswerNotes:
    """Notes answers of servers behind the gate. Event loop only; it never waits.

    An answer is searched for memories on the ledger's own thread, and no agent waits for that.
    """

    def __init__(
        self, ledger: Recalls, version: Callable[[], int], now_ms: Callable[[], int]
    ) -> None:
        """`version` gives the store's version."""
        self._ledger = ledger
        self._version = version
        self._now_ms = now_ms

    def showed(
        self, principal: Principal, target: str, live: LiveTexts, texts: tuple[str, ...]
    ) -> None:
        """Note an answer with these texts, which may show some of the live memories."""
        if not live or not texts:
            return
        record = Recall(
            recall_id="",
            at_ms=self._now_ms(),
            tenant=principal.tenant,
            principal_id=principal.principal_id,
            front=target,
            operation=_OPERATION,
            session="",
            version=self._version(),
            limit=0,
            hits=(),
        )

        def find() -> tuple[RecalledMemory, ...]:
            return _hits(live.found_in(texts))

        self._ledger.note(record, LaterHits(find, sum(map(len, texts))))


@lru_cache(maxsize=_KEPT_MAX)
def _hits(names: tuple[str, ...]) -> tuple[RecalledMemory, ...]:
    return tuple(RecalledMemory(ordinal=-1, memory_id=MemoryId(name)) for name in names)
