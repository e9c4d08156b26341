"""A sign of life while the sidecar works on something long."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from proxy.cli.terminal import Terminal

_INTERVAL_S: Final = 1.0


@asynccontextmanager
async def working(terminal: Terminal, label: str) -> AsyncGenerator[None]:
    """Say once a second that it still goes on, where progress is wanted."""
    if not terminal.shows_progress:
        yield
        return
    failed: Exception | None = None
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(_tick(terminal, label))
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, as it is
            # Carried round the group, which would wrap it into one of its own.
            failed = error
        finally:
            ticking.cancel()
    if failed is not None:
        raise failed


async def _tick(terminal: Terminal, label: str) -> None:
    began_s = time.monotonic()
    while True:
        terminal.note(f"{label}: {time.monotonic() - began_s:.0f} s")
        await asyncio.sleep(_INTERVAL_S)
