"""Sharing the event loop: long work gives way, so that no other request waits for it.

All paced work together gets one time slice per turn of the event loop (`step`), and principals take
slices in turns. A single long computation on a text runs on a thread of its own (`aside`), because
the interpreter switches threads every few milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S: Final = 0.005
"""How much of one turn of the loop goes to work that may wait."""
LARGE: Final = 4_096
"""Characters or bytes: what is shorter is read where it is, which costs less than to hand it on."""

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class Pace:
    """One per process. Event loop only; work that runs aside must not touch the loop's objects."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        # When the slice of this turn of the loop began; None if no slice was taken yet.
        self._began: float | None = None
        self._whose = ""
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        # One thread: two would take the interpreter from the loop twice as often.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mnemogate-aside")
        self._aside: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def step(self, owner: str) -> None:
        """Go on at once while the slice lasts; otherwise wait for this principal's next turn."""
        if self._began is None:
            self._begin()
        lasts = self._clock() - (self._began or 0.0) < SLICE_S
        if lasts and (not self._waiting or self._whose == owner):
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(mine)
        await mine
        self._began, self._whose = self._clock(), owner

    def _begin(self) -> None:
        self._began = self._clock()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """At the next turn of the loop: wake the longest waiters, one principal at a time."""
        self._began, self._whose = None, ""
        while self._waiting:
            owner, theirs = self._waiting.popitem(last=False)
            mine = theirs.popleft()
            if theirs:
                self._waiting[owner] = theirs
            if not mine.done():  # a done future belongs to a request that was given up
                mine.set_result(None)
                self._begin()
                return

    async def aside(self, owner: str, size: int, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """The result of a pure function; on the thread if `size` is large, one call per principal.

        Raises:
            Exception: What the function raises.
        """
        if size <= LARGE:
            return call(*args)
        lock = self._aside.get(owner)
        if lock is None:
            lock = self._aside[owner] = asyncio.Lock()
        async with lock:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def close(self) -> None:
        """End the thread; the work on it is finished first."""
        self._thread.shutdown()
