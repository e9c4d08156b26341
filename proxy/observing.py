"""Observe mode, said aloud: in every answer, in the log each minute, in the metrics.

A trial that everybody forgot is a gate that stands open. So nothing here can be switched off.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_LOG: Final = logging.getLogger("mnemogate.observe")
EVERY_S: Final = 60.0
BANNER: Final = "OBSERVE MODE: nothing is refused; what would be, lands and is only marked"
HEADER: Final = ("Mnemogate-Observe", "1")


@asynccontextmanager
async def warned(*, observing: bool, every_s: float = EVERY_S) -> AsyncGenerator[None]:
    """Warn in the log at once and then each minute, for as long as the block runs."""
    if not observing:
        yield
        return
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_warn(every_s))
        try:
            yield
        finally:
            task.cancel()


async def _warn(every_s: float) -> None:
    while True:
        _LOG.warning("observe mode: nothing is refused")
        await asyncio.sleep(every_s)
