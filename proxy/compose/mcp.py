"""Builds the MCP servers, and the front that passes a request to another front by its path.

Each `[[mcp]]` table has one hub at `/mcp/<server>`, which has all relays to that server.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from policy.model import Principal
from proxy.compose.backends import BackendServing
from proxy.compose.periodic import Periodic, every, reaching
from proxy.fronts.backend import BackendFront
from proxy.fronts.mcp_http import PREFIX, SWEEP_SECONDS, McpFront, ServedServer
from proxy.fronts.model import ModelFront
from proxy.mcp.http.child import ServerCommandLine
from proxy.mcp.http.hub import BackgroundWork, Hub, HubLimits
from proxy.mcp.relay import Deliver, Relay, RelayLimits, Server
from proxy.seams.environment import Environment, Serving
from proxy.seams.guard import Guard
from proxy.settings.mcp import McpServer
from proxy.transport.auth import Authenticator
from proxy.transport.exchange import AnsweredReply, Front, RequestHead
from proxy.transport.upstream import Upstream, UpstreamLimits


class DataFront:
    """Passes each request of the data listener to the front that its path names."""

    name = "data"

    def __init__(
        self, memory: Front, mcp: McpFront, model: ModelFront, backends: BackendFront
    ) -> None:
        self._memory = memory
        self._mcp = mcp
        # An upstream memory server is served in place of the dialect that imitates its API.
        self._fronts: dict[str, Front] = {
            **dict.fromkeys(model.names, model),
            **dict.fromkeys(backends.names, backends),
        }
        self.routes = memory.routes | mcp.routes | model.routes | backends.routes

    def answer(self, incoming: RequestHead) -> Coroutine[Any, Any, AnsweredReply]:
        """Pass the request to the front that its path names, else to the memory front."""
        path = incoming.head.path
        if path.startswith(PREFIX):
            return self._mcp.answer(incoming)
        return self._fronts.get(path[1:].partition("/")[0], self._memory).answer(incoming)


class McpServing:
    """The configured MCP servers, and the front of the data listener. Event loop only."""

    def __init__(
        self,
        servers: tuple[McpServer, ...],
        *,
        guard: Guard,
        authenticator: Authenticator,
        surroundings: Environment,
        backends: BackendServing,
        limits: RelayLimits,
        halt: Callable[[], None],
    ) -> None:
        self._servers = servers
        self._guard = guard
        self._authenticator = authenticator
        self._surroundings = surroundings
        self._limits = limits
        self._backends = backends
        self._halt = halt
        self._beside = BackgroundWork()
        self._upstreams = list[Upstream]()

    async def open(self, stack: AsyncExitStack, memory: Front, model: ModelFront) -> DataFront:
        """Build the hubs, open the upstream connections, and return the data listener's front.

        Until `running` is entered, the front refuses requests for MCP servers.
        """
        served: dict[str, ServedServer] = {}
        for server in self._servers:
            hub = await self._hub(server, stack)
            served[server.name] = ServedServer(
                hub=hub, principals=server.principals, keeps_memory=server.keeps_memory
            )
        self._front = McpFront(served, self._authenticator, self._halt)
        return DataFront(memory, self._front, model, await self._backends.open(stack))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve MCP clients, and run the background work of memory servers, while the block runs.

        When the block ends, all sessions and server processes are ended.
        """
        async with self._beside.running(self._front.close), self._backends.running():
            yield

    def periodic(self) -> tuple[Periodic, ...]:
        """The job that ends idle MCP sessions, and the jobs of the memory servers."""
        seconds = SWEEP_SECONDS if self._servers else 0
        return (
            every(seconds, self._front.sweep, "ending idle sessions"),
            *reaching(self._upstreams),
            *self._backends.periodic(),
        )

    async def _hub(self, server: McpServer, stack: AsyncExitStack) -> Hub:
        behind = await _behind(server, stack, self._surroundings.serving)
        if isinstance(behind, Upstream):
            self._upstreams.append(behind)
        known = Server(server.name, server.tool_map)

        def relay_for(principal: Principal, deliver: Deliver) -> Relay:
            return Relay(
                self._guard,
                principal,
                known,
                deliver,
                limits=self._limits,
                surroundings=self._surroundings,
            )

        return Hub(
            server.name,
            behind,
            relay_for,
            limits=HubLimits(sessions_max=server.sessions_max),
            spawn=self._beside.spawn,
            halt=self._halt,
            now_s=time.monotonic,
            random_hex=self._surroundings.random_hex,
        )


async def _behind(
    server: McpServer, stack: AsyncExitStack, serving: Serving
) -> Upstream | ServerCommandLine:
    if server.command is not None:
        return ServerCommandLine(
            words=server.command,
            environment=server.env,
            directory=server.cwd,
            holds=serving.holds,
        )
    limits = UpstreamLimits(head_seconds=server.answer_seconds, body_seconds=server.answer_seconds)
    upstream = Upstream(
        server.url or "", headers=server.headers, limits=limits, way=server, serving=serving
    )
    return await stack.enter_async_context(upstream)
