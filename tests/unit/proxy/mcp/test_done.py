"""What a server's answer names as done, in the answers that server-memory really gives."""

from __future__ import annotations

import json

import pytest

from policy.model import ForwardStatus
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.backend import effects_of
from proxy.settings.tool_maps import shipped_map

DONE, NO_EFFECT, UNKNOWN = ForwardStatus.DONE, ForwardStatus.NO_EFFECT, ForwardStatus.UNKNOWN
ANN: JsonValue = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
BOB: JsonValue = {"name": "Bob", "entityType": "person", "observations": ["likes tea"]}
EMPTY: JsonValue = {"name": "Ann", "entityType": "person", "observations": []}
KNOWS: JsonValue = {"from": "Ann", "relationType": "knows", "to": "Bob"}
TWO: JsonValue = {"entityName": "Ann", "contents": ["likes tea", "likes milk"]}


def added(*texts: JsonValue) -> JsonValue:
    return {"results": [{"entityName": "Ann", "addedObservations": list(texts)}]}


@pytest.mark.parametrize(
    ("tool", "into", "items", "answer", "expected"),
    [
        ("create_entities", "entities", [ANN], {"entities": [ANN]}, [DONE]),
        ("create_entities", "entities", [ANN], {"entities": []}, [NO_EFFECT]),
        ("create_entities", "entities", [EMPTY], {"entities": [EMPTY]}, [DONE]),
        ("create_entities", "entities", [EMPTY], {"entities": []}, [NO_EFFECT]),
        # The same observation of another entity is no part of this one.
        ("create_entities", "entities", [ANN, BOB], {"entities": [BOB]}, [NO_EFFECT, DONE]),
        # One element answers for one item.
        ("create_entities", "entities", [ANN, ANN], {"entities": [ANN]}, [DONE, NO_EFFECT]),
        ("create_relations", "relations", [KNOWS], {"relations": [KNOWS]}, [DONE]),
        ("create_relations", "relations", [KNOWS], {"relations": []}, [NO_EFFECT]),
        ("add_observations", "observations", [TWO], added("likes tea", "likes milk"), [DONE]),
        ("add_observations", "observations", [TWO], added(), [NO_EFFECT]),
        # Half of it: whether the server has the other half is looked up.
        ("add_observations", "observations", [TWO], added("likes milk"), [UNKNOWN]),
        # The place is not there, or is of another form: another version of the server.
        ("create_entities", "entities", [ANN], {"created": [ANN]}, [UNKNOWN]),
        ("create_entities", "entities", [ANN], {"entities": None}, [UNKNOWN]),
        ("create_entities", "entities", [ANN], {"entities": {"Ann": 1}}, [UNKNOWN]),
        ("create_entities", "entities", [ANN], "done", [UNKNOWN]),
    ],
)
def test_an_item_is_done_where_the_answer_names_it(
    tool: str,
    into: str,
    items: list[JsonValue],
    answer: JsonValue,
    expected: list[ForwardStatus],
) -> None:
    tool_map = shipped_map("server-memory")
    assert tool_map is not None
    call = read_call(tool_map, {"name": tool, "arguments": {into: items}})
    assert call.rule is not None
    assert call.rule.done is not None
    text: JsonValue = [{"type": "text", "text": json.dumps(answer)}]
    results: list[JsonValue] = [{"content": text}]
    if isinstance(answer, dict):
        results.append({"content": [], "structuredContent": answer})
    for result in results:
        assert list(effects_of(call.rule.done, call.items, result)) == expected
