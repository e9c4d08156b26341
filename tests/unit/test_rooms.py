"""The rooms of the house: what lies flat, what circles, how many things one name stands for.

The order of the rooms is held by the layers in `pyproject.toml`; this holds what layers cannot say.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.figures.counting import figures
from tests.trees import nodes_of, shipped_trees

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("policy", "proxy", "storage", "telemetry")
FILES = sorted(path for name in SHIPPED for path in (ROOT / name).rglob("*.py"))

FLAT_IN_PROXY = {"__init__.py", "__main__.py", "version.py"}

# File names that several folders of one package may have, because the folder says the rest.
REPEATED_NAMES_MAX = 25
REPEATED_NAMES = {
    "proxy": frozenset({
        "answers", "backend", "bodies", "calls", "catalogue", "client", "connection",
        "mcp", "memory", "model", "principals", "responses",
        "retention", "state", "stream", "tools", "views", "wire", "withheld",
    }),
}  # fmt: skip

# Each folder is one memory server, and its files are named after what every such folder has.
ALIKE = "proxy.backends."

# A class name that three rooms use says in none of them what it is.
SAME_CLASS_NAME_MAX = 2
# Their names are read beside the wire that they describe.
NAMES_OF_THEIR_OWN = ("proxy/admin/wire/",)


# What each room has, rounded up to 50. A change that needs more in one room takes it from another
# in the same commit; a new capability states its number beforehand, and the total grows by that.
ROOM_STATEMENTS_MAX = {
    "policy": 1_450,
    "policy/after": 500,
    "policy/labels": 550,
    "policy/text": 1_100,
    "policy/trust": 150,
    "policy/withheld": 700,
    "proxy": 50,
    "proxy/admin": 2_650,
    "proxy/aftermath": 1_300,
    "proxy/backends": 2_150,
    "proxy/cli": 4_500,
    "proxy/compose": 1_000,
    "proxy/console": 850,
    "proxy/dialects": 8_400,
    "proxy/doctor": 800,
    "proxy/embed": 250,
    "proxy/files": 100,
    "proxy/fronts": 1_900,
    "proxy/guard": 1_250,
    "proxy/intercept": 900,
    "proxy/ledger": 1_400,
    "proxy/mcp": 2_500,
    "proxy/model": 1_700,
    "proxy/places": 300,
    "proxy/reporting": 500,
    "proxy/seams": 1_050,
    "proxy/settings": 1_050,
    "proxy/settle": 200,
    "proxy/standby": 300,
    "proxy/transport": 1_700,
    "proxy/withhold": 1_700,
    "storage": 1_000,
    "storage/audit": 900,
    "storage/derived": 1_450,
    "storage/features": 3_600,
    "storage/ground": 350,
    "storage/journal": 550,
    "storage/read": 850,
    "storage/sealed_log": 650,
    "storage/staging": 400,
    "storage/tables": 1_050,
    "storage/upkeep": 400,
    "storage/write": 2_100,
    "telemetry": 1_200,
}
STATEMENTS_MAX = 56_200


def _module(path: Path) -> str:
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def _imported(source: str, modules: frozenset[str]) -> set[str]:
    """The modules that this text imports, also where only a type checker reads it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(within & modules or {node.module})
    return found & modules


def _circle(arrows: dict[str, set[str]]) -> list[str]:
    """Modules that import one another in a ring; none where every import leads one way."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return sorted(set(ring))
    return []


def _arrows(sources: dict[str, str]) -> dict[str, set[str]]:
    modules = frozenset(sources)
    return {name: _imported(text, modules) - {name} for name, text in sources.items()}


def test_flat_in_the_proxy_lie_its_start_and_its_version_and_nothing_else() -> None:
    assert {path.name for path in (ROOT / "proxy").glob("*.py")} == FLAT_IN_PROXY


def test_no_module_imports_itself_round_a_corner_not_even_in_annotations() -> None:
    sources = {_module(path): path.read_text("utf-8") for path in FILES}
    assert _circle(_arrows(sources)) == []


@pytest.mark.parametrize(
    "closing", ["from a import x", "import a", "if TYPE_CHECKING:\n    from a import x"]
)
def test_a_circle_is_found_whichever_import_closes_it(closing: str) -> None:
    sources = {"a": "from b import y", "b": "def f():\n    import c", "c": closing, "d": "import a"}
    assert _circle(_arrows(sources)) == ["a", "b", "c"]
    assert _circle(_arrows({**sources, "c": ""})) == []


@pytest.mark.parametrize("package", SHIPPED)
def test_a_file_name_stands_for_one_thing_in_a_package_or_is_listed(package: str) -> None:
    names = Counter(
        path.stem
        for path in FILES
        if _module(path).split(".")[0] == package
        and "__" not in path.stem
        and not _module(path).startswith(ALIKE)
    )
    repeated = {name for name, count in names.items() if count > 1}
    assert repeated == REPEATED_NAMES.get(package, frozenset())
    assert len(repeated) <= REPEATED_NAMES_MAX


def test_no_class_name_stands_for_three_things() -> None:
    where: dict[str, list[str]] = defaultdict(list)
    for place, tree in shipped_trees().items():
        if place.startswith(NAMES_OF_THEIR_OWN):
            continue
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(place)
    often = {name: places for name, places in where.items() if len(places) > SAME_CLASS_NAME_MAX}
    assert often == {}


def _above(counted: dict[str, int]) -> dict[str, int]:
    """The rooms with more statements than their budget, or without one."""
    return {room: n for room, n in counted.items() if n > ROOM_STATEMENTS_MAX.get(room, 0)}


def test_no_room_has_more_statements_than_its_budget() -> None:
    counted = figures().statements_by_room
    assert _above(counted) == {}
    assert sum(counted.values()) <= STATEMENTS_MAX


def test_control_a_room_that_grows_and_a_room_of_its_own_are_found() -> None:
    grown = {"policy/text": ROOM_STATEMENTS_MAX["policy/text"] + 1, "proxy/new": 1}
    assert _above(grown) == grown
