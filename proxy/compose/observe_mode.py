"""Reports observe mode: in every answer, each minute in the log, in the metrics.

Observe mode lets everything in. So that a trial of it is not forgotten, no report can be switched
off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

_LOG: Final = logging.getLogger("mnemogate.observe")
EVERY_S: Final = 60.0
BANNER: Final = "OBSERVE MODE: nothing is refused; what would be, lands and is only marked"
HEADER: Final = ("Mnemogate-Observe", "1")


@asynccontextmanager
async def warned(
    *, observing: bool, wait: Callable[[float], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Warn in the log that observe mode is on, at once and each minute while the block runs."""
    if not observing:
        yield
        return
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_warn(wait))
        try:
            yield
        finally:
            task.cancel()


async def _warn(wait: Callable[[float], Awaitable[None]]) -> None:
    while True:
        _LOG.warning("observe mode: nothing is refused")
        await wait(EVERY_S)
