"""Both ends of a relay, in memory: what was sent, and what was delivered, in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from policy.model import Principal, PrincipalId, Tenant
from proxy.dialects.mcp.message import Message
from proxy.mcp.relay import Relay, RelayLimits, Server, Side
from proxy.seams.environment import Environment, RandomPool
from proxy.seams.guard import Guard

AGENT = Principal(principal_id=PrincipalId("uid:1000"), tenant=Tenant("default"))


class Ends:
    """A client and a server that write nothing of their own accord."""

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        self.to_server: list[bytes] = []
        self.vias: list[object] = []
        self.changed = asyncio.Condition()
        self.relay: Relay
        self.on_server: Callable[[bytes], Awaitable[None]] | None = None

    async def deliver(self, side: Side, raw: bytes, _message: Message, via: object) -> None:
        (self.to_client if side is Side.CLIENT else self.to_server).append(raw)
        self.vias.append(via)
        if side is Side.SERVER and self.on_server is not None:
            await self.on_server(raw)
        async with self.changed:
            self.changed.notify_all()

    async def client(self, *bodies: dict[str, Any] | bytes) -> None:
        for body in bodies:
            await self.relay.from_client(body if isinstance(body, bytes) else line(body))

    async def server(self, *bodies: dict[str, Any] | bytes) -> None:
        for body in bodies:
            await self.relay.from_server(body if isinstance(body, bytes) else line(body))

    async def client_has(self, count: int) -> list[Any]:
        """What the client got, once it is so much."""
        return await self._has(self.to_client, count)

    async def server_has(self, count: int) -> list[Any]:
        return await self._has(self.to_server, count)

    async def _has(self, got: list[bytes], count: int) -> list[Any]:
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: len(got) >= count), 10)
        return [json.loads(raw) for raw in got]  # the tests look at everything, untyped


def is_own(raw: bytes) -> bool:
    """Whether a request that the server got is the relay's own: its clients' ids are shorter."""
    body: dict[str, Any] = json.loads(raw)
    request_id = body.get("id")
    far = isinstance(request_id, int) and request_id >= 2**24
    return far or (isinstance(request_id, str) and len(request_id) == 36)


def line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def request(request_id: int | str, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def result(request_id: int | str, **value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def cancel(request_id: int | str) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": request_id},
    }


def call(request_id: int | str, tool: str, **arguments: object) -> dict[str, Any]:
    return request(request_id, "tools/call", name=tool, arguments=arguments)


def entity(name: str, *observations: str) -> dict[str, object]:
    return {"name": name, "entityType": "person", "observations": list(observations)}


@asynccontextmanager
async def relayed(
    guard: Guard, server: Server | None = None, limits: RelayLimits | None = None
) -> AsyncGenerator[Ends]:
    ends = Ends()
    surroundings = Environment(
        clock_ns=lambda: 1_700_000_000_000_000_000,
        random_hex=RandomPool(),
        record=lambda _event: None,
    )
    async with Relay(
        guard,
        AGENT,
        server or Server(name="memory"),
        ends.deliver,
        limits=limits or RelayLimits(),
        surroundings=surroundings,
    ) as relay:
        ends.relay = relay
        yield ends
