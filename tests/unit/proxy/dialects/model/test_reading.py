"""What the readers of all model APIs share."""

from __future__ import annotations

import pytest

from proxy.dialects.model.reading import arguments_of, call_of, tool_in, unplaced_in
from proxy.dialects.model.transcript import Where
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
