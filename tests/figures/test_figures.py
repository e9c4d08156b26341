"""The figures count what they claim to count."""

from __future__ import annotations

import ast
import asyncio
import json

import pytest

from tests.figures.__main__ import main
from tests.figures.counting import Names, names, room, statements
from tests.figures.path import TURNS, one_round

SOURCE = '''
"""A docstring is no statement."""

class Base(msgspec.Struct, frozen=True):
    """Nor is this one."""

    one: int
    """Nor is a text below a field."""

class Seen(NamedTuple):
    two: str = ""

class Reads(Protocol[T]):
    name: str

    def read(self) -> int: ...
'''


def test_statements_and_fields_are_counted_and_docstrings_are_not() -> None:
    tree = ast.parse(SOURCE)
    assert statements(tree) == 8
    assert names([tree]) == Names(classes=3, protocols=1, struct_fields=2)


def test_a_room_is_a_folder_of_a_package_or_the_package() -> None:
    assert room("proxy/dialects/mem0/reads.py") == "proxy/dialects"
    assert room("policy/gate.py") == "policy"


def test_the_command_prints_the_sum_of_the_rooms_as_json(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("sys.argv", ["figures", "--no-path", "--json"])
    assert main() == 0
    counted = json.loads(capfdbinary.readouterr().out)["counted"]
    assert counted["statements"] == sum(counted["statements_by_room"].values()) > 1_000
    assert counted["mutant_lines"] < counted["evaluation_lines"] < counted["test_lines"]


def test_the_path_of_each_kind_of_request_is_recorded() -> None:
    found = asyncio.run(one_round())
    asked = [f"model request of {turns} turns" for turns in TURNS]
    assert list(found) == ["native write", "MCP tools/call", "Mem0 search", *asked]
    assert all(path.calls >= path.functions > path.files > 10 for path in found.values())
    short, long = (found[name].calls for name in asked)
    assert long < 1.1 * short, "what came before costs nothing"
