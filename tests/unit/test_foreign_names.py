"""What we use of others: what they document, and nothing that they keep to themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.trees import nodes_of, shipped_trees

# Of aiohttp, what its documentation describes: the package itself, `aiohttp.web`, and the abstract
# classes that it takes, such as that of a resolver; and of what it exports and does not describe,
# its parser of heads (docs/decisions/081).
DOCUMENTED: Final = frozenset({"aiohttp", "aiohttp.web", "aiohttp.abc", "aiohttp.http"})
# The class of a database's handle has no other name, and lmdb's documentation calls it so.
# That aiohttp sends a write once more has no documented switch: `proxy/transport/upstream.py` uses
# the attribute, in the versions that pyproject.toml allows, and a recorder counts what is sent.
DOCUMENTED_NAMES: Final = frozenset(
    {
        "lmdb._Database",
        "self._session._retry_connection",
        "os._exit",
        "line._replace",
        "mark._replace",
    }
)


def undocumented_modules(tree: ast.Module) -> Iterator[str]:
    for node in nodes_of(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (
            name for name in names if name.split(".")[0] == "aiohttp" and name not in DOCUMENTED
        )


def from_aiohttp(tree: ast.Module) -> set[str]:
    """Names that stand for something of aiohttp's."""
    return {
        (alias.asname or alias.name).split(".")[0]
        for node in nodes_of(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).split(".")[0] == "aiohttp"
    }


def heirs(tree: ast.Module) -> Iterator[str]:
    theirs = from_aiohttp(tree)
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                named = {one.id for one in ast.walk(base) if isinstance(one, ast.Name)}
                if named & theirs:
                    yield node.name


def own_names(tree: ast.Module) -> set[str]:
    """Underscored attributes that this file itself defines: what it makes is not foreign."""
    names: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"self", "cls"}
        ):
            names.add(node.attr)
    return names


def foreign_attributes(tree: ast.Module, inherited: set[str]) -> Iterator[str]:
    own = own_names(tree) | inherited
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute):
            name = node.attr
            private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
            if private and name not in own and ast.unparse(node) not in DOCUMENTED_NAMES:
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_nothing_that_others_keep_to_themselves_is_used() -> None:
    trees = shipped_trees()
    ours = {name for tree in trees.values() for name in own_names(tree)}
    used: list[str] = []
    for path, tree in trees.items():
        # A class may use what another class of ours, in another file, leaves to its heirs.
        bases = any(isinstance(node, ast.ClassDef) and node.bases for node in nodes_of(tree))
        attributes = foreign_attributes(tree, ours if bases else set())
        found = (*undocumented_modules(tree), *heirs(tree), *attributes)
        used += [f"{path}: {one}" for one in found]
    assert used == []


@pytest.mark.parametrize(
    "source",
    [
        "from aiohttp.web_protocol import RequestHandler",
        "import aiohttp.http_parser",
        "from aiohttp import web\nclass Ours(web.Server): ...",
        "import aiohttp\nclass Ours(aiohttp.web.Request): ...",
        "def f(request):\n    return request._message",
        "class Ours:\n    def f(self):\n        return self.server._connections",
    ],
)
def test_each_way_of_using_it_is_found(source: str) -> None:
    tree = ast.parse(source)
    found = [*undocumented_modules(tree), *heirs(tree), *foreign_attributes(tree, set())]
    assert len(found) == 1
