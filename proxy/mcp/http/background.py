"""What goes on beside the requests that began it: sessions, processes, streams."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine


class Busy(Exception):  # noqa: N818 - a state
    """No room for another session or process, or nothing is served any more."""


class Beside:
    """Runs work for as long as its context is open. Event loop only; the work must not raise."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self, end: Callable[[], None]) -> AsyncGenerator[None]:
        """Take work; at the end call `end`, which must make all of it come to an end, and wait."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                end()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Begin some work.

        Raises:
            Busy: Nothing is begun any more.
        """
        if self._tasks is None:
            work.close()
            raise Busy
        self._tasks.create_task(work)
