"""Wakes whatever sends a released change to its server, when a person releases one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from proxy.seams.guard import Release


class ReleaseBell:
    """The releases of this gate, as those that send what was released wait for them.

    Take `next` before looking for released changes, and wait for it afterwards: then a release
    during the search is not missed. Event loop only.
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()

    @property
    def next(self) -> Release:
        """The release that comes next, to be waited for."""
        return self._next

    def announce(self) -> None:
        """Wake everyone who waits for the next release."""
        released, self._next = self._next, asyncio.Event()
        released.set()


async def until(released: Release, pause: Coroutine[Any, Any, None]) -> None:
    """Return at that release, or at the end of the pause without one."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(released.wait()), group.create_task(pause)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
