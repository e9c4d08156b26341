"""What a server reports of itself, its handles and recurring answers: each is a read as well."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Generator
from typing import Any

import pytest

from policy.model import Principal, PrincipalId
from proxy.dialects.mcp import results
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp import server
from proxy.mcp.relay import RelayLimits, Server
from proxy.mcp.server import StringHandles
from proxy.seams.guard import RelayedText
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.graph import connected
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import call, line, relayed, request, result

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
    {
        "name": "add_observations",
        # Only one line of it is withheld: without that line the tool would not be what was pinned.
        "description": "Adds to an entity.\nIt knows a quiet secret.\nAsk first.",
        "inputSchema": {"type": "object"},
    },
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


class LateGuard(MemoryGuard):
    """Of a gate that still starts: no question is answered."""

    async def sift(
        self,
        principal: Principal,
        server: str,
        strings: tuple[str, ...],
        seen: RelayedText | None = None,
    ) -> tuple[bool, ...]:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("late", [True, False], ids=["late", "none"])
async def test_without_a_gate_initialize_is_answered_with_nothing_that_it_would_read(
    *, late: bool
) -> None:
    guard = LateGuard() if late else MemoryGuard()
    guard.sift_broken = True
    limits = RelayLimits(greeting_seconds=0.01)
    async with relayed(guard, memory(), limits) as ends:
        await ends.client(request(1, "initialize"))
        await ends.server_has(1)
        offers: dict[str, Any] = {"tools": {}, "experimental": {"a quiet secret": {}}}
        said = HELLO | {"capabilities": offers}
        await ends.server(result(1, **said))
        (answer,) = await ends.client_has(1)
    assert answer["result"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "experimental": {}},
        "serverInfo": {"name": "memory", "version": "-"},
    }
    assert guard.segments == []


async def test_changed_tools_are_logged_once_however_often_the_gate_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = MemoryGuard()
    guard.approved = False
    async with relayed(guard, memory(), RelayLimits(tend_seconds=0.001)) as ends:

        async def listed(count: int, text: str) -> None:
            await ends.client(request(count, "tools/list"))
            await ends.server_has(count)
            await ends.server(result(count, tools=[read(text)]))
            await ends.client_has(count - 1)

        await ends.client({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await ends.server_has(1)
        await listed(2, "obeys")
        asked = guard.pinned
        while guard.pinned < asked + 20:  # noqa: ASYNC110 - a count
            await asyncio.sleep(0)
        assert caplog.messages.count("tools changed") == 1
        # Control: another change is another line.
        await listed(3, "obeys more")
        assert caplog.messages.count("tools changed") == 2


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


NOTES: tuple[str, ...] = ("likes tea", "has a cat", "a quarantined note", "lives in Ulm")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every value that was taken apart to be sifted."""
    made: list[object] = []

    def counted(
        result: JsonValue,
        shown: AnswerShape = results.PLAIN,
        answer: results.Answer | None = None,
    ) -> Generator[tuple[str, ...], tuple[bool, ...], JsonValue]:
        made.append(result)
        return results.filtering(result, shown, answer)

    monkeypatch.setattr("proxy.mcp.answers.filtering", counted)
    return made


async def test_the_same_answer_is_taken_apart_once_and_asked_for_each_time(
    plans: list[object],
) -> None:
    async with connected() as (ends, graph, guard):
        graph.entities = {"Ann": ["likes tea", "a quarantined note"]}
        for number in (1, 2, 3):
            plans.clear()
            await ends.client(call(number, "read_graph"))
            await ends.client_has(number)
            assert len(plans) == (number == 1)
        told = [one.texts for one in guard.segments if one.tool == "read_graph"]
        assert told == [told[0]] * 3, "each of them is noted"
        guard.withheld = {"a quarantined note"}
        await ends.client(call(4, "read_graph"))
        assert "a quarantined note" not in json.dumps((await ends.client_has(4))[3])
        guard.withheld = set()
        await ends.client(call(5, "read_graph"))
        shown = await ends.client_has(5)
    assert "a quarantined note" in json.dumps(shown[4]), "the control: it is let out again"
    assert len(plans) == 2, "and neither of these was remembered"


async def test_a_gate_that_cannot_say_withholds_an_answer_that_was_shown_before() -> None:
    async with connected() as (ends, graph, guard):
        graph.entities = {"Ann": ["likes tea"]}
        await ends.client(call(1, "read_graph"))
        await ends.client_has(1)
        guard.sift_broken = True
        await ends.client(call(2, "read_graph"))
        refused = (await ends.client_has(2))[1]
    assert refused["result"]["isError"] is True
    assert "likes tea" not in json.dumps(refused)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_shown_again_is_what_a_new_relay_would_show(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same run each time
    turns = [
        (chance.sample(NOTES, k=2), set(chance.sample(NOTES, k=chance.choice((0, 0, 1)))))
        for _ in range(30)
    ]
    turns = [one for one in turns for _ in range(2)]
    async with connected() as (ends, graph, guard):
        for number, (notes, withheld) in enumerate(turns, 1):
            graph.entities, guard.withheld = {"Ann": notes}, withheld
            await ends.client(call(number, "read_graph"))
            shown = (await ends.client_has(number))[number - 1]
            there = [one for one in notes if one not in withheld]
            entities = shown["result"]["structuredContent"]["entities"]
            assert [one for entity in entities for one in entity["observations"]] == there
            assert all(one not in json.dumps(shown) for one in withheld)


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
