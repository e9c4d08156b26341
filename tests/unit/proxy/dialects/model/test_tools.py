"""What a request offers its model, and what it tells of earlier calls, in all three APIs."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from proxy.dialects.model.tools import DeclaredTool, outcomes_of, tools_of
from proxy.dialects.strict_json.tolerant import Json

SCHEMA: dict[str, Json] = {"type": "object", "properties": {"command": {}, "path": {}}}
NAMES = frozenset({"command", "path"})


Expected: TypeAlias = "tuple[str, str | None, str, frozenset[str] | None]"
OF_EACH: list[tuple[Json, Expected]] = [
    ({"type": "memory_20250818", "name": "notes"}, ("notes", None, "memory_20250818", None)),
    ({"name": "memory", "input_schema": SCHEMA}, ("memory", None, "", NAMES)),
    (
        {"type": "function", "function": {"name": "memory", "parameters": SCHEMA}},
        ("memory", None, "function", NAMES),
    ),
    (
        {"type": "function", "name": "memory", "parameters": SCHEMA},
        ("memory", None, "function", NAMES),
    ),
    ({"type": "custom", "custom": {"name": "patch"}}, ("patch", None, "custom", None)),
    (
        {"type": "namespace", "name": "mcp__kb", "tools": [{"name": "add", "parameters": {}}]},
        ("add", "mcp__kb", "", None),
    ),
    ("not an object", ("", None, "", None)),
]


@pytest.mark.parametrize(("tool", "expected"), OF_EACH)
def test_a_tool_of_each_api_has_its_name_type_and_arguments(tool: Json, expected: Expected) -> None:
    name, server, kind, arguments = expected
    declared = DeclaredTool(name=name, server=server, type=kind, arguments=arguments)
    assert tools_of({"tools": [tool]}) == (declared,)


def test_a_request_without_tools_says_nothing_of_them() -> None:
    assert tools_of({"messages": []}) is None
    assert tools_of({"tools": []}) is None


def test_tools_that_an_input_item_brings_are_offered_too() -> None:
    item: Json = {"type": "tool_search_output", "tools": [{"type": "function", "name": "late"}]}
    found = tools_of({"input": [item, {"type": "message", "tools": [{"name": "not"}]}]})
    assert [tool.name for tool in found or ()] == ["late"]


def test_arguments_are_found_through_alternatives_and_definitions() -> None:
    schema: Json = {
        "anyOf": [{"$ref": "#/$defs/Write"}, {"properties": {"query": {}}}],
        "$defs": {"Write": {"allOf": [{"properties": {"text": {}}}, {"$ref": "#/$defs/Write"}]}},
    }
    found = tools_of({"tools": [{"name": "both", "input_schema": schema}]})
    assert [tool.arguments for tool in found or ()] == [frozenset({"query", "text"})]


def test_a_schema_with_no_arguments_is_not_one_that_says_none() -> None:
    found = tools_of(
        {
            "tools": [
                {"name": "one", "input_schema": {"type": "object", "properties": {}}},
                {"name": "two", "input_schema": {"type": "object"}},
            ]
        }
    )
    assert [tool.arguments for tool in found or ()] == [frozenset(), None]


def anthropic(content: Json, **fields: Json) -> dict[str, Json]:
    block: Json = {"type": "tool_result", "tool_use_id": "c1", "content": content, **fields}
    return {"messages": [{"role": "user", "content": [block]}]}


def chat(content: Json) -> dict[str, Json]:
    return {"messages": [{"role": "tool", "tool_call_id": "c1", "content": content}]}


def responses(output: Json) -> dict[str, Json]:
    return {"input": [{"type": "function_call_output", "call_id": "c1", "output": output}]}


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        (anthropic("File created successfully"), False),
        (anthropic("no such file", is_error=True), True),
        (anthropic("Error: no such file"), True),
        # The API itself says that it is none.
        (anthropic("Error codes of the pump: 4, 7", is_error=False), False),
        (anthropic([{"type": "text", "text": "Error: gone"}]), True),
        (chat('{"success": false, "error": "full"}'), True),
        (chat('{"success": true, "entries": []}'), False),
        (chat('{"status": "Failed", "message": "no block"}'), True),
        (chat('{"results": [], "error": null}'), False),
        (chat("Failed to store: 403"), True),
        (chat([{"type": "text", "text": "stored"}]), False),
        (chat("{not json"), False),
        (responses("ok"), False),
        (responses([{"type": "output_text", "text": "error: refused"}]), True),
    ],
)
def test_a_result_says_whether_something_was_done(body: dict[str, Json], failed: bool) -> None:  # noqa: FBT001 - a parameter of the table
    assert outcomes_of(body, {"c1"}) == {"c1": failed}


def test_only_wanted_results_are_looked_at_and_the_later_counts() -> None:
    body: dict[str, Json] = {
        "messages": [
            {"role": "tool", "tool_call_id": "c1", "content": "Error: first"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error"},
            {"role": "tool", "tool_call_id": "c1", "content": "stored"},
        ]
    }
    assert outcomes_of(body, {"c1"}) == {"c1": False}
    assert outcomes_of(body, set()) == {}
    assert outcomes_of({"messages": ["", {"content": 3}], "input": "hello"}, {"c1"}) == {}
