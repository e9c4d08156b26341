"""Who connects while a sidecar starts waits, and is answered as everybody later."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from proxy.compose import app
from proxy.compose.services import Foundation, Services
from proxy.transport.auth import NewKey
from tests.integration.running import AGENT_KEY, running

ASKED = f"GET /v1/memories HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {AGENT_KEY}\r\n\r\n"
LATER_S = 0.3


async def test_a_key_that_the_operator_gave_is_known_before_anybody_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_keys, asked = app._first_keys, asyncio.Event()

    async def late(foundation: Foundation, services: Services) -> tuple[NewKey, ...]:
        await asked.wait()
        await asyncio.sleep(LATER_S)  # as long as a busy disk may take for the first keys
        return await first_keys(foundation, services)

    monkeypatch.setattr(app, "_first_keys", late)
    with tempfile.TemporaryDirectory() as short:
        path = Path(short) / "data.sock"

        async def answered() -> bytes:
            while not path.exists():  # noqa: ASYNC110 - a socket appears, and no event says so
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(ASKED.encode())
            await writer.drain()
            asked.set()
            line = await reader.readline()
            writer.close()
            return line

        client = asyncio.create_task(answered())
        flags = {"unix_socket": str(path), "unix_uids": str(os.getuid())}
        async with running(tmp_path, flags=flags):
            assert (await client).startswith(b"HTTP/1.1 200")
