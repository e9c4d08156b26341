"""An MCP server with a knowledge graph, behind the sidecar over HTTP; and what it was sent."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.integration.mcp_server import META, Server, result
from tests.integration.recorded.recorder import SentUpstream

Json = dict[str, Any]
# Beside tools of the reference server one that its map does not know.
TOOLS = ("create_entities", "add_observations", "delete_entities", "read_graph", "open_nodes")
UNKNOWN = "format_disk"
# What it says of entities of these names: that it failed; nothing, and does nothing; and nothing
# where it did what it was told.
BROKEN = "Broken"
LOST = "Lost"
UNTOLD = "Untold"


class MemoryServer(Server):
    """Tools of the reference server, on a graph in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.sse = False
        self.script = self._answer
        self.entities: list[Json] = []
        self.description = "Keeps what it is told."
        self._sent: list[SentUpstream] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        sent = f"{request.method} {request.path_qs}"
        self._sent.append((sent, dict(request.headers), await request.read()))
        return await super().handle(request)

    def take(self) -> list[SentUpstream]:
        """What it was sent since it was asked last."""
        sent, self._sent = self._sent, []
        return sent

    async def _answer(self, _request: web.Request, body: Json) -> web.StreamResponse | None:
        params = body.get("params", {})
        if params.get("name") == "create_entities" and LOST in _names(params):
            return web.Response(status=502, text="nobody is here")
        value = self._value(body.get("method"), params)
        if params.get("name") == "create_entities" and UNTOLD in _names(params):
            return web.Response(status=502, text="nobody is here any more")
        if value is None or "id" not in body:
            return None
        kind = {"resultType": "complete"} if META in body["params"].get("_meta", {}) else {}
        return web.json_response(result(body["id"], **value, **kind))

    def _value(self, method: str | None, params: Json) -> Json | None:
        match method:
            case "tools/list":
                schema = {"type": "object"}
                return {
                    "tools": [
                        {"name": name, "description": self.description, "inputSchema": schema}
                        for name in (*TOOLS, UNKNOWN)
                    ]
                }
            case "tools/call":
                return self._called(params["name"], params.get("arguments", {}))
            case _:
                return None

    def _called(self, name: str, given: Json) -> Json:
        shown: Json = {"entities": self.entities, "relations": []}
        match name:
            case "create_entities":
                if any(one["name"] == BROKEN for one in given["entities"]):
                    return {"content": _text("it broke"), "isError": True}
                self.entities += given["entities"]
                shown = {"entities": given["entities"]}
            case "add_observations":
                for one in given["observations"]:
                    self._of(one["entityName"])["observations"] += one["contents"]
                shown = {"results": given["observations"]}
            case "delete_entities":
                self.entities = [
                    one for one in self.entities if one["name"] not in given["entityNames"]
                ]
                shown = {"success": True}
            case "open_nodes":
                shown["entities"] = [one for one in self.entities if one["name"] in given["names"]]
            case _:
                pass
        return {"content": _text(json.dumps(shown)), "structuredContent": shown}

    def _of(self, name: str) -> Json:
        return next(one for one in self.entities if one["name"] == name)


def _names(params: Json) -> set[str]:
    return {one["name"] for one in params["arguments"]["entities"]}


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]
