"""Observe mode, said aloud: in every answer, in the log each minute, in the metrics.

A trial that everybody forgot is a gate that stands open. So nothing here can be switched off.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

_LOG: Final = logging.getLogger("mnemogate.observe")
EVERY_S: Final = 60.0
BANNER: Final = "OBSERVE MODE: nothing is refused; what would be, lands and is only marked"
HEADER: Final = ("Mnemogate-Observe", "1")


@asynccontextmanager
async def warned(
    *, observing: bool, wait: Callable[[float], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Warn in the log at once and then each minute, for as long as the block runs."""
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
