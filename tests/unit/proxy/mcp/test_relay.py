"""The relay: order, pairing, names of origins, and what is not forwarded."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from policy.model import Tenant
from proxy.dialects.mcp.message import parse
from proxy.mcp.answers import call_of, method_of, tool_of
from proxy.mcp.pending_requests import PendingRequest
from proxy.mcp.relay import RelayLimits, Server, Side
from proxy.seams.guard import ForwardStatus, PinnedTool
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.graph import connected, text_of
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import call, cancel, entity, line, relayed, request, result

STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


async def test_bytes_go_on_as_they_came() -> None:
    odd = b'{ "params": {"z":1.50, "a":"\\u00e9"} ,"method":"x/unknown","jsonrpc":"2.0","id": 7 }'
    back = b'{"id":7,"result":{"n":1e2,"s":"\\u0041"},"jsonrpc":"2.0"}'
    async with relayed(MemoryGuard()) as ends:
        await ends.client(odd)
        await ends.server_has(1)
        await ends.server(back)
        await ends.client_has(1)
    assert ends.to_server == [odd]
    assert ends.to_client == [back]


async def test_a_message_does_not_hide_in_the_white_space_of_another() -> None:
    hidden = line(request(9, "tools/call", name="create_entities"))
    outer = b'{"jsonrpc":"2.0","method":"notifications/x","params":\r' + hidden + b"\r}"
    # The control: a reader that ends lines at a carriage return sees the call.
    assert hidden in outer.splitlines()
    async with relayed(MemoryGuard()) as ends:
        await ends.client(outer)
        await ends.server_has(1)
    assert len(ends.to_server[0].splitlines()) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":NaN}}',
        b"\xff\xfe",
        b"",
        b"null",
    ],
)
async def test_what_two_readers_could_read_differently_is_refused(raw: bytes) -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(raw)
        (answer,) = await ends.client_has(1)
    assert ends.to_server == []
    assert answer["error"]["code"] in (-32700, -32600)
    assert ends.relay.counts.refused == 1


async def test_ids_of_both_sides_are_two_tables() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "resources/list"))
        await ends.server_has(1)
        await ends.server(request(1, "roots/list"))
        await ends.client_has(1)
        await ends.client(result(1, roots=[]))
        await ends.server_has(2)
        await ends.server(result(1, resources=[]))
        got = await ends.client_has(2)
    assert got[0]["method"] == "roots/list"
    assert got[1]["result"] == {"resources": []}


async def test_an_id_in_use_is_refused_without_an_answer_under_it() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "ping"), request(1, "ping"), request("1", "ping"))
        (refusal,) = await ends.client_has(1)
        sent = await ends.server_has(2)
        await ends.server(result(1))
        await ends.client_has(2)
        await ends.client(request(1, "ping"))
        await ends.server_has(3)
    assert refusal["id"] is None
    assert [body["id"] for body in sent] == [1, "1"]


async def test_answers_that_nobody_waits_for_end_here() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "ping"))
        await ends.server_has(1)
        await ends.server(result(2), result("1"), result(1, n=1), result(1, n=2))
        await ends.server({"jsonrpc": "2.0", "method": "notifications/x"})
        got = await ends.client_has(2)
    assert [body.get("result") for body in got] == [{"n": 1}, None]
    assert ends.relay.counts.orphans == 3


async def test_a_late_answer_goes_nowhere() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "ping"), cancel(1))
        await ends.server_has(2)
        await ends.server(result(1), {"jsonrpc": "2.0", "method": "notifications/x"})
        (got,) = await ends.client_has(1)
    assert got["method"] == "notifications/x"
    assert ends.relay.counts.late == 1


async def test_a_thousand_calls_of_both_eras_stay_in_order_and_paired() -> None:
    def asked(n: int) -> dict[str, Any]:
        request_id = n // 2 if n % 2 else str(n // 2)
        return request(request_id, "x/echo", n=n, **(STATELESS if n % 3 else {}))

    answered = list(range(1_000))
    random.Random(7).shuffle(answered)  # noqa: S311 - an order, not a secret
    async with relayed(MemoryGuard()) as ends:
        await ends.client(*(asked(n) for n in range(1_000)))
        sent = await ends.server_has(1_000)
        await ends.server(*(result(asked(n)["id"], n=n) for n in answered))
        got = await ends.client_has(1_000)
    assert [body["params"]["n"] for body in sent] == list(range(1_000))
    assert [body["result"]["n"] for body in got] == answered
    assert all(body["id"] == asked(body["result"]["n"])["id"] for body in got)


async def test_a_lost_server_is_said_to_everybody_who_waits() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "ping"), request("a", "resources/list"))
        await ends.server_has(2)
        await ends.relay.lost()
        await ends.client(request(2, "ping"))
        got = await ends.client_has(3)
    assert [(body["id"], body["error"]["code"]) for body in got] == [
        (1, -32000),
        ("a", -32000),
        (2, -32000),
    ]


async def test_one_lost_answer_ends_one_request() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "tools/list"), request("1", "tools/list"))
        await ends.server_has(2)
        await ends.relay.lost("1")
        await ends.client_has(1)
        await ends.relay.lost("nobody")
        await ends.server(result(1, tools=[]), result("1", tools=[]))
        await ends.relay.flushed(Side.SERVER)
        got = await ends.client_has(2)
    assert [answer["id"] for answer in got] == ["1", 1]
    assert "error" in got[0]
    assert ends.relay.counts.orphans == 1


async def test_an_answer_goes_to_the_stream_it_came_on_and_else_to_the_one_that_asked() -> None:
    async with relayed(MemoryGuard()) as ends:
        for number in (1, 2):
            await ends.relay.from_client(line(request(number, "tools/list")), f"asked {number}")
        await ends.relay.from_server(line(result(1)), "resumed")
        await ends.relay.from_server(line(result(2)))
        await ends.relay.flushed(Side.SERVER)
    assert ends.vias == ["asked 1", "asked 2", "resumed", "asked 2"]


async def test_an_answer_that_is_asked_for_again_passes_the_filter_again() -> None:
    guard = MemoryGuard()
    seen = line(result(1, text="a quiet secret"))
    async with relayed(guard, Server(name="memory", tool_map=shipped_map("server-memory"))) as ends:
        await ends.relay.from_client(line(request(1, "resources/read", uri="x")), "first")
        await ends.server_has(1)
        await ends.relay.from_server(seen, "first")
        await ends.relay.from_server(seen, "first")  # not asked for: an orphan
        await ends.relay.from_server(seen, "resumed", again=True)
        await ends.client_has(2)
        guard.withheld.add("quiet secret")
        await ends.relay.from_server(seen, "resumed", again=True)
        got = await ends.client_has(3)
    assert ends.relay.counts.orphans == 1
    assert [answer["result"]["text"] for answer in got[:2]] == ["a quiet secret"] * 2, "control"
    assert "quiet secret" not in str(got[2])
    assert ends.vias[1:] == ["first", "resumed", "resumed"]


TENANT = Tenant("default")


@pytest.mark.parametrize(
    ("request_id", "name"),
    [(0, "0"), (7, "7"), (2**31, "other"), (-1, "other"), ("7", "other"), ("a secret", "other")],
)
def test_only_a_count_is_the_name_of_a_call(request_id: int | str, name: str) -> None:
    assert call_of(request_id) == name


@pytest.mark.parametrize(
    ("method", "name"),
    [("resources/read", "resources/read"), ("Zebra/always", "other"), (None, "other")],
)
def test_only_the_protocol_s_own_methods_have_names(method: str | None, name: str) -> None:
    assert method_of(method) == name


def test_a_tool_is_named_where_its_server_lists_it_for_this_tenant() -> None:
    server = Server("web", context=True)
    called = PendingRequest(parse(line(call(1, "search"))), None)
    called.tool = "search"
    assert tool_of(called, server, TENANT) == "other"
    server.listed(TENANT, (PinnedTool(name="search", digest="0" * 64),))
    assert tool_of(called, server, TENANT) == "search"
    assert tool_of(called, server, Tenant("elsewhere")) == "other"


def test_what_is_no_tool_call_is_called_by_its_method() -> None:
    asked = PendingRequest(parse(line(request(1, "prompts/get", name="Zebra"))), None)
    assert tool_of(asked, Server("web"), TENANT) == "prompts/get"


def twice(request_id: int | str) -> bytes:
    """An answer that two readers could read differently."""
    return (
        b'{"jsonrpc":"2.0","id":%s,"result":{"n":1},"result":{"n":2}}'
        % json.dumps(request_id).encode()
    )


async def test_a_write_whose_answer_cannot_be_relayed_is_unknown_and_is_looked_up() -> None:
    async with connected(limits=RelayLimits(tend_seconds=0.01)) as (ends, graph, guard):
        graph.silent = True
        await ends.client(call(1, "create_entities", entities=[entity("Ann", "likes tea")]))
        await ends.server_has(4)
        graph.silent = False
        await ends.server(twice(1))
        (answer,) = await ends.client_has(1)
        await guard.has_settled(1)
        guard.lose(guard.settled[0][0], guard.judged[0])
        await guard.has_settled(2)
    assert answer["result"]["isError"] is True
    assert "read first" in text_of(answer)
    # It was stored all the same, and the read that the map names tells so.
    assert graph.got() == ["create_entities", "open_nodes"]
    assert [state for _, state in guard.settled] == [ForwardStatus.UNKNOWN, ForwardStatus.DONE]


async def test_the_same_of_a_call_that_was_taken_back_is_recorded_and_told_to_nobody() -> None:
    async with connected() as (ends, graph, guard):
        graph.silent = True
        await ends.client(call(1, "create_entities", entities=[entity("Ann", "likes tea")]))
        await ends.server_has(4)
        await ends.client(cancel(1))
        await ends.relay.flushed(Side.CLIENT)
        await ends.server(twice(1))
        await guard.has_settled(1)
    assert [state for _, state in guard.settled] == [ForwardStatus.UNKNOWN]
    assert ends.to_client == []


async def test_a_read_whose_answer_cannot_be_relayed_is_refused_by_its_reason() -> None:
    async with relayed(MemoryGuard()) as ends:
        await ends.client(request(1, "resources/list"))
        await ends.server_has(1)
        await ends.server(twice(1))
        (answer,) = await ends.client_has(1)
    assert answer["id"] == 1
    assert "cannot be relayed" in answer["error"]["message"]


async def test_an_unreadable_answer_to_what_was_not_sent_ends_nothing() -> None:
    async with connected() as (ends, graph, guard):
        guard.may_judge.clear()
        await ends.client(call(1, "create_entities", entities=[entity("Ann", "likes tea")]))
        await guard.judging.wait()
        await ends.server(twice(1))
        assert ends.to_client == []
        guard.may_judge.set()
        (answer,) = await ends.client_has(1)
    assert graph.got() == ["create_entities"]
    assert "error" not in answer
    assert [state for _, state in guard.settled] == [ForwardStatus.DONE]


async def test_an_unreadable_answer_to_a_question_of_ours_is_none_and_at_once() -> None:
    limits = RelayLimits(answer_seconds=3_600.0)
    memory = Server("memory", shipped_map("server-memory"))
    async with relayed(MemoryGuard(), memory, limits) as ends:
        await ends.client(call(1, "create_entities", entities=[entity("Ann", "likes tea")]))
        (listing,) = await ends.server_has(1)
        assert listing["method"] == "tools/list"
        await ends.server(twice(listing["id"]))
        (answer,) = await ends.client_has(1)
    assert "gate_unavailable" in text_of(answer)


ERROR = {"code": -32603, "message": "no room for a quiet secret", "data": {"held": "quiet secret"}}


async def test_an_error_that_names_no_request_passes_the_filter() -> None:
    guard = MemoryGuard()
    stray = line({"jsonrpc": "2.0", "id": None, "error": ERROR})
    async with relayed(guard, Server("memory", shipped_map("server-memory"))) as ends:
        await ends.server(stray)
        await ends.client_has(1)
        assert ends.to_client == [stray], "control: with nothing withheld it passes as it came"
        guard.withheld.add("quiet secret")
        await ends.server(stray)
        got = await ends.client_has(2)
    assert got[1]["id"] is None
    assert got[1]["error"]["code"] == -32603
    assert "quiet secret" not in json.dumps(got[1])
    assert {text for seen in guard.segments for text in seen.texts} >= {"[withheld]"}


async def test_an_error_that_names_no_request_and_cannot_be_sifted_reaches_nobody() -> None:
    guard = MemoryGuard()
    async with relayed(guard, Server("memory", shipped_map("server-memory"))) as ends:
        guard.sift_broken = True
        await ends.server({"jsonrpc": "2.0", "id": None, "error": ERROR})
        await ends.relay.flushed(Side.SERVER)
    assert ends.to_client == []


async def test_an_error_of_the_client_that_names_no_request_goes_on_as_it_came() -> None:
    stray = line({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}})
    async with relayed(MemoryGuard()) as ends:
        await ends.client(stray)
        await ends.server_has(1)
    assert ends.to_server == [stray]
