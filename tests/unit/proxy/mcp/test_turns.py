"""One write at a time to a server that would lose others, and what an answer names as done."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest

from policy.model import ForwardStatus
from proxy.mcp.relay import RelayLimits, Server
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.graph import GraphServer, connected, text_of
from tests.unit.proxy.mcp.guarding import ASK, MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, call, cancel, entity, is_own, line, relayed, request


def memory(*, in_turn: bool = True) -> Server:
    tool_map = shipped_map("server-memory")
    assert tool_map is not None
    return Server("memory", msgspec.structs.replace(tool_map, one_write_at_a_time=in_turn))


def write(number: int, *names: str) -> dict[str, Any]:
    entities = [entity(name, "likes tea") for name in names or (f"Ann{number}",)]
    return call(number, "create_entities", entities=entities)


async def judged(guard: MemoryGuard, count: int) -> None:
    """Wait until so many calls were judged, and the last one was sent or waits for its turn."""
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(guard.judged) == count


def sent(ends: Ends) -> list[int]:
    """The ids of the client's calls that the server got, in order."""
    bodies = [json.loads(raw) for raw in ends.to_server if not is_own(raw)]
    return [one["id"] for one in bodies if one.get("method") == "tools/call"]


@pytest.mark.parametrize("in_turn", [True, False])
async def test_a_write_waits_for_the_answer_to_the_one_before(*, in_turn: bool) -> None:
    async with connected(memory(in_turn=in_turn)) as (ends, graph, guard):
        graph.silent = True
        await ends.client(write(1), call(2, "read_graph"), write(3), write(4))
        await ends.server_has(5)
        if not in_turn:
            await ends.server_has(7)
            assert sent(ends) == [1, 2, 3, 4], "control: without turns all are under way at once"
            await graph.speak()
            return
        await judged(guard, 3)
        assert sent(ends) == [1, 2]
        await graph.speak()
        await ends.server_has(6)
        await judged(guard, 3)
        assert sent(ends) == [1, 2, 3]
        await graph.speak()
        await ends.server_has(7)
        await graph.speak()
        await guard.has_settled(3)
    assert sent(ends) == [1, 2, 3, 4]
    assert {state for _, state in guard.settled} == {ForwardStatus.DONE}


async def test_a_read_of_another_client_waits_for_no_write() -> None:
    server = memory()
    async with connected(server) as (ends, graph, _), connected(server) as (others, _, guard):
        graph.silent = True
        await ends.client(write(1))
        await ends.server_has(4)
        await others.client(call(2, "read_graph"), write(3))
        await others.client_has(1)
        await judged(guard, 1)
        assert sent(others) == [2], "the read passes, the write waits (control)"
        await graph.speak()
        await guard.has_settled(1)


async def test_a_ping_passes_a_write_that_waits_and_a_later_read_does_not() -> None:
    async with connected(memory()) as (ends, graph, guard):
        graph.silent = True
        await ends.client(write(1), write(2), call(3, "read_graph"), request(4, "ping"))
        await ends.server_has(5)
        await judged(guard, 2)
        assert sent(ends) == [1]
        assert json.loads(ends.to_server[-1])["method"] == "ping"
        await graph.speak()
        await ends.server_has(7)
        await graph.speak()
        await guard.has_settled(2)
    assert sent(ends) == [1, 2, 3], "the read sees what its client wrote before"


async def test_two_clients_of_one_server_share_its_turns() -> None:
    server = memory()
    async with connected(server) as (ends, graph, _), connected(server) as (others, other, guard):
        graph.silent = True
        await ends.client(write(1))
        await ends.server_has(4)
        await others.client(write(2))
        await judged(guard, 1)
        assert (sent(ends), sent(others)) == ([1], [])
        await graph.speak()
        await guard.has_settled(1)
        assert (sent(others), other.got()) == ([2], ["create_entities"])


