"""Held items while a person decides, and what is sent or looked up afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policy.model import CandidateId
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.backend import question_of, told
from proxy.mcp.relay import RelayLimits
from proxy.seams.guard import ForwardStatus, UnsettledItem
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.mcp.graph import GraphServer, connected, text_of
from tests.unit.proxy.mcp.guarding import ASK, MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, call, entity, relayed

URLS: dict[str, Any] = {"elicitation": {"url": {}}}
QUICK = RelayLimits(person_seconds=5, ask_seconds=0.01, tend_seconds=0.01)
STATELESS: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": URLS,
}


def held_write(request_id: int) -> dict[str, Any]:
    return call(request_id, "create_entities", entities=[entity("Ann", f"{ASK} always tea")])


async def accept(ends: Ends, question: dict[str, Any], action: str = "accept") -> None:
    await ends.client({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action}})


async def test_a_person_is_sent_to_the_page_and_his_yes_sends_the_write_once() -> None:
    async with connected(limits=QUICK, capabilities=URLS) as (ends, graph, guard):
        await ends.client(held_write(1))
        (question,) = await ends.client_has(1)
        # The connection does not wait with it.
        await ends.client(call(2, "read_graph"))
        assert (await ends.client_has(2))[1]["id"] == 2
        await accept(ends, question)
        (candidate_id,) = guard.held
        guard.release(candidate_id, "create_entities")
        answer = (await ends.client_has(3))[2]
        sent = [json.loads(raw) for raw in ends.to_server]
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "url"
    assert candidate_id in question["params"]["url"]
    assert ASK not in json.dumps(question)
    assert answer["id"] == 1
    assert "isError" not in answer["result"]
    assert graph.entities == {"Ann": [f"{ASK} always tea"]}
    assert graph.got().count("create_entities") == 1
    assert guard.settled == [(candidate_id, ForwardStatus.DONE)]
    # The answer to our question, and ours to the server, reached nobody else.
    assert not [body for body in sent if "result" in body]


async def test_a_yes_that_the_server_does_not_take_is_said_to_be_that() -> None:
    async with connected(limits=QUICK, capabilities=URLS) as (ends, graph, guard):
        graph.breaking = True
        await ends.client(held_write(1))
        (question,) = await ends.client_has(1)
        await accept(ends, question)
        (candidate_id,) = guard.held
        guard.release(candidate_id, "create_entities")
        answer = (await ends.client_has(2))[1]
    assert guard.settled == [(candidate_id, ForwardStatus.FAILED)]
    assert answer["result"]["isError"] is True
    assert "it is not stored" in text_of(answer)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_will_not_look_leaves_it_in_review(action: str) -> None:
    async with connected(limits=QUICK, capabilities=URLS) as (ends, graph, guard):
        await ends.client(held_write(1))
        (question,) = await ends.client_has(1)
        await accept(ends, question, action)
        answer = (await ends.client_has(2))[1]
    assert answer["result"]["isError"] is True
    assert "waits for a person" in text_of(answer)
    assert graph.calls == []
    assert len(guard.held) == 1


async def test_a_persons_no_is_the_answer() -> None:
    async with connected(limits=QUICK, capabilities=URLS) as (ends, graph, guard):
        await ends.client(held_write(1))
        await ends.client_has(1)
        guard.deny()
        answer = (await ends.client_has(2))[1]
    assert "denied_by_person" in text_of(answer)
    assert graph.calls == []


async def test_who_takes_too_long_is_told_where_it_waits() -> None:
    brief = RelayLimits(person_seconds=0.03, ask_seconds=0.01)
    async with connected(limits=brief, capabilities=URLS) as (ends, graph, _):
        await ends.client(held_write(1))
        answer = (await ends.client_has(2))[1]
    assert "waits for a person" in text_of(answer)
    assert graph.calls == []


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_a_client_without_addresses_is_never_asked(capabilities: dict[str, Any]) -> None:
    async with connected(limits=QUICK, capabilities=capabilities) as (ends, graph, _):
        await ends.client(held_write(1))
        (answer,) = await ends.client_has(1)
    assert answer["id"] == 1
    assert "waits for a person" in text_of(answer)
    assert graph.calls == []


async def test_in_the_stateless_era_the_call_comes_back_with_the_answer() -> None:
    guard = MemoryGuard()
    async with relayed(guard, None, QUICK) as ends:
        graph = GraphServer(ends)
        first = held_write(1)
        first["params"]["_meta"] = STATELESS
        await ends.client(first)
        (asked,) = await ends.client_has(1)
        guard.release(next(iter(guard.held)), "create_entities")
        again = held_write(2)
        again["params"] |= {
            "_meta": STATELESS,
            "requestState": asked["result"]["requestState"],
            "inputResponses": {"mnemogate": {"action": "accept"}},
        }
        await ends.client(again)
        answer = (await ends.client_has(2))[1]
        # A state is good once, and a made-up one never.
        again["id"] = 3
        await ends.client(again)
        refusal = (await ends.client_has(3))[2]
    assert asked["result"]["resultType"] == "input_required"
    assert answer["id"] == 2
    assert answer["result"]["resultType"] == "complete"
    assert "isError" not in answer["result"]
    assert graph.got().count("create_entities") == 1
    assert refusal["result"]["isError"] is True
    assert len(guard.judged) == 1


Object = dict[str, "JsonValue"]

ANN: Object = {"name": "Ann", "entityType": "person", "observations": ["drinks tea"]}
LEFT: Object = {"from": "Ann", "to": "Oslo", "relationType": "left"}
STAYS: Object = {"from": "Ann", "to": "Rome", "relationType": "stays in"}


def server_memory() -> ToolMap:
    found = shipped_map("server-memory")
    assert found is not None
    return found


def graph(entities: list[JsonValue], relations: list[JsonValue]) -> Object:
    shown: Object = {"entities": entities, "relations": relations}
    return {"content": [{"type": "text", "text": json.dumps(shown)}], "structuredContent": shown}


def outcome(tool: str, arguments: Object, answer: Object) -> ForwardStatus | None:
    tool_map = server_memory()
    [item] = read_call(tool_map, {"name": tool, "arguments": arguments}).items
    one = UnsettledItem(
        candidate_id=CandidateId("0" * 32),
        tool=tool,
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=True,
    )
    question = question_of(tool_map, one)
    assert question is not None
    assert question.tool == "open_nodes"
    return told(question, answer)


@pytest.mark.parametrize(
    ("relations", "made", "deleted"),
    [
        ([LEFT, STAYS], ForwardStatus.DONE, ForwardStatus.FAILED),
        # Both names are there, and what they had in common is not.
        ([STAYS], ForwardStatus.FAILED, ForwardStatus.DONE),
        ([], ForwardStatus.FAILED, ForwardStatus.DONE),
    ],
)
def test_a_relation_is_there_or_not(
    relations: list[JsonValue], made: ForwardStatus, deleted: ForwardStatus
) -> None:
    answer = graph([ANN], relations)
    assert outcome("create_relations", {"relations": [LEFT]}, answer) is made
    assert outcome("delete_relations", {"relations": [LEFT]}, answer) is deleted


def test_an_entity_is_there_with_what_was_said_of_it() -> None:
    arguments: Object = {"entities": [ANN]}
    assert outcome("create_entities", arguments, graph([ANN], [])) is ForwardStatus.DONE
    assert outcome("create_entities", arguments, graph([], [])) is ForwardStatus.FAILED
