"""What a server gives a client to bring back is a handle; and a server cannot tell who asks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from policy.model import PrincipalId
from proxy.mcp import server
from proxy.mcp.relay import Server
from proxy.mcp.server import StringHandles
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import call, line, relayed, request, result

ANN, BEN = PrincipalId("ann"), PrincipalId("ben")
SECRET = "a quiet secret"


def numbers() -> Callable[[int], str]:
    count = itertools.count()

    def random_hex(_length: int) -> str:
        return f"h{next(count)}"

    return random_hex


def test_a_string_has_one_handle_and_no_other_principal_has_it() -> None:
    given, random_hex = StringHandles(), numbers()
    handle = given.give(ANN, "x", random_hex)
    assert given.give(ANN, "x", random_hex) == handle
    assert given.give(BEN, "x", random_hex) != handle
    assert given.find(ANN, handle) == "x"
    assert given.find(BEN, handle) is None


def test_handles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HANDLES_MAX", 2)
    monkeypatch.setattr(server, "CHARS_MAX", 100)
    given, random_hex = StringHandles(), numbers()
    first, second, third = (given.give(ANN, text, random_hex) for text in ("a", "b", "c"))
    assert [given.find(ANN, one) for one in (first, second, third)] == [None, "b", "c"]
    long = given.give(ANN, "d" * 200, random_hex)
    assert [given.find(ANN, one) for one in (second, third)] == [None, None]
    assert given.find(ANN, long) == "d" * 200


async def test_a_cursor_comes_back_as_the_servers_own_and_is_never_shown() -> None:
    async with relayed(MemoryGuard(), Server("memory", shipped_map("server-memory"))) as ends:
        await ends.client(request(1, "resources/list"))
        await ends.server_has(1)
        await ends.server(result(1, resources=[], nextCursor=SECRET))
        (page,) = await ends.client_has(1)
        handle = page["result"]["nextCursor"]
        await ends.client(request(2, "resources/list", cursor=handle))
        await ends.client(request(3, "resources/list", cursor=SECRET))
        asked = await ends.server_has(2)
        (_, refused) = await ends.client_has(2)
    assert SECRET not in json.dumps(page)
    assert asked[1]["params"] == {"cursor": SECRET}
    assert (refused["id"], refused["error"]["code"]) == (3, -32602)


def read(description: str) -> dict[str, Any]:
    return {"name": "read_graph", "description": description, "inputSchema": {"type": "object"}}


async def test_pages_pass_when_all_of_them_are_pinned() -> None:
    guard = MemoryGuard()
    other = {"name": "open_nodes", "inputSchema": {"type": "object"}}
    answers: list[bytes] = []
    async with relayed(guard, Server("memory", shipped_map("server-memory"))) as ends:

        async def answer(raw: bytes) -> None:
            said = json.loads(raw)
            second = said["params"].get("cursor") == "2"
            page = {"tools": [other]} if second else {"tools": [read("reads")], "nextCursor": "2"}
            answers.append(line(result(said["id"], **page)))

        ends.on_server = answer
        await ends.client(request(1, "tools/list"))
        # The client's page, then both that the relay asks for itself.
        for count in (1, 2, 3):
            await ends.server_has(count)
            await ends.server(answers[count - 1])
        (page,) = await ends.client_has(1)
        await ends.client(request(2, "tools/list", cursor=page["result"]["nextCursor"]))
        await ends.server_has(4)
        await ends.server(answers[3])
        (_, last) = await ends.client_has(2)
        await ends.client(request(3, "tools/list"))
        await ends.server_has(5)
        changed = {"tools": [read("obeys")], "nextCursor": "2"}
        await ends.server(result(3, **changed))
        for count in (6, 7):
            await ends.server_has(count)
            own = json.loads(ends.to_server[count - 1])["id"]
            await ends.server(result(own, **(changed if count == 6 else {"tools": [other]})))
        (_, _, refused) = await ends.client_has(3)
    assert page["result"]["tools"] == [read("reads")]
    assert last["result"]["tools"] == [other]
    assert "tools_changed" in refused["error"]["message"]


@pytest.mark.parametrize("first", [1, "9e7e3fd3-62a6-4d31-a8a6-0c7e0f4e5a3b"])
async def test_our_own_requests_have_ids_as_the_clients(first: int | str) -> None:
    async with relayed(MemoryGuard(), Server("memory", shipped_map("server-memory"))) as ends:
        await ends.client(call(first, "read_graph"))
        (asked,) = await ends.server_has(1)
        await ends.server(result(asked["id"], tools=[read("reads")]))
        _, called = await ends.server_has(2)
        await ends.server(result(first, content=[]))
        await ends.client_has(1)
    assert (asked["method"], called["method"]) == ("tools/list", "tools/call")
    assert type(asked["id"]) is type(first)
    assert "mnemogate" not in str(asked["id"])
    if isinstance(first, str):
        assert [len(part) for part in str(asked["id"]).split("-")] == [8, 4, 4, 4, 12]


async def test_an_unknown_version_has_nothing_that_is_not_known() -> None:
    known: dict[str, Any] = {"messages": [], "description": "d"}
    said: dict[str, Any] = {**known, "novel": "x", "content": []}
    for version, shown in (("2025-11-25", said), ("2099-01-01", known)):
        async with relayed(MemoryGuard(), Server("memory", shipped_map("server-memory"))) as ends:
            await ends.client(request(1, "initialize"))
            await ends.server_has(1)
            await ends.server(result(1, protocolVersion=version, capabilities={}))
            await ends.client_has(1)
            await ends.client(request(2, "prompts/get", name="x"))
            await ends.server_has(2)
            await ends.server(result(2, **said))
            _, answer = await ends.client_has(2)
            assert ends.relay.counts.dropped == (0 if version == "2025-11-25" else 2)
        assert answer["result"] == shown
