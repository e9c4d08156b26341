"""What waits for the writer: one command, its future, and who may still take it back.

A caller does not wait for ever: the writer may be blocked by a disk that hangs, or by a process
that holds LMDB's lock and was stopped. A job that the writer has not begun is then taken back, and
nothing of it will be written. One that it has begun is never cancelled: its caller is told that the
outcome is unknown, and learns it by asking again with the same nonce.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from storage.errors import OutcomeUnknown, StorageError, StoreUnavailable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from storage.interfaces import Submission


class Job:
    """One submission or task. Made in the event loop that waits for it."""

    __slots__ = ("_claim", "future", "loop", "queued_ns", "submission", "task")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submission: Submission | None = None,
        task: Callable[[], Any] | None = None,
    ) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.submission = submission
        self.task = task
        self.queued_ns = time.perf_counter_ns()
        # Taken by the writer that begins, or by the caller that gives up; `pop` is atomic.
        self._claim = [None]

    @property
    def weight(self) -> int:
        """Bytes that it adds to a batch."""
        submission = self.submission
        return 0 if submission is None else len(submission.canonical) + len(submission.vector)

    def claim(self) -> bool:
        """Whether the one who asks is the first: then it is his."""
        try:
            self._claim.pop()
        except IndexError:
            return False
        return True

    async def answer(self, timeout_s: float) -> Any:  # noqa: ANN401 - as the command answers
        """What the writer answers.

        Raises:
            StoreUnavailable: The writer did not get to it in time; nothing was written.
            OutcomeUnknown: It began in time, and did not end; it may be durable, or become so.
            StorageError: As the writer says.
        """
        alarm = self.loop.call_later(timeout_s, self._expire)
        try:
            return await self.future
        finally:
            alarm.cancel()

    def _expire(self) -> None:
        if self.future.done():
            return
        if self.claim():
            self.future.set_exception(StoreUnavailable("the writer is busy; nothing was written"))
        else:
            self.future.set_exception(
                OutcomeUnknown("the writer does not end; ask again with the same nonce")
            )


Answer = tuple[Job, Any]


def deliver(answers: list[Answer]) -> None:
    """Resolve futures, with one call into each loop. Any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, mine in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(answers: list[Answer]) -> None:
    for job, answer in answers:
        if job.future.done():
            continue  # its caller was cancelled, or waited long enough; the commit was not
        if isinstance(answer, StorageError):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
