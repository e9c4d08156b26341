"""The places that calls change, by what is on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.dialects.files.edits import FileCall
from proxy.dialects.files.shipped_places import places_with
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.strict_json.strict import JsonValue
from proxy.files.here import place_of, placed_calls
from proxy.seams.faults import MalformedRequest

PATHS = places_with()


def _call(path: str, to: str | None = None) -> FileCall:
    return FileCall(rule=FileRule(path="path"), path=path, to=to, text="tea")


async def test_a_link_is_refused_and_a_folder_above_may_be_one(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "CLAUDE.md").write_text("# Rules")
    (shop / "notes.md").symlink_to("CLAUDE.md")
    (shop / "AGENTS.md").symlink_to("elsewhere.md")
    (tmp_path / "rules").symlink_to(tmp_path / ".claude" / "rules")
    (tmp_path / "home").symlink_to(shop)
    for path in ("shop/notes.md", "shop/AGENTS.md", "rules/tea.md"):
        with pytest.raises(MalformedRequest, match="a link"):
            await place_of(_call(str(tmp_path / path)), PATHS)
    (tmp_path / "memories").symlink_to(tmp_path / ".claude" / "rules")
    with pytest.raises(MalformedRequest, match="a link"):
        await place_of(_call(str(tmp_path / "memories" / "tea.md")), PATHS)
    assert await place_of(_call(str(tmp_path / "home" / "CLAUDE.md")), PATHS)
    assert not await place_of(_call(str(tmp_path / "home" / "tea.md")), PATHS)


async def test_a_move_onto_or_off_a_place_is_a_change_of_it(tmp_path: Path) -> None:
    plain, rules = str(tmp_path / "a.md"), str(tmp_path / "CLAUDE.md")
    assert await place_of(_call(plain, rules), PATHS)
    assert await place_of(_call(rules, plain), PATHS)
    assert not await place_of(_call(plain, plain), PATHS)
    assert await place_of(_call(plain, str(tmp_path / ".claude")), PATHS)
    assert await place_of(_call(str(tmp_path / "memories"), plain), PATHS)
    assert await place_of(_call("CLAUDE.md\0"), PATHS), "no file here can have that name"


async def test_a_server_gets_one_place_with_each_call() -> None:
    rule = FileRule(patch="input")
    added = "*** Add File: MEMORY.md\n+x\n"
    for more, count in (("", 1), ("*** Add File: USER.md\n+y\n", 2)):
        given: dict[str, JsonValue] = {"input": f"*** Begin Patch\n{added}{more}*** End Patch"}
        assert len(await placed_calls(rule, given, PATHS, alone=False)) == count, "control"
        if count > 1:
            with pytest.raises(MalformedRequest, match="one place"):
                await placed_calls(rule, given, PATHS, alone=True)
        else:
            assert len(await placed_calls(rule, given, PATHS, alone=True)) == 1
