"""The notes server over its own Streamable HTTP, as a process that serves until the block ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp

from tests.integration.clients.environments import python_environment
from tests.integration.clients.mcp_clients import MCP2
from tests.integration.hosts.scene import HERE

_STARTS_S = 60.0


@asynccontextmanager
async def notes_over_http() -> AsyncGenerator[str]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    interpreter = python_environment("mcp", MCP2)
    process = await asyncio.create_subprocess_exec(
        str(interpreter),
        str(HERE / "notes_server.py"),
        str(port),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _answers(url)
        yield url
    finally:
        process.terminate()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _answers(url: str) -> None:
    async with aiohttp.ClientSession() as client, asyncio.timeout(_STARTS_S):
        while True:
            try:
                async with client.delete(url):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
