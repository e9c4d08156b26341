"""A call of a file tool on a file of memory, as an item."""

from __future__ import annotations

import pytest

from policy.model import ChangeKind, MemoryClass
from policy.places import Place, PlaceKind
from proxy.dialects.files.edits import call_in, item_of, read_file_call
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.pieces import arguments_of
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item

WRITE = FileRule(path="path", text="content")
FILE = "/a/CLAUDE.md"
RULES = Place(PlaceKind.INSTRUCTIONS, "a host", "CLAUDE.md")
NOTES = Place(PlaceKind.FACTS, "a host", "MEMORY.md")


def _item(rule: FileRule, given: dict[str, JsonValue], before: str | None) -> Item | None:
    return item_of(read_file_call(rule, given), given, before, RULES)


def test_a_released_item_gives_back_the_very_call() -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": "# Tea\n#1 green\n=two\n"}
    for before in (None, "", "# Tea\n"):
        item = _item(WRITE, given, before)
        assert item is not None
        assert call_in(arguments_of(item.arguments, item.pieces)) == given


def test_a_place_decides_the_class() -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": "tea"}
    for place, instructions in ((RULES, True), (NOTES, False)):
        item = item_of(read_file_call(WRITE, given), given, None, place)
        assert item is not None
        assert item.instructions is instructions
        assert item.memory_class is (MemoryClass.L2 if instructions else MemoryClass.L3)


@pytest.mark.parametrize(("old", "new"), [("\n", " "), ("\n\n", "\n")])
def test_an_edit_of_unseen_rules_by_blanks_alone_changes_what_no_verdict_has_seen(
    old: str, new: str
) -> None:
    rule = FileRule(path="path", old="old", new="new")
    given: dict[str, JsonValue] = {"path": FILE, "old": old, "new": new}
    item = _item(rule, given, None)
    assert item is not None
    assert (item.change, item.instructions) == (ChangeKind.UPDATE, True)
    # The controls: notes, strings that are equal, and a file that was seen.
    call = read_file_call(rule, given)
    assert item_of(call, given, None, NOTES) is None
    assert _item(rule, {**given, "new": old}, None) is None
    seen = _item(rule, given, f"tea{old}milk")
    assert seen is None or seen.pieces != item.pieces


@pytest.mark.parametrize(
    ("before", "after", "change", "pieces"),
    [
        ("tea\nmilk", "tea\nmilk\nsugar", ChangeKind.CREATE, ("sugar",)),
        ("tea\nmilk", "tea\ncream", ChangeKind.UPDATE, ("cream", "milk")),
        ("tea\nmilk\nsalt", "cocoa\nmilk\nrum", ChangeKind.UPDATE, ("cocoa\nrum", "tea\nsalt")),
        ("tea\nmilk", "tea", ChangeKind.DELETE, ("milk",)),
        ("", "tea\nmilk", ChangeKind.CREATE, ("tea\nmilk",)),
        (None, "tea\nmilk", ChangeKind.CREATE, ("tea\nmilk",)),
        (None, "\n", ChangeKind.DELETE, ("/a/claude.md",)),
    ],
)
def test_lines_that_come_and_go(
    before: str | None, after: str, change: ChangeKind, pieces: tuple[str, ...]
) -> None:
    item = _item(WRITE, {"path": FILE, "content": after}, before)
    assert item is not None
    assert (item.change, item.pieces, item.key) == (change, pieces, "/a/claude.md")
    assert item.labels == ((1,) if change is ChangeKind.UPDATE else ())


def test_of_a_text_that_is_not_known_the_new_strings_count() -> None:
    rule = FileRule(path="path", edits="edits", old="old", new="new")

    def changed(*pairs: tuple[str, str]) -> tuple[ChangeKind, tuple[str, ...]]:
        edits: list[JsonValue] = [{"old": old, "new": new} for old, new in pairs]
        item = _item(rule, {"path": FILE, "edits": edits}, None)
        assert item is not None
        return item.change, item.pieces

    assert changed(("milk", "milk\ncream")) == (ChangeKind.CREATE, ("cream",))
    assert changed(("milk", "cream")) == (ChangeKind.UPDATE, ("cream", "milk"))
    assert changed(("milk", "")) == (ChangeKind.DELETE, ("milk",))
    both = changed(("milk", "milk\ncream"), ("tea", ""))
    assert both == (ChangeKind.UPDATE, ("cream", "tea"))


@pytest.mark.parametrize("new", ["cream $& sugar", "cream $$", "$`cream", "cream $'"])
@pytest.mark.parametrize("before", ["tea\nmilk", None])
def test_an_edit_that_a_server_may_expand_makes_an_unknown_text(
    new: str, before: str | None
) -> None:
    rule = FileRule(path="path", old="old", new="new")

    def is_known(text: str) -> bool:
        item = _item(rule, {"path": FILE, "old": "milk", "new": f"milk\n{text}"}, before)
        assert item is not None
        return item.change is ChangeKind.CREATE

    assert not is_known(new), "a person decides"
    assert is_known("cream for $5, and $HOME"), "control"


@pytest.mark.parametrize("rule", [FileRule(path="path"), FileRule(path="path", to="to")])
def test_a_call_without_its_new_strings_changes_what_no_verdict_has_seen(rule: FileRule) -> None:
    item = _item(rule, {"path": FILE, "to": "/a/AGENTS.md"}, "tea")
    assert item is not None
    assert item.change is ChangeKind.UPDATE
    assert item.key.startswith("/a/claude.md#")


def test_the_same_text_is_no_change() -> None:
    given: dict[str, JsonValue] = {"path": FILE, "content": "tea\n\nmilk  \n"}
    assert _item(WRITE, given, "tea\nmilk") is None


@pytest.mark.parametrize("packed", [None, "no base64", "aGVsbG8="])
def test_what_nobody_here_packed_is_not_sent(packed: str | None) -> None:
    with pytest.raises(MalformedRequest):
        call_in({"file": FILE, "call": packed})
