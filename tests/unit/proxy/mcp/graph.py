"""A memory server in memory: the tools of server-memory that the tests call, on a plain dict."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from proxy.mcp.relay import RelayLimits, Server
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, line, relayed, request

TOOLS = (
    "create_entities",
    "add_observations",
    "delete_entities",
    "read_graph",
    "search_nodes",
    "open_nodes",
    "reset_everything",
)


class GraphServer:
    """Answers what its relay delivers, at once, unless told to keep silent."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.entities: dict[str, list[str]] = {}
        self.calls: list[dict[str, Any]] = []
        self.silent = False
        self.failing = False
        self.breaking = False  # answers writes with an error, not with a result
        self.description = "a tool"
        self.kept: list[dict[str, Any]] = []  # answers that it will give later
        ends.on_server = self.take

    async def take(self, raw: bytes) -> None:
        body = json.loads(raw)
        if "id" not in body or "method" not in body:
            return
        result = self._result(body["method"], body.get("params") or {})
        if "_meta" in (body.get("params") or {}):
            result["resultType"] = "complete"
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        if self.breaking and body["method"] == "tools/call":
            del answer["result"]
            answer["error"] = {"code": -32603, "message": "no room"}
        if self.silent and body["method"] == "tools/call":
            self.kept.append(answer)
        else:
            await self.ends.relay.from_server(line(answer))

    async def speak(self) -> None:
        """Give the answers that were kept."""
        kept, self.kept = self.kept, []
        for answer in kept:
            await self.ends.relay.from_server(line(answer))

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {
                "protocolVersion": params.get("protocolVersion", "2025-11-25"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "memory-server", "version": "0"},
            }
        if method == "tools/list":
            tools = [
                {"name": name, "description": self.description, "inputSchema": {"type": "object"}}
                for name in TOOLS
            ]
            info = {"io.modelcontextprotocol/serverInfo": {"name": "memory-server", "version": ""}}
            return {"tools": tools, "_meta": info}
        if method == "tools/call":
            return self._call(params["name"], params.get("arguments") or {})
        return {"method": method}

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append({"name": tool, "arguments": arguments})
        if self.failing:
            return {"content": [{"type": "text", "text": "no room"}], "isError": True}
        if tool == "create_entities":
            for entity in arguments["entities"]:
                self.entities.setdefault(entity["name"], []).extend(entity["observations"])
        elif tool == "delete_entities":
            for name in arguments["entityNames"]:
                self.entities.pop(name, None)
        names = arguments.get("names", list(self.entities))
        shown = {
            "entities": [
                {"name": name, "entityType": "person", "observations": self.entities[name]}
                for name in names
                if name in self.entities
            ]
        }
        return {
            "content": [{"type": "text", "text": json.dumps(shown)}],
            "structuredContent": shown,
        }

    def got(self) -> list[str]:
        return [call["name"] for call in self.calls]


@asynccontextmanager
async def connected(
    server: Server | None = None,
    limits: RelayLimits | None = None,
    capabilities: dict[str, Any] | None = None,
) -> AsyncGenerator[tuple[Ends, GraphServer, MemoryGuard]]:
    """A client that has shaken hands, before it listed anything."""
    guard = MemoryGuard()
    async with relayed(guard, server, limits) as ends:
        graph = GraphServer(ends)
        hello = request(
            "hello", "initialize", capabilities=capabilities or {}, protocolVersion="2025-11-25"
        )
        await ends.client(hello, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        await ends.client_has(1)
        ends.to_client.clear()
        yield ends, graph, guard


def text_of(answer: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in answer["result"]["content"])
