"""A stdio server made reachable over Streamable HTTP (handshake era), as bridges on npm do it.

One child for each session. For tests of the direct connection: no judgement, no rewriting.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from tests.evaluate.free_port import on_free_port

Json = dict[str, Any]


class _Child:
    """One server process. Requests are answered one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.turn = asyncio.Lock()

    async def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.replace(b"\n", b"") + b"\n")
        await self.process.stdin.drain()

    async def answer(self, request_id: int | str) -> list[bytes]:
        assert self.process.stdout is not None
        lines: list[bytes] = []
        async with asyncio.timeout(60):
            while True:
                lines.append((await self.process.stdout.readline()).strip())
                said = msgspec.json.decode(lines[-1], type=Json)
                if said.get("id") == request_id and "method" not in said:
                    return lines


class Bridge:
    """The sessions of one command, and what it answered over HTTP."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.url = ""
        self._words = words
        self._children: dict[str, _Child] = {}

    async def post(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        said = msgspec.json.decode(body, type=Json)
        session = request.headers.get("Mcp-Session-Id", "")
        if said.get("method") == "initialize":
            session = secrets.token_hex(8)
            self._children[session] = _Child(await _start(self._words))
        child = self._children.get(session)
        if child is None:
            # As the servers of the TypeScript SDK say it.
            error = {"code": -32_000, "message": "Bad Request: No valid session ID provided"}
            answer = {"jsonrpc": "2.0", "error": error, "id": None}
            return web.json_response(answer, status=404 if session else 400)
        async with child.turn:
            await child.send(body)
            if "id" not in said or "method" not in said:
                return web.Response(status=202)
            lines = await child.answer(said["id"])
        events = b"".join(b"event: message\ndata: " + line + b"\n\n" for line in lines)
        headers = {"Content-Type": "text/event-stream", "Mcp-Session-Id": session}
        return web.Response(body=events, headers=headers)

    async def delete(self, request: web.Request) -> web.Response:
        child = self._children.pop(request.headers.get("Mcp-Session-Id", ""), None)
        if child is not None:
            await _stop(child)
        return web.Response(status=200)

    async def close(self) -> None:
        for child in self._children.values():
            await _stop(child)


async def _no_stream(_: web.Request) -> web.Response:
    return web.Response(status=405, headers={"Allow": "POST, DELETE"})


async def _start(words: tuple[str, ...]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=1 << 26)


async def _stop(child: _Child) -> None:
    if child.process.returncode is None:
        child.process.terminate()
    await child.process.wait()


@asynccontextmanager
async def bridge(words: tuple[str, ...]) -> AsyncGenerator[str]:
    """The URL of the command's own Streamable HTTP."""
    made = Bridge(words)
    application = web.Application(client_max_size=1 << 26)
    application.router.add_post("/mcp", made.post)
    application.router.add_delete("/mcp", made.delete)
    application.router.add_get("/mcp", _no_stream)
    async with on_free_port(application) as url:
        try:
            yield f"{url}/mcp"
        finally:
            await made.close()
