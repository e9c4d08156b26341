"""Counts of what the code has to be known by: statements, names, and rows of its tables."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from proxy.admin.wire.operator_routes import ROUTES
from proxy.cli.parser import commands
from storage.tables.names import TABLES
from tests import settings_page
from tests.trees import shipped_trees
from tests.words import document_words

ROOT: Final = Path(__file__).resolve().parents[2]
SHIPPED: Final = ("policy", "proxy", "storage", "telemetry")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """How many classes, Protocols and struct fields some modules define."""

    classes: int
    protocols: int
    struct_fields: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What can be counted without running a request. Lines are those of Python files."""

    statements: int
    statements_by_room: dict[str, int]
    lines: int
    files: int
    # Without those of the evaluation, which measures and is no test.
    test_lines: int
    evaluation_lines: int
    mutant_lines: int
    # Of the pages, without decisions and the tables that are printed from the code.
    document_words: int
    names: Names
    # The rows of one declaration each.
    lmdb_tables: int
    routes: int
    commands: int
    settings: int


def figures(root: Path = ROOT) -> Figures:
    """The figures of a checkout; tables, routes, commands and settings are of the imported one."""
    shipped = _sources(root, SHIPPED)
    trees = (
        shipped_trees() if root == ROOT else {path: ast.parse(shipped[path]) for path in shipped}
    )
    by_room: Counter[str] = Counter()
    for path, tree in trees.items():
        by_room[room(path)] += statements(tree)
    evaluation_lines = _lines(_sources(root, ("tests/evaluate",)))
    return Figures(
        statements=by_room.total(),
        statements_by_room=dict(sorted(by_room.items())),
        lines=_lines(shipped),
        files=len(shipped),
        test_lines=_lines(_sources(root, ("tests",))) - evaluation_lines,
        evaluation_lines=evaluation_lines,
        mutant_lines=_lines(_sources(root, ("tests/mutants",))),
        document_words=sum(document_words(root).values()),
        names=names(trees.values()),
        lmdb_tables=len(TABLES),
        routes=len(ROUTES),
        commands=len(commands()),
        settings=_settings(),
    )


def room(path: str) -> str:
    """The room of a file of a package: its folder below the package, or the package itself."""
    package, *below = path.split("/")
    return f"{package}/{below[0]}" if len(below) > 1 else package


def statements(tree: ast.AST) -> int:
    """The statements of a module at every depth. A text that is alone in a line is none."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(tree))


def names(trees: Iterable[ast.Module]) -> Names:
    """The definitions of modules; a field is an annotated name of a Struct or a NamedTuple."""
    found = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return Names(
        classes=len(found),
        protocols=sum("Protocol" in _bases(node) for node in found),
        struct_fields=sum(
            isinstance(item, ast.AnnAssign)
            for node in found
            if _bases(node) & {"Struct", "NamedTuple"}
            for item in node.body
        ),
    )


def _bases(node: ast.ClassDef) -> set[str]:
    """The last names of its base classes, without what they are parameterised with."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _settings() -> int:
    """Settings of their own, and the keys of every table of a settings file."""
    return sum(len(keys) for keys in settings_page.ROWS.values())


def _sources(root: Path, folders: Iterable[str]) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
    }


def _lines(sources: Mapping[str, str]) -> int:
    return sum(len(text.splitlines()) for text in sources.values())
