"""Small faults made by rule: a comparison turned round, a condition negated, a line left out."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import Final, cast

import msgspec

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_Site = ast.expr | ast.stmt


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to one place of one file: the `number`th of its faults."""

    file: str
    line: int
    done: str
    source: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.done}"

    @property
    def text(self) -> str:
        """The mutated text. Of hundreds of faults in a file one is tried, so only its is made."""
        tree = ast.parse(self.source)
        node, _, changed = next(itertools.islice(_changes(tree), self.number, None))
        _exchange(tree, node, changed)
        return ast.unparse(ast.fix_missing_locations(tree))


def faults(file: str, source: str) -> Iterator[Fault]:
    """Every fault that the rules make in the functions of a module, in the order of its lines."""
    for number, (node, what, _) in enumerate(_changes(ast.parse(source))):
        done = f"{what}: {ast.unparse(node).splitlines()[0][:60]}"
        yield Fault(file=file, line=node.lineno, done=done, source=source, number=number)


def _changes(tree: ast.Module) -> Iterator[tuple[_Site, str, _Site]]:
    """Every place, what may be done to it, and what then stands there."""
    for node in _sites(tree):
        for done, changed in _variants(node):
            yield node, done, changed


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """What may be changed: inside functions, without annotations, defaults and docstrings."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in function.body:
            docstring = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Constant
            )
            if docstring or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[_Site]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Raise):
        return  # walked on its own; what an error says is no behaviour that is counted here
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield from _inside(node.value)
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def _variants(node: _Site) -> Iterator[tuple[str, _Site]]:  # noqa: C901 - one arm per rule
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            turned = copy.deepcopy(node)
            turned.ops = [_COMPARED[type(op)]()]
            yield "comparison turned", turned
        case ast.BoolOp(op=op):
            turned_bool = copy.deepcopy(node)
            turned_bool.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and for or", turned_bool
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            turned_sum = copy.deepcopy(node)
            turned_sum.op = _COMPUTED[type(op)]()
            yield "operator turned", turned_sum
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation dropped", copy.deepcopy(operand)
        case ast.If(test=test):
            negated = copy.deepcopy(node)
            negated.test = ast.UnaryOp(op=ast.Not(), operand=copy.deepcopy(test))
            yield "condition negated", negated
        case ast.Constant(value=bool(value)):
            yield "constant turned", ast.Constant(value=not value)
        case ast.Constant(value=int(value)):
            yield "constant moved", ast.Constant(value=value + 1)
        case ast.Return(value=value) if value is not None and not _is_false(value):
            yield "nothing returned", ast.Return(value=ast.Constant(value=None))
        case ast.Expr(value=ast.Call()):
            yield "call left out", ast.Pass()
        case ast.AugAssign():
            yield "change left out", ast.Pass()
        case _:
            return


def _is_false(value: ast.expr) -> bool:
    # None in place of them tells nobody anything else.
    return isinstance(value, ast.Constant) and value.value in {None, False}


def _exchange(tree: ast.AST, site: _Site, changed: _Site) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is site:
                setattr(parent, field, changed)
                return
            among = cast("list[object]", value) if isinstance(value, list) else []
            for at, item in enumerate(among):
                if item is site:
                    among[at] = changed
                    return
