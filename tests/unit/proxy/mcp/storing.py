"""A client of store mode, and the server that it is connected to, on a real store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from policy.model import Principal, PrincipalId, Tenant
from proxy.dialects.mcp.message import Message, encode
from proxy.dialects.mcp.store.calls import StoreTools
from proxy.dialects.mcp.store.protocol import StoreProtocol
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.connection import RelayLimits, Side
from proxy.mcp.store_server import StoreServer
from proxy.seams.operation import GraphOperation, GraphResult, Operation, Result
from proxy.settings.tool_maps import shipped_map
from storage.ground.errors import StorageError
from tests.unit.proxy.intercept.test_operations import Conversation

Object = dict[str, "JsonValue"]

AGENT = Principal(principal_id=PrincipalId("uid:1000"), tenant=Tenant("default"))


class Client:
    """One connection, seen from its client."""

    def __init__(self) -> None:
        self.server: StoreServer | None = None
        self.heard: list[Object] = []
        self.error: StorageError | None = None
        self.hold: asyncio.Event | None = None
        self._ids = 0

    async def deliver(self, side: Side, raw: bytes, message: Message, via: object, /) -> None:
        assert side is Side.CLIENT
        assert b"\n" not in raw
        self.heard.append(message.body)

    async def send(self, body: Object) -> None:
        assert self.server is not None
        await self.server.from_client(encode(body))

    async def ask(self, method: str, params: Object | None = None) -> Object:
        assert self.server is not None
        self._ids += 1
        asked = self._ids
        await self.send({"jsonrpc": "2.0", "id": asked, "method": method, "params": params or {}})
        await self.server.flushed(Side.CLIENT)
        return next(body for body in self.heard if body.get("id") == asked)

    async def result(self, method: str, params: Object | None = None) -> Object:
        result = (await self.ask(method, params))["result"]
        assert isinstance(result, dict)
        return result

    async def call(self, tool: str, arguments: Object) -> Object:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def graph(self) -> JsonValue:
        result = await self.call("read_graph", {})
        text = json.loads(text_of(result))
        assert text == result["structuredContent"]
        return result["structuredContent"]


def text_of(result: Object, index: int = 0) -> str:
    content = result["content"]
    assert isinstance(content, list)
    block = content[index]
    assert isinstance(block, dict)
    text = block["text"]
    assert isinstance(text, str)
    return text


@asynccontextmanager
async def connected(talk: Conversation, principal: Principal = AGENT) -> AsyncGenerator[Client]:
    client = Client()

    async def perform(
        operation: Operation | GraphOperation, _traceparent: str | None, /
    ) -> Result | GraphResult:
        if client.hold is not None:
            await client.hold.wait()
        if client.error is not None:
            raise client.error
        return await talk.serve(operation, principal)

    tool_map = shipped_map("server-memory")
    assert tool_map is not None
    protocol = StoreProtocol(StoreTools(tool_map), "0")
    async with StoreServer(protocol, perform, client.deliver, RelayLimits()) as server:
        client.server = server
        yield client
