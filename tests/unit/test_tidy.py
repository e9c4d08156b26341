"""Size limits, unfinished work, and the mirror between code and its unit tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
COLUMNS_MAX = 100
# A linter reads its pragma on the line itself; it cannot be wrapped.
PRAGMA = re.compile(r"\s+# (?:noqa|type: ignore|pyright: ignore)\b.*")

# Function -> why it may take more parameters than the rest.
MANY_PARAMETERS = {
    "policy/verdict.py:__init__": "a permit is exactly these facts",
    "storage/embedded.py:open_embedded": "the seam where all the parts come together",
}

# Module, or folder with its slash -> the test that runs it, where a file of its own name would
# only repeat that one. The longest match decides.
NO_TEST_OF_ITS_OWN: dict[str, str] = {
    "policy/sentence_words.py": "tests/unit/policy/test_sentences.py",
    "policy/withheld_words.py": "tests/unit/policy/test_withheld.py",
    "proxy/__main__.py": "tests/unit/test_wheel.py",  # two lines: import, call
    "proxy/admin_wire.py": "tests/integration/test_http_admin.py",
    "proxy/app.py": "tests/integration/test_write_path.py",
    "proxy/bindings.py": "tests/unit/proxy/test_settings.py",
    "proxy/cli/": "tests/integration/test_cli_life.py",
    "proxy/cli/backup.py": "tests/integration/test_cli_backup.py",
    "proxy/cli/export.py": "tests/integration/test_cli_upkeep.py",
    "proxy/cli/quarantine.py": "tests/integration/test_observe.py",
    "proxy/cli/retention.py": "tests/integration/test_cli_upkeep.py",
    "proxy/cli/command.py": "tests/integration/test_cli_refusals.py",
    "proxy/cli/connect.py": "tests/integration/test_cli_refusals.py",
    "proxy/cli/doctor.py": "tests/integration/test_cli_doctor.py",
    "proxy/cli/entry.py": "tests/integration/test_cli_refusals.py",
    "proxy/cli/exits.py": "tests/integration/test_cli_refusals.py",
    "proxy/cli/failures.py": "tests/integration/test_cli_refusals.py",
    "proxy/cli/hardening.py": "tests/unit/proxy/doctor/test_processes.py",
    "proxy/cli/parser.py": "tests/unit/test_docs.py",
    "proxy/cli/policy.py": "tests/integration/test_cli_refusals.py",
    "proxy/credentials.py": "tests/integration/test_http_admin.py",
    "proxy/dialects/mcp/in_model.py": "tests/unit/proxy/dialects/mcp/test_maps.py",
    "proxy/dialects/mcp/json_text.py": "tests/unit/proxy/dialects/mcp/test_results.py",
    "proxy/dialects/mcp/pieces.py": "tests/unit/proxy/dialects/mcp/test_calls.py",
    "proxy/dialects/mcp/removal.py": "tests/unit/proxy/dialects/mcp/test_results.py",
    "proxy/dialects/mcp/shown_text.py": "tests/unit/proxy/dialects/mcp/test_results.py",
    "proxy/dialects/mcp/store.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/store_graph.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/store_plans.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/store_protocol.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/store_steps.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/store_tools.py": "tests/unit/proxy/mcp/test_store_server.py",
    "proxy/dialects/mcp/words.py": "tests/unit/proxy/dialects/mcp/test_calls.py",
    "proxy/dialects/mem0/": "tests/conformance/test_mem0_vectors.py",
    "proxy/dialects/model/": "tests/unit/proxy/dialects/model/test_editors.py",
    "proxy/dialects/native_wire.py": "tests/unit/proxy/dialects/test_native_decode.py",
    "proxy/dialects/operation.py": "tests/unit/proxy/dialects/test_native.py",
    "proxy/dialects/problem.py": "tests/unit/proxy/dialects/test_native.py",
    "proxy/doctor/examine.py": "tests/unit/proxy/doctor/test_network.py",
    "proxy/doctor/finding.py": "tests/unit/proxy/doctor/test_files.py",
    "proxy/doctor/isolation.py": "tests/integration/test_doctor_isolated.py",
    "proxy/doctor/locate.py": "tests/unit/proxy/doctor/test_processes.py",
    "proxy/exchange.py": "tests/integration/test_http_front.py",
    "proxy/evaluate/": "tests/integration/test_evaluate.py",
    "proxy/evaluate/suite/": "tests/integration/test_evaluate_suite.py",
    "proxy/cli/evaluate.py": "tests/integration/test_evaluate.py",
    "proxy/explain.py": "tests/integration/test_http_admin.py",
    "proxy/explain_wire.py": "tests/integration/test_http_admin.py",
    "proxy/fronts/admin.py": "tests/integration/test_http_admin.py",
    "proxy/fronts/mcp_http.py": "tests/integration/test_mcp_http.py",
    "proxy/behind.py": "tests/integration/test_guard_socket.py",
    "proxy/confirming.py": "tests/integration/test_confirm_page.py",
    "proxy/fronts/confirm_page.py": "tests/integration/test_confirm_page.py",
    "proxy/fronts/guard_socket.py": "tests/integration/test_guard_socket.py",
    "proxy/fronts/memory.py": "tests/integration/test_http_front.py",
    "proxy/fronts/operator_routes.py": "tests/integration/test_http_admin.py",
    "proxy/mcp/lines.py": "tests/unit/proxy/fronts/test_mcp_stdio.py",
    "proxy/mcp/answers.py": "tests/unit/proxy/mcp/test_calls.py",
    "proxy/mcp/catalogue.py": "tests/unit/proxy/mcp/test_calls.py",
    "proxy/mcp/ground.py": "tests/unit/proxy/mcp/test_calls.py",
    "proxy/mcp/own.py": "tests/unit/proxy/mcp/test_people.py",
    "proxy/mcp/server.py": "tests/unit/proxy/mcp/test_calls.py",
    "proxy/mcp/tending.py": "tests/unit/proxy/mcp/test_people.py",
    "proxy/mcp/inbox.py": "tests/unit/proxy/mcp/test_relay.py",
    "proxy/mcp/pending.py": "tests/unit/proxy/mcp/test_relay.py",
    "proxy/mcp/http/": "tests/integration/test_mcp_http.py",
    "proxy/guard_client.py": "tests/integration/test_guard_socket.py",
    "proxy/guard_wire.py": "tests/integration/test_guard_socket.py",
    "proxy/listening.py": "tests/integration/test_write_path.py",
    "proxy/mcp_serving.py": "tests/integration/test_mcp_composed.py",
    "proxy/fronts/model.py": "tests/integration/test_model_front.py",
    "proxy/model/vetoing.py": "tests/unit/proxy/model/test_veto.py",
    "proxy/model/": "tests/integration/test_model_front.py",
    "proxy/model_memory.py": "tests/integration/test_model_front.py",
    "proxy/model_serving.py": "tests/integration/test_model_front.py",
    "proxy/observing.py": "tests/integration/test_every_so_often.py",
    "proxy/openapi.py": "tests/integration/test_http_admin.py",
    "proxy/operate.py": "tests/integration/test_http_admin.py",
    "proxy/parts.py": "tests/integration/test_write_path.py",
    "proxy/operator_views.py": "tests/integration/test_http_admin.py",
    "proxy/retention.py": "tests/integration/test_retention.py",
    "proxy/server_settings.py": "tests/unit/proxy/test_mcp_settings.py",
    "proxy/session_book.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_core.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_entering.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_evidence.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_ground.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_views.py": "tests/integration/test_cli_sessions.py",
    "proxy/session_wire.py": "tests/integration/test_cli_sessions.py",
    "proxy/session_snapshot.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_reading.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_records.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_state.py": "tests/unit/proxy/test_sessions.py",
    "proxy/session_texts.py": "tests/unit/proxy/test_sessions.py",
    "proxy/server.py": "tests/integration/test_http_malformed.py",
    "proxy/setting_table.py": "tests/unit/proxy/test_settings.py",
    "proxy/setting_values.py": "tests/unit/proxy/test_settings.py",
    "proxy/stopping.py": "tests/integration/test_http_streams.py",
    "proxy/streaming.py": "tests/integration/test_http_streams.py",
    "proxy/upkeep_wire.py": "tests/integration/test_http_admin.py",
    "proxy/watching.py": "tests/unit/proxy/test_withholding_in_flight.py",
    "proxy/withholding_asking.py": "tests/unit/proxy/test_withholding.py",
    "proxy/withholding_state.py": "tests/unit/proxy/test_withholding.py",
    "proxy/withholding_texts.py": "tests/unit/proxy/test_withholding.py",
    "proxy/version.py": "tests/unit/test_wheel.py",
    "storage/due.py": "tests/unit/proxy/test_withholding_in_flight.py",
    "storage/cases.py": "tests/unit/storage/test_writer.py",
    "storage/change.py": "tests/unit/storage/test_writer.py",
    "storage/checking_forwards.py": "tests/unit/storage/test_forwarding.py",
    "storage/copying.py": "tests/unit/storage/test_backup.py",
    "storage/scanning.py": "tests/unit/storage/test_faiss_index.py",
    "storage/segments.py": "tests/unit/storage/test_faiss_index.py",
    "storage/embedded.py": "tests/unit/storage/test_recovery.py",
    "storage/engine.py": "tests/fault/test_commit_outcomes.py",
    "storage/errors.py": "tests/unit/proxy/test_responses.py",
    "storage/first_outcomes.py": "tests/fault/test_commit_outcomes.py",
    "storage/following.py": "tests/unit/proxy/test_guarding.py",
    "storage/gathering.py": "tests/unit/storage/test_writes.py",
    "storage/interfaces.py": "tests/typing/test_misuse.py",
    "storage/judging.py": "tests/unit/storage/test_writes.py",
    "storage/objections.py": "tests/integration/test_observe.py",
    "storage/operating.py": "tests/unit/storage/test_held.py",
    "storage/pinning.py": "tests/unit/proxy/test_guarding.py",
    "storage/read_only.py": "tests/unit/proxy/cli/test_verification.py",
    "storage/restoring.py": "tests/unit/storage/test_backup.py",
    "storage/wellness.py": "tests/fault/test_full_disk_told.py",
    "storage/session_frames.py": "tests/unit/storage/test_session_log.py",
    "storage/retaining.py": "tests/integration/test_retention.py",
    "telemetry/collector.py": "tests/integration/test_telemetry_export.py",
    "telemetry/events.py": "tests/unit/telemetry/test_no_content.py",
    "telemetry/exporter.py": "tests/integration/test_telemetry_export.py",
    "telemetry/settings.py": "tests/unit/telemetry/test_otlp.py",
}


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(_text(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def test_no_file_is_longer_than_400_lines() -> None:
    long = {str(path): len(_text(path).splitlines()) for path in PYTHON}
    assert {path: lines for path, lines in long.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    long = {
        f"{path}:{function.name}": lines
        for path in PYTHON
        for function in _functions(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


def test_no_function_takes_more_than_six_parameters() -> None:
    many = {
        f"{path}:{function.name}"
        for path in PYTHON
        for function in _functions(path)
        if _parameters(function) > PARAMETERS_MAX
    }
    assert many == set(MANY_PARAMETERS)


def test_no_line_of_code_is_wider_than_100_columns() -> None:
    wide = [
        f"{path}:{number}"
        for path in PYTHON
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if len(PRAGMA.sub("", line)) > COLUMNS_MAX
    ]
    assert wide == []


UNTYPED = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"})
# Another name for `Any` -> why there is one.
OTHER_NAMES_OF_ANY = {
    "proxy/strict_json.py:JsonValue": "msgspec follows no recursive alias; checkers read the other",
}


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


OUTSIDE_DIALECTS = [
    path for path in PYTHON if path.parts[0] in SHIPPED and path.parts[:2] != ("proxy", "dialects")
]


def test_no_dict_without_types_is_outside_a_dialect() -> None:
    trees = {path: ast.parse(text) for path in OUTSIDE_DIALECTS if "Any" in (text := _text(path))}
    assert [f"{path}:{line}" for path, tree in trees.items() for line in _untyped_lines(tree)] == []
    others = [f"{path}:{name}" for path, tree in trees.items() for name in _names_of_any(tree)]
    assert others == list(OTHER_NAMES_OF_ANY)


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


def _is_code(path: Path) -> bool:
    """Whether the module holds more than a docstring, imports and `__all__`."""
    return any(
        not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom | ast.Assign)
        for node in ast.parse(_text(path)).body
    )


SOURCES = [path for path in PYTHON if path.parts[0] in SHIPPED and _is_code(path)]


def _tests_of(source: Path) -> list[Path]:
    """Tests of `proxy/a/b.py`: `tests/unit/proxy/a/test_b.py` or `test_b_<part>.py`.

    With the package in the name, `test_a_b.py`, it may also stand one folder up.
    """
    folder = ROOT / "tests" / "unit" / source.parent
    stem = source.parent.name if source.stem == "__init__" else source.stem.strip("_")
    long = f"{source.parent.name}_{stem}"
    return [
        found
        for where, name in ((folder, stem), (folder, long), (folder.parent, long))
        for pattern in (f"test_{name}.py", f"test_{name}_*.py")
        for found in where.glob(pattern)
    ]


def _elsewhere(source: Path) -> str | None:
    names = [source.as_posix(), *(f"{folder.as_posix()}/" for folder in source.parents)]
    return next((name for name in names if name in NO_TEST_OF_ITS_OWN), None)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_each_module_has_a_unit_test_file_or_is_listed_with_the_test_that_runs_it(
    source: Path,
) -> None:
    own = f"tests/unit/{source.parent}/test_{source.stem.strip('_')}.py"
    assert _tests_of(source) or _elsewhere(source), f"no {own}"


@pytest.mark.parametrize("listed", NO_TEST_OF_ITS_OWN)
def test_each_exception_to_the_mirror_is_needed_and_its_test_exists(listed: str) -> None:
    assert (ROOT / NO_TEST_OF_ITS_OWN[listed]).is_file()
    covered = [source for source in SOURCES if _elsewhere(source) == listed]
    assert [source for source in covered if not _tests_of(source)] != []
