"""Withholds parts of an upstream server's answer, and notes the memories that the answer shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from policy.model import MemoryId, Principal, Tenant
from proxy.guard.live_texts import LiveTexts
from proxy.guard.sieve import Sieve
from storage.features.recalls import LaterHits, Recall, RecalledMemory
from storage.features.recalls.ledger import RecallLedger

_OPERATION: Final = "execute_tool"
"""OpenTelemetry's `gen_ai.operation.name` of a read that an upstream server answers."""
_KEPT_MAX: Final = 64


class ShowingNotes:
    """Notes in the recall ledger which memories an upstream server's answers show.

    Event loop only; never waits: the ledger's own thread searches the answer for memories.
    """

    def __init__(
        self, ledger: RecallLedger, version: Callable[[], int], now_ms: Callable[[], int]
    ) -> None:
        """`version` gives the store's version."""
        self._ledger = ledger
        self._version = version
        self._now_ms = now_ms

    def showed(
        self, principal: Principal, target: str, live: LiveTexts, texts: tuple[str, ...]
    ) -> None:
        """Note an answer of these texts; `live` finds the memories that the texts show."""
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


SIFTED_AT_ONCE: Final = 65_536


class AnswerSieve:
    """Withholds the strings that the sieve hides, and notes the others. Event loop only."""

    def __init__(
        self,
        sieve: Sieve,
        showing: ShowingNotes,
        left_out: Callable[[Tenant, MemoryId], None] | None = None,
    ) -> None:
        """`left_out` is called with each live memory that the sieve newly hides."""
        self._sieve = sieve
        self._showing = showing
        self._left_out = left_out

    async def sift(
        self, principal: Principal, target: str, strings: tuple[str, ...]
    ) -> tuple[bool, ...]:
        """For each string of an answer: True if it is withheld. The others are noted as shown.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        flags = await self.withheld(principal, target, strings)
        left = [one for one, hides in zip(strings, flags, strict=True) if not hides]
        await self.showed(principal, target, tuple(left) if any(flags) else strings)
        return flags

    async def withheld(
        self, principal: Principal, target: str, strings: tuple[str, ...]
    ) -> tuple[bool, ...]:
        """For each string of an answer: True if it must not reach the agent.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        scope = (principal.tenant, target)
        flags: list[bool] = []
        async with self._sieve.turn:
            await self._catch_up(principal.tenant)
            for part in _slices(strings):
                if flags:
                    # Each string is searched in many readings, so a long answer takes long: other
                    # requests may run between two slices.
                    await asyncio.sleep(0)
                flags += self._sieve.sift(scope, part)
            if self._left_out is not None:
                for memory_id, of_tenant in self._sieve.take_left_out().items():
                    self._left_out(of_tenant, MemoryId(memory_id))
        return tuple(flags)

    async def showed(self, principal: Principal, target: str, texts: tuple[str, ...]) -> None:
        """Note the texts of an answer that the agent is shown; some may be memories."""
        async with self._sieve.turn:
            live = self._sieve.shown((principal.tenant, target))
        if live is not None:
            self._showing.showed(principal, target, live, texts)

    async def standing(self, tenant: Tenant, target: str) -> tuple[int, int]:
        """A cache token: it differs once what `withheld` returns, or an owner, may have changed.

        Raises:
            StorageError: The value is unknown; judge every answer anew.
        """
        async with self._sieve.turn:
            await self._catch_up(tenant)
            self._sieve.refresh()
            return self._sieve.moves(target)

    async def _catch_up(self, tenant: Tenant) -> None:
        self._sieve.follow_rules(tenant)
        if self._sieve.far_behind:
            await asyncio.to_thread(self._sieve.refresh)


def _slices(strings: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The strings in order, in slices that end after `SIFTED_AT_ONCE` characters."""
    begin = length = 0
    for end, text in enumerate(strings):
        length += len(text)
        if length >= SIFTED_AT_ONCE:
            yield strings[begin : end + 1]
            begin, length = end + 1, 0
    yield strings[begin:]
