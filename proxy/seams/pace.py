"""Sharing the event loop: long work pauses, so that no other request waits for its end.

All paced work together gets one time slice per turn of the event loop (`step`), and principals take
slices in turns. A single long computation on a text runs on a thread of its own (`aside`), because
the interpreter switches threads every few milliseconds. Long work that changes shared data runs in
slices, one job after the other in each queue (`in_turn`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from proxy.seams.slices import LARGE, SlicedWork, SliceState

__all__ = ["LARGE", "SLICE_S", "Pace"]

SLICE_S: Final = 0.005
"""Seconds of one turn of the loop that paced work may take."""

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class Pace:
    """Shares the event loop among principals; one per process.

    Event loop only. Work that runs aside must not touch objects of the loop.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        # When the slice of this turn of the loop began; None if no slice was taken yet.
        self._began: float | None = None
        self._whose = ""
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        # There is only one thread, because two would take the interpreter from the loop twice as
        # often.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mnemogate-aside")
        self._aside: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # For each queue ("line"), its jobs, each with its caller's future; the first one runs.
        self._lines: dict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = {}

    async def step(self, owner: str) -> None:
        """Return at once while the time slice lasts; after it, wait for the principal's turn."""
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
        """Begin a new turn of the loop: wake the longest waiter of the next principal."""
        self._began, self._whose = None, ""
        while self._waiting:
            owner, theirs = self._waiting.popitem(last=False)
            mine = theirs.popleft()
            if theirs:
                self._waiting[owner] = theirs
            if not mine.done():  # the request that waited was given up, so it is not woken
                mine.set_result(None)
                self._begin()
                return

    async def aside(self, owner: str, size: int, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Compute a pure function, on the thread if `size` is large; return its result.

        The thread has at most one call of each principal at a time.

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

    async def in_turn(self, line: str, size: int, call: Callable[[], _T]) -> _T:
        """Run `call` in slices and return its result; it pauses where it calls `slices.rest`.

        The calls of one `line`, a queue, run one after the other in the order in which they came.
        If the queue is empty and `size` is small, the call runs at once. When its caller is
        cancelled, a call that has begun is finished, and one that has not begun is dropped.

        Raises:
            Exception: What the function raises.
        """
        waiting = self._lines.get(line)
        if waiting is None and size <= LARGE:
            return call()
        mine: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        if waiting is None:
            waiting = self._lines[line] = deque()
        waiting.append((mine, call))
        if len(waiting) == 1:
            self._begin_next(line)
        return await mine

    def _begin_next(self, line: str) -> None:
        """Begin the first job in a queue that still has a waiting caller; drop those before it."""
        waiting = self._lines[line]
        while waiting and waiting[0][0].done():
            waiting.popleft()
        if not waiting:
            del self._lines[line]
            return
        loop, (_, call) = asyncio.get_running_loop(), waiting[0]

        def ready() -> None:
            loop.call_soon_threadsafe(self._soon, line, work)

        work = SlicedWork(call, used_up=self._used_up, ready=ready)
        self._soon(line, work)

    def _used_up(self) -> bool:
        return self._clock() - (self._began or 0.0) >= SLICE_S

    def _soon(self, line: str, work: SlicedWork[Any]) -> None:
        """Queue a job to continue in the next slice of its line, as `step` does a principal."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mine.add_done_callback(lambda _: self._go_on(line, work))
        self._waiting.setdefault(line, deque()).append(mine)
        if self._began is None:
            self._begin()

    def _go_on(self, line: str, work: SlicedWork[Any]) -> None:
        if not work.begun and self._lines[line][0][0].done():
            self._begin_next(line)
            return
        self._began, self._whose = self._clock(), line
        state = work.resume()
        if state is SliceState.RESTS:
            self._soon(line, work)
        elif state is SliceState.OVER:
            mine, _ = self._lines[line].popleft()
            error = work.outcome.exception()
            if mine.done():
                pass  # the caller was cancelled, so no one takes the outcome
            elif error is None:
                mine.set_result(work.outcome.result())
            else:
                mine.set_exception(error)
            self._begin_next(line)

    def close(self) -> None:
        """End the thread; work that runs on it is finished first."""
        self._thread.shutdown()
