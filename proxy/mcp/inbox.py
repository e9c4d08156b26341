"""The queue of one side's messages that the relay has not handled yet: in order, and bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from proxy.mcp.pending_requests import Arrival

LEN_MAX: Final = 64
BYTES_MAX: Final = 32 * 1024 * 1024


class Inbox:
    """First in, first out. One reader; any number of writers, which may have to wait.

    A message is accepted while fewer than `len_max` wait, with fewer than `bytes_max` bytes, so one
    long message always gets in.
    """

    def __init__(self, len_max: int = LEN_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._len_max = len_max
        self._bytes_max = bytes_max
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        # Writers that wait, in order: a new one may not overtake them.
        self._entering = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._entered = 0
        self._dealt_with = 0
        self._progress = asyncio.Condition()

    async def put(self, arrival: Arrival) -> None:
        """Wait for room, then queue. A closed inbox accepts nothing."""
        async with self._entering:
            await self._room.wait()
            if self._closed:
                return
            self._waiting.append(arrival)
            self._entered += 1
            self._bytes += len(arrival.message.raw)
            self._measure()
            self._arrived.set()

    async def take(self) -> Arrival | None:
        """The next message; None once the inbox is closed and empty."""
        while not self._waiting:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        arrival = self._waiting.popleft()
        self._bytes -= len(arrival.message.raw)
        self._measure()
        return arrival

    async def dealt_with(self) -> None:
        """Note that the reader has handled the last message that it took."""
        async with self._progress:
            self._dealt_with += 1
            self._progress.notify_all()

    async def flushed(self) -> None:
        """Wait until everything that is queued now was handled."""
        entered = self._entered
        async with self._progress:
            await self._progress.wait_for(lambda: self._dealt_with >= entered)

    def close(self) -> None:
        """Accept nothing more. Queued messages can still be taken."""
        self._closed = True
        self._arrived.set()
        self._room.set()

    def _measure(self) -> None:
        if self._closed or (len(self._waiting) < self._len_max and self._bytes < self._bytes_max):
            self._room.set()
        else:
            self._room.clear()
