"""Waits of the event loop, jobs beside a block, and the bell of releases by a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


class ReleaseBell:
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


@asynccontextmanager
async def beside(*jobs: Coroutine[Any, Any, object]) -> AsyncGenerator[None]:
    """Run the jobs while the block runs, and cancel them at its end.

    An exception of a job or of the block leaves in an `ExceptionGroup`.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of these has ended, and cancel the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
