"""Links to files of memory on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.dialects.files.edits import FileCall
from proxy.dialects.files.memory_paths import MEMORY_PATHS, MemoryPaths
from proxy.dialects.mcp.file_rules import FileRule
from proxy.files.here import is_of_memory
from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    from pathlib import Path

PATHS = MemoryPaths(MEMORY_PATHS)


def _call(path: str, to: str | None = None) -> FileCall:
    return FileCall(rule=FileRule(path="path"), path=path, to=to, text="tea")


async def test_a_link_is_refused_and_a_folder_above_may_be_one(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "CLAUDE.md").write_text("# Rules")
    (shop / "notes.md").symlink_to("CLAUDE.md")
    (shop / "AGENTS.md").symlink_to("elsewhere.md")
    (tmp_path / "rules").symlink_to(tmp_path / ".claude")
    (tmp_path / "home").symlink_to(shop)
    for path in ("shop/notes.md", "shop/AGENTS.md", "rules/tea.md"):
        with pytest.raises(MalformedRequest, match="a link"):
            await is_of_memory(_call(str(tmp_path / path)), PATHS)
    assert await is_of_memory(_call(str(tmp_path / "home" / "CLAUDE.md")), PATHS)
    assert not await is_of_memory(_call(str(tmp_path / "home" / "tea.md")), PATHS)


async def test_a_move_onto_or_off_a_file_of_memory_is_one(tmp_path: Path) -> None:
    plain, rules = str(tmp_path / "a.md"), str(tmp_path / "CLAUDE.md")
    assert await is_of_memory(_call(plain, rules), PATHS)
    assert await is_of_memory(_call(rules, plain), PATHS)
    assert not await is_of_memory(_call(plain, plain), PATHS)
    assert await is_of_memory(_call(plain, str(tmp_path / ".claude")), PATHS)
    assert await is_of_memory(_call(str(tmp_path / "memories"), plain), PATHS)
    assert await is_of_memory(_call("CLAUDE.md\0"), PATHS), "no file here can have that name"
