"""Runs the application on a stopped state directory, with the admin socket as its only listener."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from proxy.cli.failures import opening
from proxy.compose.app import Composition, compose
from proxy.settings.table import Settings


@asynccontextmanager
async def stopped(settings: Settings) -> AsyncGenerator[None]:
    """Serve the admin socket of `settings.state` until the block ends.

    Raises:
        CommandFailed: The state directory cannot be opened as a store.
    """
    async with AsyncExitStack() as stack:
        # The application writes no log, because the one command that uses it reports errors itself.
        logging.disable()
        stack.callback(logging.disable, logging.NOTSET)
        with opening(settings.state):
            await stack.enter_async_context(compose(settings, Composition(listen=False)))
        yield
