"""Wakes whatever sends a released change to its server, when a person releases one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Releases:
    """The releases of this gate, as those that send what was released wait for them.

    Take `next` before looking for released changes, and wait for it afterwards: then a release
    during the search is not missed. Event loop only.
    """

    def __init__(self) -> None:
        self.next = asyncio.Event()

    def announce(self) -> None:
        """Wake everyone who waits for the next release."""
        released, self.next = self.next, asyncio.Event()
        released.set()


async def until(released: asyncio.Event, pause: Coroutine[Any, Any, None]) -> None:
    """Return at that release, or at the end of the pause without one."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(released.wait()), group.create_task(pause)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
