"""Stands between an HTTP client and a server: passes every byte on as it comes, and keeps it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from aiohttp import web

from tests.evaluate.free_port import on_free_port

# What belongs to one connection and not to the message (RFC 9110, section 7.6.1), and lengths.
_HOP = {
    "host",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "content-encoding",
}
_DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)


class HttpExchange(msgspec.Struct):
    """One request and what came back, so far."""

    method: str
    path: str
    asked: bytes
    sent: dict[str, str] = {}
    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""

    def messages(self) -> list[bytes]:
        """The JSON-RPC messages of the answer, as they were written."""
        if "event-stream" in self.headers.get("content-type", ""):
            return [data for data in _DATA.findall(self.body.replace(b"\r", b"")) if data]
        return [self.body] if self.body else []


class HttpTee:
    """The exchanges so far, in the order in which they began."""

    def __init__(self, target: str, client: aiohttp.ClientSession, *, opens: bool) -> None:
        self.exchanges: list[HttpExchange] = []
        self.url = ""
        self._target = target
        self._client = client
        self._dropped = _HOP if opens else _HOP - {"content-encoding"}

    def said(self) -> bytes:
        """Every byte that went to the client, headers included."""
        parts: list[bytes] = []
        for one in self.exchanges:
            parts += [repr(one.headers).encode(), one.body]
        return b"\n".join(parts)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        asked = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in self._dropped}
        # Compressed text would hide what a search of these bytes looks for.
        headers["Accept-Encoding"] = "identity"
        exchange = HttpExchange(method=request.method, path=request.path, asked=asked, sent=headers)
        self.exchanges.append(exchange)
        async with self._client.request(
            request.method, self._target + request.path_qs, data=asked or None, headers=headers
        ) as answer:
            exchange.status = answer.status
            exchange.headers = {k.lower(): v for k, v in answer.headers.items()}
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                exchange.body += chunk
                await response.write(chunk)
            await response.write_eof()
            return response


@asynccontextmanager
async def http_tee(target: str, *, opens: bool = True) -> AsyncGenerator[HttpTee]:
    """A recorder on a free port, before the server whose scheme, host and port are given.

    `opens`: requests are forwarded without their content encoding.
    """
    # No time limit: a stream for the server's own messages is open as long as its client likes.
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client:
        tee = HttpTee(target, client, opens=opens)
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", tee.pass_on)
        async with on_free_port(
            application, handler_cancellation=True, shutdown_timeout=1, auto_decompress=opens
        ) as tee.url:
            yield tee
