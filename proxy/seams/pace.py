"""Sharing the event loop: long work gives way, so that no other request waits for it.

All paced work together gets one time slice per turn of the event loop (`step`), and principals take
slices in turns. A single long computation on a text runs on a thread of its own (`aside`), because
the interpreter switches threads every few milliseconds. Long work that changes what others read
runs in slices, one piece after the other in each line (`in_turn`).
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
"""How much of one turn of the loop goes to work that may wait."""

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
        # For each line, the pieces of work that wait, each with its caller's future; the first one
        # is under way.
        self._lines: dict[str, deque[tuple[asyncio.Future[Any], Callable[[], Any]]]] = {}

    async def step(self, owner: str) -> None:
        """Go on at once while the time slice lasts.

        After it, wait for this principal's next turn.
        """
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
            if not mine.done():  # the request that waited was given up, so it is not woken
                mine.set_result(None)
                self._begin()
                return

    async def aside(self, owner: str, size: int, call: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """The result of a pure function, computed on the thread if `size` is large.

        Each principal has one call at a time there.

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
        """The result of `call`, run in slices: it says where it may pause (`proxy.seams.slices`).

        The pieces of one line are done one after the other, in the order in which they came. If the
        line is empty and `size` is small, the piece is done at once, without a wait. A piece that
        has begun is finished even if its caller leaves; one that has not begun is dropped then.

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
        """Begin the first piece of a line that somebody still waits for."""
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
        """Let a piece of work go on in its line's next slice, as `step` lets a principal."""
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
                pass  # nobody waits for this piece of work any more, and it may go on all the same
            elif error is None:
                mine.set_result(work.outcome.result())
            else:
                mine.set_exception(error)
            self._begin_next(line)

    def close(self) -> None:
        """End the thread; work that runs on it is finished first."""
        self._thread.shutdown()
