"""What a server already keeps, as the items that would have written it."""

from __future__ import annotations

import json

import pytest

from proxy.dialects.mcp.kept_before import digest_of_all, items_listed
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped_map


def _map(name: str = "server-memory") -> ToolMap:
    found = shipped_map(name)
    assert found is not None
    return found


def _entity(name: str, *said: str, kind: str = "place") -> JsonValue:
    return {"name": name, "entityType": kind, "observations": list(said)}


def _answer(*entities: JsonValue) -> JsonValue:
    return {"structuredContent": {"entities": list(entities), "relations": []}}


def test_each_observation_is_an_item_under_its_name_and_none_is_there_twice() -> None:
    first = _entity("Ada", "flies from Lisbon", "was in Porto", "flies from Lisbon")
    items = items_listed(_map(), _answer(first, _entity("tea", kind="preference"))).items
    assert [(one.key, one.pieces[-1]) for one in items] == [
        ("Ada", "flies from Lisbon"),
        ("Ada", "was in Porto"),
        ("tea", "preference"),
    ]


def test_the_text_of_an_answer_is_read_where_it_has_no_structure() -> None:
    text = json.dumps({"entities": [_entity("Ada", "is here")], "relations": []})
    answer: JsonValue = {"content": [{"type": "text", "text": text}]}
    assert items_listed(_map(), answer) == items_listed(_map(), _answer(_entity("Ada", "is here")))


def test_a_digest_is_of_what_is_said_and_not_of_its_order() -> None:
    ada, bob = _entity("Ada", "is here"), _entity("Bob", "is there")
    listed = digest_of_all(items_listed(_map(), _answer(ada, bob)).items)
    assert digest_of_all(items_listed(_map(), _answer(bob, ada)).items) == listed
    for other in (_entity("Bob", "is gone"), _entity("Eve", "is there")):
        assert digest_of_all(items_listed(_map(), _answer(ada, other)).items) != listed


@pytest.mark.parametrize(
    "answer",
    [
        {"isError": True, "content": []},
        {"content": [{"type": "text", "text": "no JSON"}]},
        {"structuredContent": {"entities": "all"}},
        {"structuredContent": {"entities": [{"name": "Ada"}]}},
    ],
)
def test_an_answer_of_another_form_is_refused(answer: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        items_listed(_map(), answer)


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "Ada"},
        {"name": 5, "entityType": "person", "observations": ["is here"]},
        {"name": "A" * 2_000, "entityType": "person", "observations": ["is here"]},
        {"name": "Ada", "entityType": "person", "observations": ["here " * 20_000]},
        {"name": "Ada", "entityType": "person", "observations": ["is \x1b[2J here"]},
    ],
    ids=["parts", "type", "long_name", "long_text", "escape"],
)
def test_one_item_that_cannot_be_kept_does_not_hide_the_others(odd: JsonValue) -> None:
    answer: JsonValue = {"structuredContent": {"entities": [odd, _entity("Bob", "is here")]}}
    listed = items_listed(_map(), answer)
    assert ([one.key for one in listed.items], listed.unreadable) == (["Bob"], 1)


def test_a_map_that_does_not_say_how_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="does not say"):
        items_listed(_map("mem0"), {})
