"""The jobs of the writer: one command, its future, and whether the command can be withdrawn.

A caller does not wait for ever, because the writer may be blocked by a disk that hangs, or by a
stopped process that holds LMDB's lock. A job that has not begun is then withdrawn, and nothing of
it will be written. A job that has begun is never cancelled: its caller gets `OutcomeUnknown`, and
learns the outcome by asking again with the same nonce.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable
from storage.values import Sealed
from storage.write.candidate_case import ArrivedCandidate
from storage.write.seam import Order


class Job:
    """One candidate, task or order for the writer. Made in the event loop that waits for it.

    For a candidate the job contains the ids, and the ciphertext until it is staged; no plain text.
    An `order` is carried out in one transaction with all other orders that wait.
    """

    __slots__ = (
        "_claim",
        "arrived",
        "future",
        "loop",
        "order",
        "queued_ns",
        "sealed",
        "task",
        "weight",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        arrived: ArrivedCandidate | None = None,
        sealed: Sealed | None = None,
        task: Callable[[], Any] | None = None,
        order: Order[Any] | None = None,
    ) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.arrived = arrived
        self.sealed = sealed
        self.task = task
        self.order = order
        self.queued_ns = time.perf_counter_ns()
        # The one claim on the job. Either the writer takes it, to begin the job, or the caller
        # does, to give up; `pop` is atomic.
        self._claim = [None]
        # The number of bytes that the job adds to a batch.
        self.weight = 0 if sealed is None else len(sealed.data)

    def claim(self) -> bool:
        """Claim the job; True for the first call alone, by the writer or the waiting caller."""
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True

    async def answer(self, patience: CallerDeadlines) -> Any:  # noqa: ANN401 - as the command answers
        """Wait for the writer's answer.

        Raises:
            StoreUnavailable: The writer did not begin in time; nothing was written.
            OutcomeUnknown: The job began but did not end in time; it may be, or become, durable.
            StorageError: The writer's own error.
        """
        line = patience.watch(self)
        try:
            return await self.future
        finally:
            # The caller does not wait for the job any more, so its encrypted text is dropped.
            line.settle()

    def expire(self) -> None:
        """Give up waiting for the job; called in the job's event loop."""
        if self.future.done():
            return
        if self.claim():
            self.future.set_exception(StoreUnavailable("the writer is busy; nothing was written"))
        else:
            self.future.set_exception(
                OutcomeUnknown("the writer does not end; ask again with the same nonce")
            )


class CallerDeadlines:
    """The time limits of waiting callers. Each event loop has one timer for all its jobs.

    All callers wait equally long, so they expire in the order in which they came. Any number of
    event loops.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._of: dict[asyncio.AbstractEventLoop, _Line] = {}

    def watch(self, job: Job) -> _Line:
        """Start the job's time limit; called in the job's event loop."""
        line = self._of.get(job.loop)
        if line is None:
            open_ones = {loop: line for loop, line in self._of.items() if not loop.is_closed()}
            line = open_ones[job.loop] = _Line()
            # The table is replaced as a whole, because another event loop may be reading it.
            self._of = open_ones
        line.add(job, job.loop.time() + self._timeout_s)
        return line


class _Line:
    """The waiting jobs of one event loop, oldest first."""

    __slots__ = ("_set", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Job]] = deque()
        self._set = False

    def add(self, job: Job, until: float) -> None:
        self._waiting.append((until, job))
        if not self._set:
            self._set = True
            job.loop.call_at(until, self._look)

    def settle(self) -> None:
        """Remove the jobs at the front of the queue that have an answer."""
        waiting = self._waiting
        while waiting and waiting[0][1].future.done():
            waiting.popleft()

    def _look(self) -> None:
        waiting = self._waiting
        while waiting:
            until, job = waiting[0]
            if not job.future.done():
                if until > job.loop.time():
                    job.loop.call_at(until, self._look)
                    return
                job.expire()
            waiting.popleft()
        self._set = False


class JobBatch:
    """The jobs that one turn of an event loop makes; all are queued together when the turn ends.

    If they were queued one by one, the first job would wake the writer thread, which would then
    compete with the loop for the interpreter while the other jobs are made. Any number of event
    loops.
    """

    def __init__(self, queued: queue.SimpleQueue[Job | None], is_open: Callable[[], bool]) -> None:
        self._queued = queued
        self._is_open = is_open
        self._of: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._lock = threading.Lock()
        self.count = 0  # the number of added jobs that are not queued yet

    def add(self, job: Job) -> None:
        """Add a job, to be queued together with all others of the event loop's present turn.

        Call it in the event loop that waits for the job.
        """
        with self._lock:
            self.count += 1
            if job.loop in self._of:
                self._of[job.loop].append(job)
                return
            self._of[job.loop] = [job]
        job.loop.call_soon(self._hand_over, job.loop)

    def hurry(self) -> None:
        """Queue all added jobs at once. Any thread."""
        with self._lock:
            gathered, self._of, self.count = self._of, {}, 0
            for jobs in gathered.values():
                for job in jobs:
                    self._queued.put(job)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            jobs = self._of.pop(loop, [])
            self.count -= len(jobs)
        if not self._is_open():
            closing = StoreUnavailable("the store is closing")
            deliver([(job, closing) for job in jobs])
            return
        for job in jobs:
            self._queued.put(job)


Answer = tuple[Job, Any]


def deliver(answers: list[Answer]) -> None:
    """Set the results of jobs, with one call into each event loop. Any thread."""
    for loop in {job.loop for job, _ in answers}:
        if not loop.is_closed():
            mine = [answer for answer in answers if answer[0].loop is loop]
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(answers: list[Answer]) -> None:
    for job, answer in answers:
        if job.future.done():
            # The caller has given up, so no one waits for this result; the commit is valid all the
            # same.
            continue
        if isinstance(answer, StorageError):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
