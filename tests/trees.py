"""The parsed code of the packages, read by the first test that asks and not by each collection."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SHIPPED: Final = ("policy", "proxy", "storage", "telemetry")


@cache
def shipped_trees() -> dict[str, ast.Module]:
    """Each shipped module, by its path from the root of the project."""
    # Millions of nodes, which all stay: no collection of garbage has to visit them.
    gc.disable()
    try:
        return {
            path.relative_to(ROOT).as_posix(): ast.parse(path.read_bytes())
            for package in SHIPPED
            for path in sorted((ROOT / package).rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module: to walk a tree takes far longer than to look at its nodes again."""
    return tuple(ast.walk(tree))
