"""Size limits, unfinished work, and the mirror between code and its unit tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.trees import nodes_of, shipped_trees

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("policy", "proxy", "storage", "telemetry")
PYTHON = sorted(
    path.relative_to(ROOT)
    for folder in (*SHIPPED, "tests", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
PROSE = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "*.toml", "Makefile", "Dockerfile", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
POSITIONAL_PARAMETERS_MAX = 6
COLUMNS_MAX = 100
# A linter reads its pragma on the line itself; it cannot be wrapped.
PRAGMA = re.compile(r"\s+# (?:noqa|type: ignore|pyright: ignore)\b.*")

# File -> why its one idea takes more lines than that.
LONG_FILES: dict[str, str] = {
    "tests/fault/test_edits.py": "every edit is held against one life of a store, and one editor",
}

# Folder of shipped code -> the tests that run it, where no folder of unit tests mirrors it.
NO_UNIT_TESTS_OF_ITS_OWN = {
    "proxy": "tests/unit/test_wheel.py",  # what starts the command: an import and a call
    "proxy/admin/wire": "tests/integration/test_http_admin.py",
    "proxy/compose": "tests/integration/test_write_path.py",
    "proxy/dialects/mcp/store": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/model/openai": "tests/unit/proxy/dialects/model/test_reading.py",
    "proxy/mcp/http": "tests/integration/test_mcp_http.py",
}


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


class _Measured(NamedTuple):
    """What is counted of a function, without its tree: there are tens of thousands."""

    place: str
    lines: int
    positional: int


def _functions(nodes: Iterable[ast.AST]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _nodes_in(path: Path) -> Iterable[ast.AST]:
    tree = shipped_trees().get(path.as_posix())
    return ast.walk(ast.parse(_text(path))) if tree is None else nodes_of(tree)


@cache
def _measured() -> tuple[_Measured, ...]:
    return tuple(
        _Measured(
            place=f"{path}:{function.name}",
            lines=(function.end_lineno or 0) - function.lineno + 1,
            positional=_positional(function),
        )
        for path in PYTHON
        for function in _functions(_nodes_in(path))
    )


def _positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    return len([name for name in given if name not in {"self", "cls"}])


def test_no_file_is_longer_than_600_lines_without_a_reason() -> None:
    lines = {str(path): len(_text(path).splitlines()) for path in PYTHON}
    assert {path for path, count in lines.items() if count > FILE_LINES_MAX} == set(LONG_FILES)


def test_no_function_is_longer_than_70_lines() -> None:
    long = {one.place: one.lines for one in _measured() if one.lines > FUNCTION_LINES_MAX}
    assert long == {}


def test_no_function_takes_more_than_six_positional_parameters() -> None:
    many = [one.place for one in _measured() if one.positional > POSITIONAL_PARAMETERS_MAX]
    assert many == []


# Function and parameter -> the one thing that its pair or triple is.
TUPLES_THAT_ARE_VALUES = {
    "proxy/dialects/mcp/store/tools.py:_tool(hints)": "what MCP hints of one tool",
    "telemetry/tracing.py:_step_span(interval)": "an interval: when it began and when it ended",
}


def _is_record(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `tuple[A, B]`: each place with a meaning of its own."""
    return (
        isinstance(annotation, ast.Subscript)
        and _named(annotation.value) == "tuple"
        and isinstance(annotation.slice, ast.Tuple)
        and not any(
            isinstance(one, ast.Constant) and one.value is Ellipsis for one in annotation.slice.elts
        )
    )


def test_no_tuple_stands_for_parameters() -> None:
    tuples = {
        f"{path}:{function.name}({given.arg})"
        for path, tree in shipped_trees().items()
        for function in _functions(nodes_of(tree))
        for given in (
            *function.args.posonlyargs,
            *function.args.args,
            *function.args.kwonlyargs,
        )
        if _is_record(given.annotation)
    }
    assert tuples == set(TUPLES_THAT_ARE_VALUES)


def test_no_line_of_code_is_wider_than_100_columns() -> None:
    wide = [
        f"{path}:{number}"
        for path in PYTHON
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if len(PRAGMA.sub("", line)) > COLUMNS_MAX
    ]
    assert wide == []


UNTYPED = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"})


