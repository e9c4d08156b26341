"""Files that a text imports."""

from __future__ import annotations

import pytest

from proxy.dialects.files.imports import imports_of, may_be_one


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("@docs/more.md", "/a/docs/more.md"),
        ("- see @~/tea.md, please", "tea.md"),
        ("(@./x)", "/a/x"),
        ("`@a/b`", "/a/a/b"),
        ("**@rules.md**", "/a/rules.md"),
        ("a\ufeff@b", "/a/b"),
        ("@/etc/tea.md#green", "/etc/tea.md"),
        ("@../my\\ tea.md", "/my tea.md"),
        ("tea\n@b\n", "/a/b"),
    ],
)
def test_a_line_imports_a_file(text: str, path: str) -> None:
    assert any(may_be_one(one, path) for one in imports_of("/a/CLAUDE.md", text))


def test_an_address_imports_none() -> None:
    assert [*imports_of("/a/CLAUDE.md", "write to ada@example.com, or to @ home")] == []


def test_a_relative_path_may_begin_anywhere_and_an_absolute_one_only_at_the_root() -> None:
    (meant,) = imports_of("CLAUDE.md", "@docs/tea.md")
    assert may_be_one(meant, "/srv/docs/tea.md")
    assert not may_be_one("/srv/docs/tea.md", "/home/docs/tea.md")
