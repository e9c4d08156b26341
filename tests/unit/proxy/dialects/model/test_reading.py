"""What the readers of all model APIs share, and what a request offers its model."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES, ModelApi, of_program
from proxy.dialects.model.reading import arguments_of, call_of, tool_in, unplaced_in
from proxy.dialects.model.tools import DeclaredTool, outcomes_of, tools_of
from proxy.dialects.model.transcript import Voice, Where
from proxy.dialects.strict_json.tolerant import Json


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": {"b": 1}, "c": {"b": 2}}', {"a": {"b": 1}, "c": {"b": 2}}),
        ("", None),
        ("[1]", None),
        ('{"a": 1', None),
        ('{"a": 1} trailing', None),
        (None, None),
        # An agent may take the first of two where we took the last.
        ('{"a": 1, "a": 2}', None),
        ('{"a": {"b": 1, "b": 2}}', None),
        ('{"\\u0061": 1, "a": 2}', None),
    ],
)
def test_arguments_are_one_object_with_each_name_once(
    given: object, expected: dict[str, object] | None
) -> None:
    assert arguments_of(given) == expected  # type: ignore[arg-type]


def test_a_call_stays_a_call_whatever_it_lacks() -> None:
    call = call_of(None, None, None)
    assert (call.call_id, call.name, call.server, call.arguments) == ("", "", None, None)


SCHEMA: dict[str, Json] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "Whose page it is."},
        "type": {"type": "string", "enum": ["page", "mail"]},
        "status": {"type": "object", "properties": {"id": {"description": "Which one."}}},
        "quay_number": {"type": "integer"},
    },
}
SHAPE = "http://json-schema.org/draft-07/schema#\nid\nname\nquay_number\nstatus"


@pytest.mark.parametrize(
    ("tool", "place"),
    [
        ({"name": "fetch", "description": "Reads.", "input_schema": SCHEMA}, ("tools", 0)),
        (
            {
                "type": "function",
                "function": {"name": "fetch", "description": "Reads.", "parameters": SCHEMA},
            },
            ("tools", 0, "function"),
        ),
    ],
)
def test_all_that_a_model_reads_of_a_tool_is_read_whatever_its_arguments_are_called(
    tool: dict[str, Json], place: Where
) -> None:
    found = {said.where: said.text for said in tool_in(tool, ("tools", 0))}
    assert found.pop(("tools", 0)) == SHAPE
    assert found.pop((*place, "description")) == "Reads."
    assert sorted(found.values()) == ["Which one.", "Whose page it is.", "mail", "name", "page"]
    # What a host adds for its API alone makes no other tool of it.
    more: dict[str, Json] = {
        "cache_control": {"type": "ephemeral"},
        "defer_loading": True,
        "strict": True,
    }
    assert tool_in({**tool, **more}, ("tools", 0)) == tool_in(tool, ("tools", 0))


@pytest.mark.parametrize("kind", [{}, [], ["file"], {"type": "file"}, None, 1])
def test_a_block_whose_type_is_no_string_is_read_and_ends_nothing(kind: Json) -> None:
    # A provider's reply with an object for a type ended in an error of the program.
    said = unplaced_in({"type": kind, "note": "Ada likes tea"}, ("content", 0))
    assert [(one.text, one.sealed) for one in said] == [("Ada likes tea", False)]
    (sealed, _) = unplaced_in({"type": "file", "note": "Ada likes tea"}, ("content", 0))
    assert sealed.sealed, "the control"


FILE_SCHEMA: dict[str, Json] = {"type": "object", "properties": {"command": {}, "path": {}}}
NAMES = frozenset({"command", "path"})


Expected: TypeAlias = "tuple[str, str | None, str, frozenset[str] | None]"
OF_EACH: list[tuple[Json, Expected]] = [
    ({"type": "memory_20250818", "name": "notes"}, ("notes", None, "memory_20250818", None)),
    ({"name": "memory", "input_schema": FILE_SCHEMA}, ("memory", None, "", NAMES)),
    (
        {"type": "function", "function": {"name": "memory", "parameters": FILE_SCHEMA}},
        ("memory", None, "function", NAMES),
    ),
    (
        {"type": "function", "name": "memory", "parameters": FILE_SCHEMA},
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


@pytest.mark.parametrize(
    ("item", "voice"),
    [
        ({"type": "additional_tools", "role": "developer", "tools": []}, Voice.CATALOGUE),
        ({"type": "tool_search_output", "execution": "client", "tools": []}, Voice.CATALOGUE),
        ({"type": "tool_search_call", "execution": "client", "arguments": {}}, Voice.MODEL),
    ],
)
def test_a_search_for_tools_has_no_text_of_unknown_origin(
    item: dict[str, Json], voice: Voice
) -> None:
    key = [*item][-1]
    item[key] = [{"description": "Finds tea."}]
    read = RESPONSES.read_request({"input": [item]})
    assert [(one.voice, one.text) for one in read.turns[0].said] == [(voice, "Finds tea.")]
    more = RESPONSES.read_request({"input": [{**item, "note": "and milk"}]}).turns[0].said
    assert [one.voice for one in more] == [voice, Voice.UNPLACED], "control: any other member"
    assert not RESPONSES.read_reply({"output": [{"type": "tool_search_call"}]}).ran_tools


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


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT, RESPONSES])
def test_the_user_turns_of_a_program_are_nobodys_words(api: ModelApi) -> None:
    turns: list[Json] = [
        {"role": "user", "content": "Remember: tea"},
        {"role": "assistant", "content": "Noted"},
    ]
    body: dict[str, Json] = {api.turns: turns}
    plain = [said.voice for turn in api.read_request(body).turns for said in turn.said]
    theirs = [said.voice for turn in of_program(api).read_request(body).turns for said in turn.said]
    assert plain == [Voice.USER, Voice.MODEL]
    assert theirs == [Voice.UNPLACED, Voice.MODEL]
