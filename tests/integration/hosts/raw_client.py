"""An MCP client that says exactly what it is told to, over stdio, one request at a time."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.integration.clients.process import PATH

Json = dict[str, Any]
_ANSWERS_S = 60.0


class RawClient:
    """Speaks the handshake era. Keeps every line that came."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.received: list[bytes] = []
        self._ids = itertools.count(1)

    async def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def line(self) -> Json:
        assert self.process.stdout is not None
        async with asyncio.timeout(_ANSWERS_S):
            line = await self.process.stdout.readline()
        assert line, "the server has closed its output"
        self.received.append(line)
        return msgspec.json.decode(line, type=Json)

    async def ask(self, method: str, params: Json | None = None) -> Json:
        """The answer to one request; notifications before it are kept and passed over."""
        number = next(self._ids)
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        while True:
            said = await self.line()
            if said.get("id") == number and "method" not in said:
                return said

    async def call(self, tool: str, arguments: Json) -> Json:
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    async def text(self, tool: str, arguments: Json) -> str:
        """Everything that the result of a call shows, its structured part too."""
        return json.dumps(await self.call(tool, arguments), ensure_ascii=False)

    def heard(self) -> bytes:
        return b"".join(self.received)


@asynccontextmanager
async def raw_client(
    words: Sequence[str], home: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[RawClient]:
    """A connection that has shaken hands; the command's own standard error goes to a file."""
    await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
    errors = await asyncio.to_thread((home / "stderr").open, "ab")
    pipe = asyncio.subprocess.PIPE
    with errors:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=pipe,
            stdout=pipe,
            stderr=errors,
            cwd=home,
            env={"PATH": PATH, "HOME": str(home), **(environment or {})},
            limit=1 << 26,
        )
    client = RawClient(process)
    try:
        given: Json = {"protocolVersion": "2025-11-25", "capabilities": {}}
        await client.ask("initialize", {**given, "clientInfo": {"name": "raw", "version": "0"}})
        await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await client.ask("tools/list")
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_ANSWERS_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
