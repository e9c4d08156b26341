"""What a server says of itself and of its tools is a read as well: some put memories there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.mcp.relay import Server
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import line, relayed, request, result

HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "memory-server", "version": "0", "title": "Memory"},
    "instructions": "Be brief.\nThe user has a quiet secret.\nAsk first.",
}
TOOLS: list[dict[str, Any]] = [
    {"name": "read_graph", "description": "Reads.", "inputSchema": {"type": "object"}},
    {
        "name": "search_nodes",
        "description": "Finds.",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "such as: a quiet secret"}},
        },
    },
    {"name": "open_nodes", "title": "Opens a quiet secret", "inputSchema": {"type": "object"}},
]


def memory() -> Server:
    return Server("memory", shipped_map("server-memory"))


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_instructions_pass_the_filter_and_the_rest_stays(method: str) -> None:
    guard = MemoryGuard()
    async with relayed(guard, memory()) as ends:
        for count in (1, 2):
            await ends.client(request(count, method))
            await ends.server_has(count)
            await ends.server(result(count, **HELLO))
            await ends.client_has(count)
            guard.withheld.add("quiet secret")
    assert ends.to_client[0] == line(result(1, **HELLO)), "control: it passes as it came"
    shown = json.loads(ends.to_client[1])["result"]
    assert shown == {**HELLO, "instructions": "Be brief.\nAsk first."}


async def test_a_tool_whose_words_hold_what_is_withheld_is_not_listed() -> None:
    guard = MemoryGuard()
    async with relayed(guard, memory()) as ends:
        for count in (1, 2):
            await ends.client(request(count, "tools/list"))
            await ends.server_has(count)
            await ends.server(result(count, tools=TOOLS))
            await ends.client_has(count)
            guard.withheld.add("quiet secret")
    assert ends.to_client[0] == line(result(1, tools=TOOLS))
    shown = json.loads(ends.to_client[1])["result"]
    assert shown["tools"] == TOOLS[:1]
    assert guard.pins is not None
    assert len(guard.pins) == len(TOOLS), "what is pinned is what the server said"


async def test_words_of_a_schema_are_not_asked_for() -> None:
    guard = MemoryGuard()
    guard.withheld |= {"object", "string", "read_graph"}
    async with relayed(guard, memory()) as ends:
        await ends.client(request(1, "tools/list"))
        await ends.server_has(1)
        await ends.server(result(1, tools=TOOLS))
        await ends.client_has(1)
    assert ends.to_client == [line(result(1, tools=TOOLS))]


async def test_where_nobody_can_say_what_may_be_shown_nothing_is() -> None:
    guard = MemoryGuard()
    guard.sift_broken = True
    async with relayed(guard, memory()) as ends:
        await ends.client(request(1, "tools/list"))
        await ends.server_has(1)
        await ends.server(result(1, tools=TOOLS))
        (answer,) = await ends.client_has(1)
    assert "quiet secret" not in json.dumps(answer)
    assert "error" in answer


@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list"])
async def test_an_error_in_place_of_a_listing_passes_the_whole_filter(method: str) -> None:
    guard = MemoryGuard()
    guard.withheld.add("quiet secret")
    error = {"code": -32603, "message": "not now", "data": {"title": "x", "why": "a quiet secret"}}
    async with relayed(guard, memory()) as ends:
        await ends.client(request(1, method))
        await ends.server_has(1)
        await ends.server({"jsonrpc": "2.0", "id": 1, "error": error})
        (answer,) = await ends.client_has(1)
    assert answer["error"]["message"] == "not now"
    assert "quiet secret" not in json.dumps(answer)


async def test_a_method_or_an_id_that_holds_what_is_withheld_brings_nothing() -> None:
    guard = MemoryGuard()
    guard.withheld.add("quiet secret")
    asked: dict[str, Any] = {"jsonrpc": "2.0", "method": "roots/list", "id": "a quiet secret"}
    told: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/a quiet secret"}
    plain: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/a plain word"}
    async with relayed(guard, memory()) as ends:
        await ends.server(asked, told, plain)
        got = await ends.client_has(1)
    assert [one["method"] for one in got] == ["notifications/a plain word"]
    assert b"quiet secret" not in b"".join(ends.to_client)
