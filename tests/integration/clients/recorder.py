"""Stands between a client and the sidecar, and keeps what both of them said."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from tests.evaluate.free_port import on_free_port


class Exchange(msgspec.Struct):
    method: str
    path: str
    asked: dict[str, Any]
    status: int
    phrase: str
    body: bytes

    def answer(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body, type=dict[str, Any])

    def infers(self) -> bool | None:
        """What a write asked for; None for anything else."""
        return self.asked.get("infer")


class Recorder:
    """The exchanges so far, oldest first. `change` may alter an answer before it is passed on."""

    def __init__(self, target: str, change: Callable[[Exchange], None] | None) -> None:
        self.exchanges: list[Exchange] = []
        self.url = ""
        self._target = target
        self._change = change

    def of(self, method: str, path: str) -> list[Exchange]:
        return [one for one in self.exchanges if (one.method, one.path) == (method, path)]

    def said(self) -> str:
        """Every byte that went to the client, status lines included."""
        return "\n".join(
            f"{one.status} {one.phrase}\n{one.body.decode()}" for one in self.exchanges
        )

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        kept = ("X-API-Key", "Authorization", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        async with (
            aiohttp.ClientSession() as client,
            client.request(
                request.method, self._target + request.path_qs, data=body, headers=headers
            ) as answer,
        ):
            exchange = Exchange(
                method=request.method,
                path=request.path,
                asked=msgspec.json.decode(body or b"{}", type=dict[str, Any]),
                status=answer.status,
                phrase=answer.reason or "",
                body=await answer.read(),
            )
        if self._change is not None:
            self._change(exchange)
        self.exchanges.append(exchange)
        return web.Response(
            status=exchange.status,
            reason=exchange.phrase,
            body=exchange.body,
            content_type="application/json",
        )


@asynccontextmanager
async def recorder(
    target: str, change: Callable[[Exchange], None] | None = None
) -> AsyncGenerator[Recorder]:
    """A recorder on a free port, before the server at `target`."""
    keeper = Recorder(target, change)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", keeper.pass_on)
    async with on_free_port(application) as keeper.url:
        yield keeper
