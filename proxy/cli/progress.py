"""Progress output while the sidecar works on something long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from proxy.cli.terminal import Terminal

_INTERVAL_S: Final = 1.0


@asynccontextmanager
async def working(terminal: Terminal, label: str | Callable[[], str]) -> AsyncGenerator[None]:
    """Print a sign of progress once a second while the block runs, if progress is wanted.

    `label` is asked for each time where it is a function.
    """
    if not terminal.shows_progress:
        yield
        return
    try:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(_tick(terminal, label))
            try:
                yield
            finally:
                ticking.cancel()
    except ExceptionGroup as wrapped:
        # The group's only exception is that of the block, because the task that prints raises none.
        raise wrapped.exceptions[0] from None


async def _tick(terminal: Terminal, label: str | Callable[[], str]) -> None:
    began_s = time.monotonic()
    while True:
        said = label if isinstance(label, str) else label()
        terminal.note(f"{said}: {time.monotonic() - began_s:.0f} s")
        await asyncio.sleep(_INTERVAL_S)
