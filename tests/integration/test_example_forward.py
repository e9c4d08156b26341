"""The port-forward of the Compose example; a process of this machine is the container's."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def forward() -> Any:  # noqa: ANN401 - a module that no package has
    file = ROOT / "examples" / "docker-compose" / "forward.py"
    spec = importlib.util.spec_from_file_location("forward", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_browser_reaches_what_listens_on_the_containers_own_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []
    body = b"x" * 300_000

    async def gate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    module = forward()
    async with await asyncio.start_server(gate, "127.0.0.1", 0) as inside:
        port = inside.sockets[0].getsockname()[1]
        bridge = module.INSIDE.replace(str(module.PORT), str(port))
        monkeypatch.setattr(sys, "argv", ["forward.py", sys.executable, "-I", "-c", bridge])
        async with await asyncio.start_server(module.forwarded, "127.0.0.1", 0) as outside:
            at = outside.sockets[0].getsockname()[1]
            for count in (1, 2):
                reader, writer = await asyncio.open_connection("127.0.0.1", at)
                writer.write(b"GET /review/0 HTTP/1.1\r\nHost: 127.0.0.1:7078\r\n\r\n")
                got = await asyncio.wait_for(reader.read(), 60)
                assert got.endswith(b"\r\n\r\n" + body)
                assert len(asked) == count
                writer.close()
    assert asked[0].startswith(b"GET /review/0 HTTP/1.1\r\nHost: 127.0.0.1:7078")
