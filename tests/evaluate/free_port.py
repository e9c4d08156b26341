"""A scripted server on a free port of this host, stopped after use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

_PATIENT_S = 60.0


@asynccontextmanager
async def on_free_port(
    application: web.Application,
    *,
    handler_cancellation: bool = False,
    shutdown_timeout: float = _PATIENT_S,
    auto_decompress: bool = True,
) -> AsyncGenerator[str]:
    """The URL of the application, without a path; the options as aiohttp has them."""
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=handler_cancellation,
        shutdown_timeout=shutdown_timeout,
        auto_decompress=auto_decompress,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
