"""Store mode: answers to the requests of MCP clients, in both eras; plans make tools' results."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.dialects.mcp.known_members import HANDSHAKES, STATELESS
from proxy.dialects.mcp.message import (
    INVALID_PARAMS,
    META_SERVER_INFO,
    META_VERSION,
    Era,
    Message,
    Object,
)
from proxy.dialects.mcp.store.calls import StoreTools
from proxy.dialects.mcp.store.plans import GRAPH_URI, graph_resource
from proxy.dialects.mcp.store.steps import Plan
from proxy.dialects.mcp.store.tools import TOOLS
from proxy.dialects.strict_json.strict import JsonValue

METHOD_NOT_FOUND: Final = -32601
UNSUPPORTED_VERSION: Final = -32022
NAME: Final = "mnemogate-memory"
INSTRUCTIONS: Final = (
    "A memory that is kept between conversations: a knowledge graph of entities, their "
    "observations and relations, and plain memories. Each write is judged before it is stored; "
    "what is refused is not stored, and the answer says why and what to do instead."
)
_CAPABILITIES: Final[dict[str, JsonValue]] = {"tools": {}, "resources": {"subscribe": True}}
_RESOURCE: Final[dict[str, JsonValue]] = {
    "uri": GRAPH_URI,
    "name": "knowledge-graph",
    "title": "Knowledge Graph",
    "description": "The full knowledge graph with all entities and relations",
    "mimeType": "application/json",
}
# Methods whose answers, in the stateless era, forbid a client to cache them, because what the
# client may see can change.
_CACHED: Final = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "resources/read"}
    | {"server/discover"}
)


class RpcError(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON-RPC error; its text never quotes the request."""

    code: int
    text: str
    data: dict[str, list[str]] | None = None


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request to start (`wanted`) or to stop notifications of changes to the graph."""

    wanted: bool


class StoreProtocol:
    """Answers the requests of MCP clients; holds no state of a connection."""

    def __init__(self, tools: StoreTools, version: str) -> None:
        self._tools = tools
        self._info: Object = {"name": NAME, "version": version}

    def answer(self, message: Message) -> Object | RpcError | Subscription | Plan:
        """Answer a request: return a result, an error, a subscription, or the plan for a result.

        Raises:
            MalformedRequest: A call names no tool of store mode, or its arguments are no object.
        """
        if message.era is Era.STATELESS and message.meta.get(META_VERSION) not in STATELESS:
            return RpcError(
                code=UNSUPPORTED_VERSION,
                text="this version of the protocol is not spoken here",
                data={"supported": [*STATELESS]},
            )
        params = message.params
        match message.method:
            case "initialize":
                return self._hello(params)
            case "server/discover":
                return self._discovered()
            case "tools/list":
                return {"tools": [*TOOLS]}
            case "tools/call":
                return self._tools.plan(params)
            case _:
                return _resource(message.method, params)

    def finished(self, message: Message, result: Object) -> Object:
        """The result with the members that a response in the era of `message` must have."""
        if message.era is Era.HANDSHAKE:
            return result
        fresh: Object = {}
        if message.method in _CACHED:
            fresh = {"ttlMs": 0, "cacheScope": "private"}
        return {
            **result,
            "resultType": "complete",
            **fresh,
            "_meta": {META_SERVER_INFO: self._info},
        }

    def _hello(self, params: Object) -> Object:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[0],
            "capabilities": {**_CAPABILITIES},
            "serverInfo": self._info,
            "instructions": INSTRUCTIONS,
        }

    def _discovered(self) -> Object:
        return {
            "supportedVersions": [*STATELESS],
            "capabilities": {**_CAPABILITIES},
            "instructions": INSTRUCTIONS,
        }


def _resource(method: str | None, params: Object) -> Object | RpcError | Subscription | Plan:
    match method:
        case "ping":
            return {}
        case "resources/list":
            return {"resources": [{**_RESOURCE}]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
            return _of_the_graph(method, params)
        case _:
            return RpcError(code=METHOD_NOT_FOUND, text="this method is not served")


def _of_the_graph(method: str, params: Object) -> RpcError | Subscription | Plan:
    if params.get("uri") != GRAPH_URI:
        return RpcError(code=INVALID_PARAMS, text="there is no such resource")
    if method == "resources/read":
        return graph_resource()
    return Subscription(wanted=method == "resources/subscribe")
