"""Requests that get no answer that could be passed on: what is said, and what is recorded."""

from __future__ import annotations

import json

from proxy.mcp.relay import RelayLimits, Server, Side
from proxy.seams.guard import Forwarded
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.graph import connected, text_of
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import call, cancel, entity, line, relayed, request


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
    assert [state for _, state in guard.settled] == [Forwarded.UNKNOWN, Forwarded.DONE]


async def test_the_same_of_a_call_that_was_taken_back_is_recorded_and_told_to_nobody() -> None:
    async with connected() as (ends, graph, guard):
        graph.silent = True
        await ends.client(call(1, "create_entities", entities=[entity("Ann", "likes tea")]))
        await ends.server_has(4)
        await ends.client(cancel(1))
        await ends.server_has(5)
        await ends.server(twice(1))
        await guard.has_settled(1)
    assert [state for _, state in guard.settled] == [Forwarded.UNKNOWN]
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
    assert [state for _, state in guard.settled] == [Forwarded.DONE]


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
