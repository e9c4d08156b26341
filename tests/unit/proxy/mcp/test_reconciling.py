"""What a read proves of a write whose answer was lost."""

from __future__ import annotations

import json

import pytest

from policy.model import CandidateId
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.backend import question_of, told
from proxy.seams.guard import Forwarded, Unsettled
from proxy.settings.tool_maps import shipped_map

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


def outcome(tool: str, arguments: Object, answer: Object) -> Forwarded | None:
    tool_map = server_memory()
    [item] = read_call(tool_map, {"name": tool, "arguments": arguments}).items
    one = Unsettled(
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
        ([LEFT, STAYS], Forwarded.DONE, Forwarded.FAILED),
        # Both names are there, and what they had in common is not.
        ([STAYS], Forwarded.FAILED, Forwarded.DONE),
        ([], Forwarded.FAILED, Forwarded.DONE),
    ],
)
def test_a_relation_is_there_or_not(
    relations: list[JsonValue], made: Forwarded, deleted: Forwarded
) -> None:
    answer = graph([ANN], relations)
    assert outcome("create_relations", {"relations": [LEFT]}, answer) is made
    assert outcome("delete_relations", {"relations": [LEFT]}, answer) is deleted


def test_an_entity_is_there_with_what_was_said_of_it() -> None:
    arguments: Object = {"entities": [ANN]}
    assert outcome("create_entities", arguments, graph([ANN], [])) is Forwarded.DONE
    assert outcome("create_entities", arguments, graph([], [])) is Forwarded.FAILED
