"""Background work of a front: sessions, processes, streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager


class NoRoomForSession(Exception):  # noqa: N818 - a state
    """The error where there is no room for one more session or process, or the front is closing."""


class BackgroundWork:
    """Runs background work while its context is open. Event loop only; the work must not raise."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self, end: Callable[[], None]) -> AsyncGenerator[None]:
        """Accept work; at the end call `end`, which must stop all of it, and wait."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                end()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Start a task in the background.

        Raises:
            Busy: The front is closing.
        """
        if self._tasks is None:
            work.close()
            raise NoRoomForSession
        self._tasks.create_task(work)
