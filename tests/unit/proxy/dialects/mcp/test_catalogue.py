from __future__ import annotations

import pytest

from proxy.dialects.mcp.catalogue import next_cursor, pinned_tools
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest


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