def _named(node: ast.expr) -> str:
    """The last word of a dotted name; "" of anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _any_in(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _any_in(node.left) or _any_in(node.right)
    return _named(node) == "Any"


def _is_untyped(node: ast.AST) -> bool:
    """Whether this is `dict[str, Any]`, or the same of any other mapping."""
    return (
        isinstance(node, ast.Subscript)
        and _named(node.value) in UNTYPED
        and isinstance(node.slice, ast.Tuple)
        and [_named(key) for key in node.slice.elts[:1]] == ["str"]
        and any(_any_in(value) for value in node.slice.elts[1:])
    )


def _written_as_text(node: ast.AST) -> ast.AST:
    """What an annotation in quotes says; the node itself where it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "[" in node.value:
        try:
            return ast.parse(node.value.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return node
    return node


def _untyped_lines(tree: ast.AST) -> list[int]:
    return sorted(
        {
            getattr(node, "lineno", 0)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript | ast.Constant)
            and any(_is_untyped(inner) for inner in ast.walk(_written_as_text(node)))
        }
    )


def _names_of_any(tree: ast.AST) -> list[str]:
    """Other names that a module gives to `Any`."""
    given = [
        (target, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    imported = [
        name.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name == "Any" and name.asname is not None
    ]
    return imported + [_named(target) for target, value in given if _named(value) == "Any"]


def test_no_dict_without_types_is_outside_a_dialect() -> None:
    trees = {
        path: tree
        for path, tree in shipped_trees().items()
        if not path.startswith("proxy/dialects/") and "Any" in _text(Path(path))
    }
    assert [f"{path}:{line}" for path, tree in trees.items() for line in _untyped_lines(tree)] == []
    others = [f"{path}:{name}" for path, tree in trees.items() for name in _names_of_any(tree)]
    assert others == []


@pytest.mark.parametrize(
    "line",
    [
        "Rows = dict[str, Any]",
        "found: Dict[str, typing.Any] = {}",
        "def f(a: Mapping[str, Any] | None) -> None: ...",
        "def f() -> list[dict[str, int | Any]]: ...",
        'Json: TypeAlias = "dict[str, Any]"',
        "all_of: defaultdict[\n    str, Any\n]",
    ],
)
def test_a_dict_without_types_is_seen_however_it_is_spelled(line: str) -> None:
    assert _untyped_lines(ast.parse(line)) == [1]


def test_what_has_types_is_not_taken_for_a_dict_without() -> None:
    typed = "a: dict[str, int]; b: dict[str, NDArray[Any]]; c: list[Any]; d = 'no [brackets'"
    assert _untyped_lines(ast.parse(typed)) == []
    assert _names_of_any(ast.parse("from typing import Any as A\nB = Any")) == ["A", "B"]


def test_nothing_says_that_it_is_unfinished() -> None:
    # Spelled apart, so that this file does not name itself.
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK|WI" + r"P)\b")
    marked = [
        f"{path}:{number}"
        for path in (*PYTHON, *PROSE)
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if marks.search(line)
    ]
    assert marked == []


def _is_code(tree: ast.Module) -> bool:
    """Whether the module holds more than a docstring, imports and `__all__`."""
    return any(
        not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom | ast.Assign)
        for node in tree.body
    )


def _rooms() -> set[str]:
    """Every folder of code."""
    return {str(Path(path).parent) for path, tree in shipped_trees().items() if _is_code(tree)}


def _unit_tests_of(room: str) -> list[Path]:
    return list((ROOT / "tests" / "unit" / room).glob("test_*.py"))


def test_each_folder_of_code_has_a_folder_of_unit_tests_or_is_listed() -> None:
    wrong = {
        room
        for room in _rooms()
        if bool(_unit_tests_of(room)) == (room in NO_UNIT_TESTS_OF_ITS_OWN)
    }
    assert wrong == set(), "tests/unit has such a folder, or the table above a line"
    assert all((ROOT / listed).is_file() for listed in NO_UNIT_TESTS_OF_ITS_OWN.values())


def test_each_folder_that_is_excused_from_unit_tests_of_its_own_holds_code() -> None:
    assert set(NO_UNIT_TESTS_OF_ITS_OWN) - _rooms() == set()


def test_each_folder_of_unit_tests_mirrors_a_folder_of_code() -> None:
    unit = ROOT / "tests" / "unit"
    mirrored = {path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")}
    assert sorted(mirrored - _rooms() - {".", *SHIPPED}) == []
