"""Composition of `/mcp/<server>`: one hub per `[[mcp]]` table, and the front before them."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from proxy.fronts.mcp_http import PREFIX, McpFront, Served
from proxy.mcp.http.beside import Beside
from proxy.mcp.http.child import Command
from proxy.mcp.http.hub import Hub, HubLimits, HubParts
from proxy.mcp.relay import Relay, RelayLimits, Server
from proxy.responses import attempt
from proxy.upstream import Upstream, UpstreamLimits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AsyncExitStack

    from policy.model import Principal
    from proxy.auth import Authenticator
    from proxy.exchange import Answered, Front, Incoming
    from proxy.fronts.model import ModelFront
    from proxy.guard import Guard
    from proxy.mcp.relay import Deliver
    from proxy.mcp_settings import McpServer
    from proxy.surroundings import Surroundings


class ServingParts(msgspec.Struct, frozen=True, kw_only=True):
    """What serving MCP stands on."""

    guard: Guard
    authenticator: Authenticator
    surroundings: Surroundings
    limits: RelayLimits
    halt: Callable[[], None]


class DataFront:
    """Every front of the data listener, by path."""

    name = "data"

    def __init__(self, memory: Front, mcp: McpFront, model: ModelFront) -> None:
        self._memory = memory
        self._mcp = mcp
        self._model = model
        self.routes = memory.routes | mcp.routes | model.routes

    async def answer(self, incoming: Incoming) -> Answered:
        """The answer of the front that the path belongs to."""
        return await self._front(incoming.head.path).answer(incoming)

    def _front(self, path: str) -> Front:
        if path.startswith(PREFIX):
            return self._mcp
        return self._model if self._model.serves(path) else self._memory


class McpServing:
    """The configured servers, built once. Event loop only."""

    def __init__(self, servers: tuple[McpServer, ...], parts: ServingParts) -> None:
        self._servers = servers
        self._parts = parts
        self._beside = Beside()

    async def open(self, stack: AsyncExitStack, memory: Front, model: ModelFront) -> DataFront:
        """The front of the data listener; until `running` it refuses what needs a server."""
        served: dict[str, Served] = {}
        for server in self._servers:
            hub = await self._hub(server, stack)
            served[server.name] = Served(hub=hub, principals=server.principals)
        self._front = McpFront(served, self._parts.authenticator, self._parts.halt)
        return DataFront(memory, self._front, model)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve; at the end every session and process is ended."""
        async with self._beside.running(self._front.close):
            self._beside.spawn(self._sweep())
            yield

    async def _sweep(self) -> None:
        await attempt(self._front.sweep(), self._parts.halt)

    async def _hub(self, server: McpServer, stack: AsyncExitStack) -> Hub:
        behind = await _behind(server, stack)
        known = Server(server.name, server.tool_map)
        parts = self._parts

        def relay_for(principal: Principal, deliver: Deliver) -> Relay:
            return Relay(
                parts.guard,
                principal,
                known,
                deliver,
                limits=parts.limits,
                surroundings=parts.surroundings,
            )

        return Hub(
            server.name,
            behind,
            relay_for,
            HubParts(
                spawn=self._beside.spawn,
                halt=parts.halt,
                now_s=time.monotonic,
                random_hex=parts.surroundings.random_hex,
            ),
            HubLimits(sessions_max=server.sessions_max, idle_seconds=server.idle_seconds),
        )


async def _behind(server: McpServer, stack: AsyncExitStack) -> Upstream | Command:
    if server.command is not None:
        return Command(
            words=server.command, environment=server.environment, directory=server.directory
        )
    limits = UpstreamLimits(head_seconds=server.answer_seconds, body_seconds=server.answer_seconds)
    upstream = Upstream(server.url or "", headers=server.headers, limits=limits)
    return await stack.enter_async_context(upstream)
