"""The calls that models make of their agents' own memory: what each would change, and where."""

from __future__ import annotations

import pytest

from policy.model import ChangeKind
from proxy.dialects.mcp.calls import Call, kept_of, read_call
from proxy.dialects.mcp.maps import MapError, ToolKind, parse_map
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.settings.tool_maps import shipped_map

LONG = "tea " * 400


def call(server: str, tool: str, **arguments: JsonValue) -> Call:
    tool_map = shipped_map(server)
    assert tool_map is not None
    return read_call(tool_map, {"name": tool, "arguments": arguments})


def changes(found: Call) -> list[tuple[ChangeKind, str, bool]]:
    return [(item.change, item.key, item.instructions) for item in found.items]


def test_a_batch_of_hermes_is_one_item_per_operation() -> None:
    found = call(
        "hermes",
        "memory",
        target="user",
        operations=[
            {"action": "add", "content": "tea"},
            {"action": "replace", "content": "milk", "old_text": "tea"},
            {"action": "remove", "old_text": "milk"},
        ],
    )
    assert changes(found) == [
        (ChangeKind.CREATE, "tea", False),
        (ChangeKind.UPDATE, "tea", False),
        (ChangeKind.DELETE, "milk", False),
    ]


@pytest.mark.parametrize("action", ["add", "replace", "remove"])
def test_one_operation_of_hermes_cannot_hide_others(action: str) -> None:
    alone: dict[str, JsonValue] = {"action": action, "target": "memory", "old_text": "tea"}
    if action != "remove":
        alone["content"] = "milk"
    without: list[dict[str, JsonValue]] = [{}, {"operations": None}, {"operations": []}]
    for nothing in without:
        assert len(call("hermes", "memory", **alone, **nothing).items) == 1
    with pytest.raises(MalformedRequest, match="operations"):
        call("hermes", "memory", **alone, operations=[{"action": "add", "content": "x"}])


def test_a_long_entry_is_found_again_by_its_whole_text() -> None:
    (added,) = call("hermes", "memory", action="add", content=LONG).items
    (removed,) = call("hermes", "memory", action="remove", old_text=LONG).items
    (other,) = call("hermes", "memory", action="remove", old_text=LONG + "x").items
    assert added.key == removed.key
    assert added.key != other.key
    assert len(added.key) == 64


def test_a_block_of_letta_has_one_key_whichever_tool_changes_it() -> None:
    appended = call("letta-agent", "core_memory_append", label="human", content="tea")
    assert changes(appended) == [(ChangeKind.CREATE, "human", False)]
    for tool, more in (
        ("core_memory_replace", {"old_content": "tea", "new_content": "milk"}),
        ("memory_replace", {"old_string": "tea", "new_string": ""}),
        ("memory_rethink", {"new_memory": "milk"}),
        ("memory_apply_patch", {"patch": "-tea\n+milk"}),
    ):
        for label, rules in (("human", False), ("persona", True)):
            arguments: dict[str, JsonValue] = {"label": label, **more}
            found = call("letta-agent", tool, **arguments)
            # Which blocks a patch changes, only its text tells.
            expected = rules or tool == "memory_apply_patch"
            assert changes(found) == [(ChangeKind.UPDATE, label, expected)]


def test_a_rename_is_of_the_old_name() -> None:
    both = call("letta-agent", "memory", command="rename", old_path="/a", new_path="/system")
    assert changes(both) == [(ChangeKind.UPDATE, "/a", True)]
    described = call("letta-agent", "memory", command="rename", path="/a", description="x")
    assert changes(described) == [(ChangeKind.UPDATE, "/a", False)]


def test_langmem_writes_without_an_action_are_new_memories() -> None:
    (item,) = call("langmem", "manage_memory", content={"name": "Ada", "likes": ["tea"]}).items
    assert item.change is ChangeKind.CREATE
    assert item.pieces == ("Ada", "tea")
    (gone,) = call("langmem", "manage_memory", action="delete", id="0c0ffee0").items
    assert (gone.change, gone.key) == (ChangeKind.DELETE, "0c0ffee0")


def test_plugins_of_hermes_are_told_apart_by_what_they_are_asked() -> None:
    assert call("hermes", "fact_store", action="search", query="tea").kind is ToolKind.READ
    assert call("hermes", "fact_store", action="add", content="tea").kind is ToolKind.WRITE
    assert call("hermes", "honcho_conclude", list=True).kind is ToolKind.READ
    assert changes(call("hermes", "honcho_conclude", delete_id="7")) == [
        (ChangeKind.UPDATE, "7", False)
    ]


def test_what_changes_nothing_is_known_by_its_place() -> None:
    found = call(
        "mem0-extraction",
        "changes",
        memory=[
            {"id": "0", "text": "tea", "event": "NONE"},
            {"id": "1", "text": "milk", "event": "ADD"},
        ],
    )
    assert found.idle == {0}
    assert kept_of(found, frozenset({1})) == {
        "memory": [{"id": "0", "text": "tea", "event": "NONE"}]
    }
    assert call("mem0-extraction", "changes", memory=[]).idle == frozenset()


HEAD = 'format = 1\nname = "x"\nread_from = "us"\n[tools.a]\nkind = "write"\nrequired = ["t"]\n'


@pytest.mark.parametrize(
    "more",
    [
        '[model]\ntypes = { memory_1 = "b" }\n',
        '[model]\noutputs = ["b"]\n',
        '[model]\ntext = "b"\n',
        '[model]\nempty = "[]"\n',
        '[model]\nempty = "{"\n',
        '[tools.b]\nkind = "admin"\n[model]\noutputs = ["b"]\n',  # anything would be of its form
        '[tools.b]\nkind = "read"\ndelete_if = { t = ["x"] }\n',
        '[tools.b]\nkind = "read"\nrequired = ["t"]\n',
    ],
)
def test_a_map_that_says_nonsense_of_models_is_refused(more: str) -> None:
    parse_map(HEAD)
    with pytest.raises(MapError):
        parse_map(HEAD + more)
