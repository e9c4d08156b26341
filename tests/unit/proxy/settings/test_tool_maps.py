"""The shipped maps are whole, and an operator's map is found or refused in words."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import (
    MAP_BYTES_MAX,
    MapError,
    Posture,
    Tool,
    ToolKind,
    ToolMap,
    parse_map,
)
from proxy.dialects.mcp.paths import parse_path
from proxy.dialects.strict_json.strict import JsonValue
from proxy.settings.tool_maps import load_map, map_for_server, shipped, shipped_map


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_map_is_whole(name: str) -> None:
    found = shipped_map(name)
    assert found is not None
    assert found.name == name
    assert found.tools or found.posture is Posture.CONTEXT
    for server_name in found.server_names:
        assert map_for_server(server_name) is found


def test_no_server_name_belongs_to_two_maps() -> None:
    names = [
        server_name
        for name in shipped()
        if (found := shipped_map(name)) is not None
        for server_name in found.server_names
    ]
    assert len(set(names)) == len(names)
    assert map_for_server("somebody-else") is None


# Names of tools and of their arguments, as the servers list them.
LISTED: dict[str, dict[str, list[str]]] = msgspec.json.decode(
    Path(__file__).with_name("tool_lists.json").read_bytes()
)
UNLISTED = {
    "mem0": {"list_events", "get_event_status"},  # the hosted server's
    "graphiti": {"search_facts", "search_memory_nodes"},  # older names
}


def named(name: str) -> ToolMap:
    found = shipped_map(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(set(shipped()) - {"context"}))
def test_every_tool_that_a_server_lists_is_classified_and_no_other(name: str) -> None:
    assert set(named(name).tools) == set(LISTED[name]) | UNLISTED.get(name, set())


@pytest.mark.parametrize("name", sorted(LISTED))
def test_a_map_names_only_arguments_that_its_server_takes(name: str) -> None:
    for tool_name, arguments in LISTED[name].items():
        tool = named(name).tools[tool_name]
        cases = [tool] if tool.switch is None else [*tool.switch.cases.values()]
        said = {told[0] for case in cases for told in case.described}
        said |= {alias for case in cases for alias in case.aliases}
        said |= {parse_path(tool.switch.path)[0]} if tool.switch is not None else set()
        # basic-memory takes the workspace in some of its tools only; a key may ask for it in all.
        unknown = said - {*arguments, "workspace"}
        assert unknown == set(), tool_name


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_read_that_reconciles_is_called_as_its_server_takes_it(name: str) -> None:
    for tool in named(name).tools.values():
        for case in [tool] if tool.switch is None else tool.switch.cases.values():
            if case.reconcile is not None:
                assert set(case.reconcile.arguments) <= set(LISTED[name][case.reconcile.tool])


READ_ONLY = {
    "server-memory": {"read_graph", "search_nodes", "open_nodes"},
    "mem0": {"search_memories", "get_memories", "get_memory", "list_entities"},
    "chroma": {"chroma_query_documents", "chroma_get_documents", "chroma_peek_collection"},
}


@pytest.mark.parametrize("name", sorted(READ_ONLY))
def test_reads_are_reads(name: str) -> None:
    kinds = {tool: named(name).tools[tool].kind for tool in READ_ONLY[name]}
    assert set(kinds.values()) == {ToolKind.READ}


DOCUMENT = (Path(__file__).resolve().parents[4] / "docs" / "mcp-maps.md").read_text("utf-8")


def test_the_document_lists_every_map_with_the_names_that_choose_it() -> None:
    rows = [row.split("|")[1:4] for row in DOCUMENT.splitlines() if row.startswith("| `")]
    listed = {row[0].strip(" `"): row[2].strip() for row in rows if row[0].strip(" `") in shipped()}
    assert set(listed) == set(shipped())
    for name, chosen in listed.items():
        names = [f"`{server_name}`" for server_name in named(name).server_names]
        assert chosen == (", ".join(names) if names else "never; name it")


def test_the_documents_own_map_is_one() -> None:
    example = DOCUMENT.split("```toml\n")[1].split("```")[0]
    found = parse_map(example)
    arguments: JsonValue = {"notes": [{"title": "Tea", "text": "green", "file": "a/CLAUDE.md"}]}
    call = read_call(found, {"name": "add_notes", "arguments": arguments})
    assert [(item.key, item.instructions) for item in call.items] == [("Tea", True)]


def test_the_document_says_what_every_key_of_a_tool_means() -> None:
    table = DOCUMENT.split("| key of a tool | meaning |")[1].split("\n\n")[0]
    said = set(
        re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))
    )
    assert said == {field.name for field in msgspec.structs.fields(Tool)}


def test_a_map_is_a_shipped_name_or_a_file(tmp_path: Path) -> None:
    assert load_map("context") is shipped_map("context")
    mine = tmp_path / "mine.toml"
    mine.write_text('format = 1\nname = "mine"\nread_from = "here"\n[tools.t]\nkind = "read"\n')
    assert load_map(str(mine)).name == "mine"


def test_what_cannot_be_a_map_is_refused_in_words(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.toml", tmp_path / "binary.toml"
    large.write_bytes(b"#" * (MAP_BYTES_MAX + 1))
    binary.write_bytes(b"\xff")
    for given, said in (
        ("no-such", "no such map; there are .*context.*, or name a file"),
        (str(tmp_path), "must be a regular file"),
        (str(tmp_path / "absent.toml"), "cannot be read"),
        (str(large), "at most"),
        (str(binary), "not UTF-8"),
    ):
        with pytest.raises(MapError, match=said):
            load_map(given)
