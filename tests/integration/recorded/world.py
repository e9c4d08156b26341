"""A world in which a life repeats itself: random bytes from a seed, and a clock in one's hand.

Everything runs on a thread that was not there before: the product draws random bytes in blocks, one
per thread, and no block that another test left is used up here. Only what the standard library
offers is replaced: where the product keeps its own modules makes no difference.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from unittest import mock

_T = TypeVar("_T")
_LONG_S: Final = 1.0
_PATIENCE_S: Final = 60.0
_ROUNDS: Final = 50
_BEGIN_NS: Final = 1_767_225_600_000_000_000  # the first second of 2026


class Clock:
    """A wall clock and a monotonic one, both of which stand until somebody lets time pass."""

    def __init__(self) -> None:
        self._passed_ns = 0

    def wall_ns(self) -> int:
        return _BEGIN_NS + self._passed_ns

    def monotonic_ns(self) -> int:
        return self._passed_ns

    def passes(self, seconds: float) -> None:
        self._passed_ns += round(seconds * 1_000) * 1_000_000


class SeededBytes:
    """Bytes that follow from a seed, the thread's name and how many were drawn on it before.

    Threads draw from sources of their own: which of two asks first cannot be told beforehand.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._drawn: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, count: int | None = None) -> bytes:
        """`count` bytes; 32 without one, as `secrets.token_bytes` has it."""
        # A pool numbers its threads, and which of them is given the work is chance.
        source = threading.current_thread().name.rstrip("0123456789_-")
        with self._lock:
            number = self._drawn[source]
            self._drawn[source] += 1
        start = f"{self._seed}\n{source}\n{number}\n".encode()
        return hashlib.shake_256(start).digest(32 if count is None else count)


class World:
    """What a life takes from outside. One event loop only."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._sleep = asyncio.sleep
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float, result: object = None) -> object:
        """In place of `asyncio.sleep`: what waits for long waits until its turn is let come."""
        if seconds < _LONG_S:
            return await self._sleep(seconds, result)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((seconds, turn))
        await turn
        return result

    async def wait(self, seconds: float) -> None:
        await self.sleep(seconds)

    async def turn(self, seconds: float) -> None:
        """Let all come to their turn that wait for so long; over when they wait for the next."""
        turns = self._turns(seconds)
        assert turns, f"nothing waits for {seconds} s"
        for turn in turns:
            turn.set_result(None)
        await self.until(lambda: len(self._turns(seconds)) >= len(turns))

    async def until(self, true: Callable[[], bool]) -> None:
        """Until it is so, and all that follows from it at once has happened."""
        async with asyncio.timeout(_PATIENCE_S):
            while not true():
                await self._sleep(0)
        await self.quiet()

    async def quiet(self) -> None:
        """Until what goes through this machine's own sockets has arrived, and has been answered."""
        for _ in range(_ROUNDS):
            await self._sleep(0)

    def _turns(self, seconds: float) -> list[asyncio.Future[None]]:
        return [turn for after, turn in self._waiting if after == seconds and not turn.done()]


def lived(seed: str, life: Callable[[World], Coroutine[None, None, _T]]) -> _T:
    """What a life gave: lived to its end in an event loop and on a thread of its own."""

    def begin() -> _T:
        world = World()
        with (
            mock.patch.object(asyncio, "sleep", world.sleep),
            mock.patch.object(os, "urandom", SeededBytes(f"{seed} urandom")),
            mock.patch.object(secrets, "token_bytes", SeededBytes(f"{seed} secrets")),
        ):
            return asyncio.run(life(world))

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="life") as thread:
        return thread.submit(begin).result()
