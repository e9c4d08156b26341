"""Maps and catalogues are strict: what is not plainly right is refused with its place."""

from __future__ import annotations

import pytest

from proxy.dialects.mcp.catalogue import next_cursor, pinned_tools
from proxy.dialects.mcp.maps import (
    MapError,
    ToolKind,
    parse_map,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

HEAD = 'format = 1\nname = "m"\nread_from = "here"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format = ", "not TOML"),
        ("format = 2\n" + HEAD[11:], "format"),
        (HEAD + "colour = 1", "colour"),
        (HEAD + "[tools.t]", "kind or switch"),
        (HEAD + '[tools.t]\nkind = "both"', "both"),
        (HEAD + '[tools.t]\nkind = "write"\ntext = ["a"]', "text"),
        (HEAD + '[tools.t]\nkind = "write"\ntexts = ["a..b"]', "tools.t: texts"),
        (HEAD + '[tools.t]\nkind = "write"\nitems = ["a[].b[]"]', "only \\[\\]"),
        (HEAD + '[tools.t]\nkind = "write"\nkey = ["a[].b"]', "many values"),
        (HEAD + '[tools.t]\nkind = "write"\nplain = { a = "anything" }', "plain.a"),
        (HEAD + '[tools.t]\nkind = "write"\nchange = "delete"', "creates or updates"),
        (HEAD + '[tools.t]\nkind = "delete"\nchange = "update"', "deletes"),
        (HEAD + '[tools.t]\nkind = "read"\nkey = ["a"]', "only for a write"),
        (HEAD + '[tools.t]\nkind = "write"\nreconcile = { tool = "u" }', "not a read"),
        (HEAD + '[tools.t]\nkind = "write"\nplaces = ["a"]', "no argument of the tool: a"),
        (HEAD + '[tools.t]\nkind = "read"\nplaces = ["a"]', "only for a write"),
        (HEAD + 'fact_paths = ["../a"]', "fact_paths: '../a'"),
        (HEAD + 'memory_paths = ["a"]', "its successor: instruction_paths, fact_paths"),
        (HEAD + 'says = ["a"]', "its successor: nothing"),
        (
            HEAD + '[tools.t]\nkind = "write"\nlabels = ["a"]\nclass_rules = []',
            "its successor: places",
        ),
        (HEAD + '[tools.t.switch]\npath = "a"\ncases = {}', "switch"),
        (
            HEAD + '[tools.t.switch]\npath = "a"\nabsent = "y"\n'
            '[tools.t.switch.cases.x]\nkind = "read"',
            "is no case",
        ),
        (HEAD + 'posture = "context"\n[tools.t]\nkind = "read"', "context"),
        (HEAD + '[shown]\ncolumns = [["a"]]', "end in"),
    ],
)
def test_a_map_with_a_fault_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MapError, match=said) as refused:
        parse_map(text, "mine.toml")
    assert str(refused.value).startswith("mine.toml: ")


def test_a_tool_that_no_map_names_has_no_kind() -> None:
    found = parse_map(HEAD + '[tools.t]\nkind = "read"')
    tool = found.tool("t")
    assert tool is not None
    assert tool.kind is ToolKind.READ
    assert found.tool("u") is None


def tool(**members: JsonValue) -> dict[str, JsonValue]:
    return {"name": "recall", "description": "finds", "inputSchema": {"type": "object"}, **members}


def digest(given: JsonValue) -> str:
    [pinned] = pinned_tools([{"tools": [given]}])
    return pinned.digest


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Recall"},
        {"description": "finds, and obeys what it finds"},
        {"inputSchema": {"type": "object", "properties": {"q": {}}}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
        {"icons": [{"src": "data:,obey"}]},
        {"execution": {"taskSupport": "required"}},
        {"_meta": {"hint": "obey"}},
    ],
)
def test_whatever_goes_on_to_a_client_is_pinned(change: dict[str, JsonValue]) -> None:
    assert digest(tool(**change)) != digest(tool())


def test_order_and_absence_are_no_change() -> None:
    said = tool(title=None, icons=[], _meta={}, execution={"taskSupport": "forbidden"})
    assert digest(dict(reversed(said.items()))) == digest(tool())


def test_pages_are_one_list_sorted_by_name() -> None:
    pages: list[JsonValue] = [
        {"tools": [tool(name="b")], "nextCursor": "2"},
        {"tools": [tool(name="a")]},
    ]
    assert [pinned.name for pinned in pinned_tools(pages)] == ["a", "b"]
    assert [next_cursor(page) for page in pages] == ["2", None]


@pytest.mark.parametrize(
    "page",
    [
        None,
        {},
        {"tools": {}},
        {"tools": ["x"]},
        {"tools": [{"name": ""}]},
        {"tools": [{"name": 1}]},
        {"tools": [{"name": "x" * 257}]},
        {"tools": [tool(), tool()]},
        {"tools": [tool(name=str(number)) for number in range(1_025)]},
    ],
)
def test_a_list_that_cannot_be_pinned_is_refused(page: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        pinned_tools([page])
