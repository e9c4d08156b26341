"""The text of a module with one mutant in it: the place is found in its tree, and only it changes.

What is changed is a stretch of the source, so that everything around it stays as it is laid out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from tests.mutants.mutant import Mutant, Operator

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Scope: TypeAlias = ast.Module | _Definition
_Site: TypeAlias = ast.expr | ast.keyword | ast.stmt
_Found = TypeVar("_Found")


class Misplaced(Exception):  # noqa: N818 - says what is the case
    """A mutant does not fit the code any more, or its tests cannot be run."""


def mutated(source: str, mutant: Mutant) -> str:
    """The source of the mutant's file with the mutant in it.

    Raises:
        Misplaced: What the mutant names is not there exactly once, or the fault changes nothing.
    """
    tree = ast.parse(source)
    text = _exchanged(source, *_exchange(tree, mutant))
    try:
        changes = ast.dump(ast.parse(text)) != ast.dump(tree)
    except SyntaxError as error:
        raise Misplaced(f"{mutant.name}: {error}") from error
    if not changes:
        raise Misplaced(f"{mutant.name}: the fault changes nothing")
    return text


def _exchange(tree: ast.Module, mutant: Mutant) -> tuple[Sequence[_Site], str]:
    """The nodes that the mutant takes out of the tree, and the text in their place."""
    scope = _only(list(_scopes(tree, mutant.where.partition(":")[2])), mutant)
    by = mutant.fault.by
    match mutant.fault.operator:
        case Operator.RETURN:
            return _body_of(scope), f"return {by}"
        case Operator.DROP:
            return [_place(scope, mutant, ast.stmt)], "pass"
        case Operator.REPLACE:
            site = _place(scope, mutant, (ast.expr, ast.keyword))
            return [site], by if isinstance(site, ast.keyword) else f"({by})"


def _scopes(scope: _Scope, name: str) -> Iterator[_Scope]:
    """The functions and classes of a qualified name; the scope itself for none."""
    if not name:
        yield scope
        return
    first, _, rest = name.partition(".")
    for one in _defined(scope):
        if one.name == first:
            yield from _scopes(one, rest)


def _defined(node: ast.AST) -> Iterator[_Definition]:
    """What a scope defines, also below a condition, and not what those define in turn."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        else:
            yield from _defined(child)


def _place(scope: _Scope, mutant: Mutant, kinds: type[_Site] | tuple[type[_Site], ...]) -> _Site:
    """The one place in the scope whose unparsed text is the mutant's."""
    return _only(
        [
            node
            for node in ast.walk(scope)
            if isinstance(node, kinds) and ast.unparse(node) == mutant.fault.at
        ],
        mutant,
    )


def _only(found: list[_Found], mutant: Mutant) -> _Found:
    if len(found) != 1:
        raise Misplaced(f"{mutant.name}: {len(found)} places in {mutant.where}: {mutant.fault.at}")
    return found[0]


def _body_of(scope: _Scope) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    return scope.body[ast.get_docstring(scope) is not None :]


def _exchanged(source: str, nodes: Sequence[_Site], by: str) -> str:
    """The source with other text in place of nodes that follow each other."""
    lines = source.encode().splitlines(keepends=True)
    first, last = nodes[0], nodes[-1]
    end_line, end_column = last.end_lineno or last.lineno, last.end_col_offset or 0
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    after = lines[end_line - 1][end_column:] + b"".join(lines[end_line:])
    return (before + by.encode() + after).decode()
