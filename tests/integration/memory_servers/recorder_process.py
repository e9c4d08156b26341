"""The recorder as a process of its own: `python -m ... HOST:PORT...`, until it is ended."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from tests.integration.memory_servers.recorder import Recorder


async def serve(addresses: list[str]) -> None:
    """Serve one store at all of these addresses; a line says when all of them are open."""
    runner = web.ServerRunner(web.Server(Recorder().answer))
    await runner.setup()
    for address in addresses:
        host, _, port = address.rpartition(":")
        await web.TCPSite(runner, host, int(port)).start()
    print("open", flush=True)  # noqa: T201 - for the test that started it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