async def test_a_cancelled_write_keeps_its_turn_until_it_is_answered() -> None:
    async with connected(memory()) as (ends, graph, guard):
        graph.silent = True
        await ends.client(write(1))
        await ends.server_has(4)
        await ends.client(cancel(1), write(2))
        await judged(guard, 2)
        assert sent(ends) == [1]
        assert b"cancelled" not in b"".join(ends.to_server), "else it might not be answered"
        await graph.speak()
        await guard.has_settled(1)
        await ends.server_has(5)
        await graph.speak()
        await ends.client_has(1)
    assert [json.loads(raw)["id"] for raw in ends.to_client] == [2]
    assert [state for _, state in guard.settled] == [ForwardStatus.DONE] * 2


async def test_a_write_that_is_cancelled_before_its_turn_is_never_sent() -> None:
    async with connected(memory()) as (ends, graph, guard):
        graph.silent = True
        await ends.client(write(1))
        await ends.server_has(4)
        await ends.client(write(2))
        await judged(guard, 2)
        await ends.client(cancel(2), write(3))
        await graph.speak()
        await ends.server_has(5)
        await graph.speak()
        await guard.has_settled(3)
    assert sent(ends) == [1, 3]
    assert sorted(state.value for _, state in guard.settled) == ["done", "done", "failed"]


async def test_an_unanswered_write_is_passed_only_with_a_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    limits = RelayLimits(answer_seconds=0.05)
    async with connected(memory(), limits) as (ends, graph, guard):
        graph.silent = True
        await ends.client(write(1), write(2))
        await ends.server_has(5)
        await guard.has_settled(1)
    assert sent(ends) == [1, 2]
    assert guard.settled[0][1] is ForwardStatus.UNKNOWN
    assert "a later write passes one without an answer" in caplog.text


class Refusing(GraphServer):
    """Answers a write as the real server does: with what it created, or as `answer` says."""

    answer: dict[str, Any] | None = None

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        known = set(self.entities)
        told = super()._call(tool, arguments)
        if tool != "create_entities":
            return told
        new = [one for one in arguments["entities"] if one["name"] not in known]
        shown = {"entities": new} if self.answer is None else self.answer
        text = json.dumps(shown)
        return {"content": [{"type": "text", "text": text}], "structuredContent": shown}


async def said(ends: Ends, count: int) -> dict[str, Any]:
    found: dict[str, Any] = (await ends.client_has(count))[-1]
    return found


async def test_what_the_answer_does_not_name_had_no_effect_and_the_agent_reads_so() -> None:
    async with connected(memory()) as (ends, _, guard):
        Refusing(ends)
        await ends.client(write(1, "Ann"))
        assert "were not stored" not in text_of(await said(ends, 1)), "control"
        await ends.client(write(2, "Ann", "Bob"))
        answer = await said(ends, 2)
        await guard.has_settled(3)
    assert "1 of 2 items were not stored.\nNot stored (no_effect)" in text_of(answer)
    assert [state.value for _, state in guard.settled] == ["done", "no_effect", "done"]


async def test_an_answer_without_the_place_claims_nothing_and_is_looked_up() -> None:
    async with connected(memory(), RelayLimits(tend_seconds=0.01)) as (ends, _, guard):
        graph = Refusing(ends)
        graph.answer = {"created": 1}
        await ends.client(write(1, "Ann"))
        answer = await said(ends, 1)
        await guard.has_settled(1)
        guard.lose(guard.settled[0][0], guard.judged[0])
        await guard.has_settled(2)
    assert "does not name what was done" in text_of(answer)
    assert [state.value for _, state in guard.settled] == ["unknown", "done"]


async def test_a_released_item_without_effect_is_not_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    guard = MemoryGuard()
    async with relayed(guard, memory(), RelayLimits(tend_seconds=0.01)) as ends:
        graph = Refusing(ends)
        graph.entities["ASKED"] = ["likes tea"]
        hello = line({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {}})
        await ends.client(hello, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        await ends.client(call(1, "create_entities", entities=[entity("ASKED", "likes milk")]))
        await ends.client_has(2)
        (candidate_id,) = guard.held
        assert ASK in guard.held[candidate_id].key
        guard.release(candidate_id, "create_entities")
        await guard.has_settled(1)
    assert [state.value for _, state in guard.settled] == ["no_effect"]
    assert "a released item is not done" in caplog.text
