"""The shipped maps are whole, and an operator's map is found or refused in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.dialects.mcp.maps import MAP_BYTES_MAX, MapError, Posture
from proxy.tool_maps import load_map, map_for_server, shipped, shipped_map

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_map_is_whole(name: str) -> None:
    found = shipped_map(name)
    assert found is not None
    assert found.name == name
    assert found.tools or found.posture is Posture.CONTEXT
    for server_name in found.server_names:
        assert map_for_server(server_name) is found


def test_no_server_name_belongs_to_two_maps() -> None:
    names = [
        server_name
        for name in shipped()
        if (found := shipped_map(name)) is not None
        for server_name in found.server_names
    ]
    assert len(set(names)) == len(names)
    assert map_for_server("somebody-else") is None


def test_a_map_is_a_shipped_name_or_a_file(tmp_path: Path) -> None:
    assert load_map("context") is shipped_map("context")
    mine = tmp_path / "mine.toml"
    mine.write_text('format = 1\nname = "mine"\nread_from = "here"\n[tools.t]\nkind = "read"\n')
    assert load_map(str(mine)).name == "mine"


def test_what_cannot_be_a_map_is_refused_in_words(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.toml", tmp_path / "binary.toml"
    large.write_bytes(b"#" * (MAP_BYTES_MAX + 1))
    binary.write_bytes(b"\xff")
    for given, said in (
        ("no-such", "no such map; there are context"),
        (str(tmp_path), "cannot be read"),
        (str(tmp_path / "absent.toml"), "cannot be read"),
        (str(large), "larger than"),
        (str(binary), "not UTF-8"),
    ):
        with pytest.raises(MapError, match=said):
            load_map(given)
