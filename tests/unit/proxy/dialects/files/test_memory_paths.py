"""Files of memory by their paths, however they are spelled."""

from __future__ import annotations

import pytest

from proxy.dialects.files.memory_paths import MEMORY_PATHS, BadPattern, MemoryPaths

PATHS = MemoryPaths(MEMORY_PATHS)


@pytest.mark.parametrize(
    "path",
    [
        "/home/ada/shop/CLAUDE.md",
        "claude.MD",
        "/a/b/../CLAUDE.md",
        "/a/.claude/rules/tea.md",
        "/a/CLAUDE.md/.",
        "//a///AGENTS.md",
        "~/memories/tea.md",
        "/memories/2026/tea.md",
        "/a/.github/copilot-instructions.md",
        "C:\\shop\\Claude.md",
        "C:\\shop\\CLAUDE.md::$DATA",
        "/a/CLAUDE.md. ",
        "/a/cl\u200baude.md",
        "/a/\uff23LAUDE.md",
        "file:///a/GEMINI.md",
        "file:///a/%43LAUDE.md",
        "FILE:/a/%2e%63laude%2Frules.md",
        "/a/CLAUDE.md\0.txt",
        "file:/a/CLAUDE.md%00.txt",
        "/a/.clinerules/style.md",
        "/a/.windsurf/rules/style.md",
        "/a/.github/instructions/style.instructions.md",
        "/srv/shop/.cursor/rules/style.mdc",
        "AGENTS.override.md",
        # Only another system, or nobody, reads these names as steps.
        "/a/.claude/:/../rules.md",
        "/a/.claude/rules/ ../ ../tea.md",
        "/a/memories/\\..\\..\\tea.md",
        "/a/memories/\uff0f..\uff0f../tea.md",
        "memories/x/\u2025/\u2025/tea.md",
        ".github/:/../copilot-instructions.md",
    ],
)
def test_every_spelling_of_a_file_of_memory_is_one(path: str) -> None:
    assert PATHS.fits(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/a/CLAUDE.md/../notes.md", "/a/MY_CLAUDE.md", "/a/memories", "/a/claude.md.txt"),
        *("/a/b.py", "/a/%43LAUDE.md", "file:///a/b.py%00CLAUDE.md"),
    ],
)
def test_other_files_are_none(path: str) -> None:
    assert not PATHS.fits(path)


def test_a_folder_of_such_files_is_moved_with_them() -> None:
    for path in ("/a/.claude", "/a/memories/", ".GitHub", "/a/CLAUDE.md", "C:\\a\\.claude\\"):
        assert PATHS.fits_folder(path)
    assert not PATHS.fits_folder("/a/docs")
    assert not PATHS.fits("/a/.claude")
    own = MemoryPaths(("/srv/notes/**",))
    assert own.fits_folder("/srv")
    assert not own.fits_folder("/x/srv")
    assert not MemoryPaths(("rules.md",)).fits_folder("/a")


def test_patterns_of_an_operator_take_the_place_of_these() -> None:
    own = MemoryPaths(("/srv/notes/**", "rules-*.md"))
    assert own.fits("/srv/notes/a/b.md")
    assert own.fits("/x/Rules-tea.md")
    assert not own.fits("/x/srv/notes/a.md")
    assert not own.fits("/x/CLAUDE.md")
    assert not MemoryPaths(()).fits("/x/CLAUDE.md")


@pytest.mark.parametrize("pattern", ["", "/", "../a", "a/**/b", "a**", "**"])
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        MemoryPaths((pattern,))
