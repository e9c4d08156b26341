"""A call of a file tool on a file of memory, as an item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.model import ChangeKind, MemoryClass
from proxy.dialects.files.edits import call_in, item_of, read_file_call
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.pieces import arguments_of
from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    from proxy.dialects.strict_json.strict import JsonValue

WRITE = FileRule(path="path", text="content")
FILE = "/a/CLAUDE.md"


def test_a_released_item_gives_back_the_very_call() -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": "# Tea\n#1 green\n=two\n"}
    for before in (None, "", "# Tea\n"):
        item = item_of(read_file_call(WRITE, given), given, before)
        assert item is not None
        assert call_in(arguments_of(item.arguments, item.pieces)) == given
        assert item.memory_class is MemoryClass.L2


@pytest.mark.parametrize(
    ("after", "change", "pieces"),
    [
        ("tea\nmilk\nsugar", ChangeKind.CREATE, ("sugar",)),
        ("tea\ncream", ChangeKind.CREATE, ("cream", "milk")),
        ("tea", ChangeKind.DELETE, ("milk",)),
        ("@more.md\ntea\nmilk", ChangeKind.UPDATE, ("@more.md",)),
    ],
)
def test_lines_that_come_go_and_import(
    after: str, change: ChangeKind, pieces: tuple[str, ...]
) -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": after}
    item = item_of(read_file_call(WRITE, given), given, "tea\nmilk")
    assert item is not None
    assert (item.change, item.pieces) == (change, pieces)


@pytest.mark.parametrize("new", ["cream $& sugar", "cream $$", "$`cream", "cream $'"])
def test_an_edit_that_a_server_may_expand_makes_an_unknown_text(new: str) -> None:
    rule = FileRule(path="path", old="old", new="new")

    def change(text: str) -> ChangeKind | None:
        given: dict[str, JsonValue] = {"path": FILE, "old": "milk", "new": text}
        item = item_of(read_file_call(rule, given), given, "tea\nmilk")
        return None if item is None else item.change

    assert change(new) is ChangeKind.UPDATE, "a person decides"
    assert change("cream for $5, and $HOME") is ChangeKind.CREATE, "control"


def test_the_same_text_is_no_change() -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": "tea\n\nmilk  \n"}
    assert item_of(read_file_call(WRITE, given), given, "tea\nmilk") is None


@pytest.mark.parametrize("packed", [None, "no base64", "aGVsbG8="])
def test_what_nobody_here_packed_is_not_sent(packed: str | None) -> None:
    with pytest.raises(MalformedRequest):
        call_in({"file": FILE, "call": packed})
