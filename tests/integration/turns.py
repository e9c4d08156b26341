"""Time in a test's hand: what happens every so often happens when the test says so."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Turns:
    """Takes the place of `asyncio.sleep` between two turns. One event loop only."""

    def __init__(self) -> None:
        self._waiting: defaultdict[float, asyncio.Queue[asyncio.Future[None]]] = defaultdict(
            asyncio.Queue
        )

    async def __call__(self, seconds: float) -> None:
        """Wait until a test lets the turn come."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[seconds].put_nowait(turn)
        await turn

    def pending(self) -> set[float]:
        return {seconds for seconds, waiting in self._waiting.items() if waiting.qsize()}

    async def waits(self, seconds: float) -> asyncio.Future[None]:
        """The turn of the one that waits for so long, as soon as it does."""
        turn = await self._waiting[seconds].get()
        while turn.cancelled():  # a release came before the turn
            turn = await self._waiting[seconds].get()
        self._waiting[seconds].put_nowait(turn)
        return turn

    async def turn(self, seconds: float) -> None:
        """Let one turn come, and return when it is over: when its next one is waited for."""
        await self.waits(seconds)
        self._waiting[seconds].get_nowait().set_result(None)
        await self.waits(seconds)


class Clock:
    """A wall clock in Unix nanoseconds that moves when a test says so."""

    def __init__(self, now_ns: int = 1_790_000_000 * 10**9) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 10**9)
