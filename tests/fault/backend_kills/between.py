"""What stands between a sidecar and the server behind it: it counts writes, and kills at one."""

from __future__ import annotations

import asyncio
import enum
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from aiohttp import web

from tests.integration.memory_servers.kinds import is_write

_HALF: Final = b"HTTP/1.1 20"


class Moment(enum.Enum):
    """When the sidecar is killed, seen from the server."""

    BEFORE = "killed, and the server never gets the write"
    LATE = "killed, and the server does the write afterwards"
    DONE = "the server has done it; killed without an answer"
    CUT = "the server has done it; killed in the middle of the answer"
    ANSWERED = "the server has answered; killed a little later"
    STORE = "killed at a point of its own store"


class Between:
    """Passes requests on to `server`. Event loop only."""

    def __init__(self, server: str, client: aiohttp.ClientSession) -> None:
        self._server = server
        self._client = client
        # How often each write reached the server, by its bytes.
        self.passed: Counter[tuple[str, str, bytes]] = Counter()
        self.victim = 0
        self.moment = Moment.STORE
        # The writes that are passed on before the one at which the sidecar is killed.
        self.spared = 0
        self.pause_s = 0.0
        self.late: list[asyncio.Task[None]] = []

    def aim(self, victim: int, moment: Moment, spared: int, pause_s: float) -> None:
        """Kill this process at this moment of a write, after so many other writes."""
        self.victim, self.moment, self.spared, self.pause_s = victim, moment, spared, pause_s

    def kill(self) -> None:
        """Kill the sidecar, if that has not happened."""
        victim, self.victim = self.victim, 0
        if victim:
            os.kill(victim, signal.SIGKILL)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if not is_write(request.method, request.path) or self.moment is Moment.STORE:
            return await self._pass(request, body)
        if self.spared or not self.victim:
            self.spared -= 1
            return await self._pass(request, body)
        moment = self.moment
        if moment in {Moment.BEFORE, Moment.LATE}:
            self.kill()
            if moment is Moment.LATE:
                await self._pass(request, body)
            return _cut(request)
        reply = await self._pass(request, body)
        if moment is Moment.ANSWERED:
            self.late.append(asyncio.create_task(self._kill_later()))
            return reply
        if moment is Moment.CUT and request.transport is not None:
            request.transport.write(_HALF)
            await asyncio.sleep(self.pause_s)
        self.kill()
        return _cut(request)

    async def _kill_later(self) -> None:
        await asyncio.sleep(self.pause_s)
        self.kill()

    async def _pass(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if is_write(request.method, request.path):
            self.passed[request.method, request.path, body] += 1
        headers = {name: value for name, value in request.headers.items() if name == "Content-Type"}
        async with self._client.request(
            request.method, self._server + request.path_qs, data=body or None, headers=headers
        ) as reply:
            said = await reply.read()
            kind = reply.headers.get("Content-Type")
            more = {} if kind is None else {"Content-Type": kind}
            return web.Response(status=reply.status, body=said, headers=more)


def _cut(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


@asynccontextmanager
async def between(server: str) -> AsyncGenerator[tuple[Between, str]]:
    """It, on a free port, and its URL."""
    async with aiohttp.ClientSession() as client:
        found = Between(server, client)
        runner = web.ServerRunner(web.Server(found.answer), handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address: Any = runner.addresses[0]
        try:
            yield found, f"http://{address[0]}:{address[1]}"
        finally:
            await asyncio.gather(*found.late)
            await runner.cleanup()
