"""What of an answer of a server behind must not reach the agent, and what it shows of memories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from policy.model import MemoryId, Principal, Tenant
from proxy.guard.live_texts import LiveTexts
from proxy.guard.sieve import Sieve
from storage.features.recalls import LaterHits, Recall, RecalledMemory, Recalls

_OPERATION: Final = "execute_tool"
"""OpenTelemetry's `gen_ai.operation.name` of what another server did."""
_KEPT_MAX: Final = 64


class ShowingNotes:
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


SIFTED_AT_ONCE: Final = 65_536


class AnswerSieve:
    """Asks the sieve, and notes what is shown. Event loop only."""

    def __init__(
        self,
        sieve: Sieve,
        showing: ShowingNotes,
        left_out: Callable[[Tenant, MemoryId], None] | None = None,
    ) -> None:
        """`left_out` hears what the sieve hides, at once."""
        self._sieve = sieve
        self._showing = showing
        self._left_out = left_out

    async def sift(
        self, principal: Principal, target: str, strings: tuple[str, ...]
    ) -> tuple[bool, ...]:
        """For each string of an answer: True where it is withheld. All others count as shown.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        flags = await self.withheld(principal, target, strings)
        left = tuple(one for one, hides in zip(strings, flags, strict=True) if not hides)
        await self.showed(principal, target, left)
        return flags

    async def withheld(
        self, principal: Principal, target: str, strings: tuple[str, ...]
    ) -> tuple[bool, ...]:
        """For each string of an answer: True where it must not reach the agent.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        scope = (principal.tenant, target)
        flags: list[bool] = []
        async with self._sieve.turn:
            await self._catch_up(principal.tenant)
            for part in _slices(strings):
                if flags:
                    # A long answer is searched in many readings, so this search pauses now and
                    # then for other requests.
                    await asyncio.sleep(0)
                flags += self._sieve.sift(scope, part)
            if self._left_out is not None:
                for memory_id, of_tenant in self._sieve.take_left_out().items():
                    self._left_out(of_tenant, MemoryId(memory_id))
        return tuple(flags)

    async def showed(self, principal: Principal, target: str, texts: tuple[str, ...]) -> None:
        """Note that an answer with these texts is shown, which may be those of memories."""
        async with self._sieve.turn:
            live = self._sieve.shown((principal.tenant, target))
        if live is not None:
            self._showing.showed(principal, target, live, texts)

    async def standing(self, tenant: Tenant, target: str) -> tuple[int, int]:
        """What changes as soon as `withheld`, or whose a memory is, may have another answer.

        Raises:
            StorageError: Nobody can tell; look at every answer anew.
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
    """The strings in their order, some thousand characters at a time."""
    begin = length = 0
    for end, text in enumerate(strings):
        length += len(text)
        if length >= SIFTED_AT_ONCE:
            yield strings[begin : end + 1]
            begin, length = end + 1, 0
    yield strings[begin:]
