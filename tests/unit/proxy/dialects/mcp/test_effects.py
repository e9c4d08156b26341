"""What a call makes of the text under its key, and what a server has already, as items."""

from __future__ import annotations

import json

import pytest

from policy.labels.effect import NOTHING, Effect, EffectKind, text_after
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.kept_before import digest_of_all, items_listed
from proxy.dialects.mcp.maps import MapError, ToolMap, parse_map
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import load_map, shipped_map

BEFORE = "one\ntwo"
MAP = """
format = 1
name = "notes"
read_from = "a server of this test"
[tools.t]
kind = "write"
key = ["title"]
"""


def effect(name: str, tool: str, **arguments: JsonValue) -> tuple[Effect | None, tuple[str, ...]]:
    call = read_call(load_map(name), {"name": tool, "arguments": arguments})
    (item,) = call.items
    return item.effect, item.pieces


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "after"),
    [
        ("anthropic-memory", "memory", {"command": "create", "file_text": "x"}, "x"),
        (
            "anthropic-memory",
            "memory",
            {"command": "str_replace", "old_str": "two", "new_str": "x"},
            "one\nx",
        ),
        ("anthropic-memory", "memory", {"command": "str_replace", "old_str": "two"}, "one\n"),
        (
            "anthropic-memory",
            "memory",
            {"command": "insert", "insert_line": 1, "insert_text": "x\n"},
            "one\nx\ntwo",
        ),
        ("letta-agent", "core_memory_append", {"label": "a", "content": "x"}, "one\ntwo\nx"),
        ("letta-agent", "memory_insert", {"label": "a", "new_string": "x"}, "one\ntwo\nx"),
        (
            "letta-agent",
            "memory_insert",
            {"label": "a", "new_string": "x", "insert_line": -1},
            "one\ntwo\nx",
        ),
        (
            "letta-agent",
            "memory_insert",
            {"label": "a", "new_string": "x", "insert_line": 0},
            "x\none\ntwo",
        ),
        ("letta-agent", "memory_rethink", {"label": "a", "new_memory": "x"}, "x"),
        (
            "letta-agent",
            "core_memory_replace",
            {"label": "a", "old_content": "one", "new_content": "x"},
            "x\ntwo",
        ),
        (
            "hermes",
            "memory",
            {"action": "replace", "target": "memory", "old_text": BEFORE, "content": "x"},
            "x",
        ),
        (
            "hermes",
            "memory",
            {"target": "memory", "operations": [{"action": "add", "content": "x"}]},
            "x",
        ),
        ("mem0", "update_memory", {"memory_id": "0a1b", "text": "x"}, "x"),
        (
            "chroma",
            "chroma_update_documents",
            {"collection_name": "c", "ids": ["i"], "documents": ["x"]},
            "x",
        ),
    ],
)
def test_a_call_is_what_its_server_makes_of_it(
    name: str, tool: str, arguments: dict[str, JsonValue], after: str
) -> None:
    given = arguments if name != "anthropic-memory" else {"path": "/memories/a.md", **arguments}
    found, pieces = effect(name, tool, **given)
    assert text_after(BEFORE, pieces, found) == after


REPLACE: dict[str, JsonValue] = {
    "command": "str_replace",
    "path": "/memories/a.md",
    "old_str": "two",
    "new_str": "x",
}
INSERT: dict[str, JsonValue] = {
    "command": "insert",
    "path": "/memories/a.md",
    "insert_line": 1,
    "insert_text": "x",
}


@pytest.mark.parametrize(
    "arguments",
    [
        {**REPLACE, "all": True},
        {**REPLACE, "new_string": "y"},
        {**REPLACE, "old_str": ""},
        {**INSERT, "insert_line": "1"},
        {**INSERT, "insert_line": 1.5},
        {**INSERT, "insert_line": True},
        {**INSERT, "insert_line": -2},
        {**INSERT, "insert_line": 10**9},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
        {"command": "delete", "path": "/memories/a.md"},
    ],
)
def test_what_a_map_does_not_say_nobody_knows(arguments: dict[str, JsonValue]) -> None:
    assert effect("anthropic-memory", "memory", **REPLACE)[0] == Effect(EffectKind.REPLACE, 2, 1)
    assert effect("anthropic-memory", "memory", **arguments)[0] is None


def test_a_change_without_its_text_sets_nothing() -> None:
    found, _ = effect("chroma", "chroma_update_documents", collection_name="c", ids=["i"])
    assert found is None
    empty = effect("letta-agent", "memory_rethink", label="a", new_memory="")
    assert empty[0] == Effect(EffectKind.SET, NOTHING)


@pytest.mark.parametrize(
    "line",
    [
        'effect = { how = "replace", text = "text" }',
        'effect = { how = "set", text = "text", old = "old" }',
        'effect = { how = "append", text = "text", line = "line" }',
        'effect = { how = "burn", text = "text" }',
        'effect = { how = "set" }',
        'effect = { how = "set", text = "a..b" }',
        'effect = { how = "set", text = "text", more = "x" }',
    ],
)
def test_an_effect_that_says_too_little_or_too_much_is_an_error(line: str) -> None:
    assert parse_map(f'{MAP}effect = {{ how = "set", text = "text" }}\n').tools["t"].effect
    with pytest.raises(MapError):
        parse_map(f"{MAP}{line}\n")


def test_an_effect_without_a_key_or_of_a_read_is_an_error() -> None:
    line = 'effect = { how = "set", text = "text" }\n'
    for text in (MAP.replace('key = ["title"]\n', ""), MAP.replace('"write"', '"read"')):
        with pytest.raises(MapError):
            parse_map(text + line)


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
        {"name": "Ada", "entityType": "person", "observations": ['{"is":"\\ud800"}']},
    ],
    ids=["parts", "type", "long_name", "long_text", "half"],
)
def test_one_item_that_cannot_be_kept_does_not_hide_the_others(odd: JsonValue) -> None:
    answer: JsonValue = {"structuredContent": {"entities": [odd, _entity("Bob", "is here")]}}
    listed = items_listed(_map(), answer)
    assert ([one.key for one in listed.items], listed.unreadable) == (["Bob"], 1)


def test_a_map_that_does_not_say_how_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="does not say"):
        items_listed(_map("mem0"), {})
