"""What every test shares: the markers, the Hypothesis profiles and a printed size figure."""

from __future__ import annotations

import ast
import gc
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.passed_before import PassedBefore, is_a_part
from tests.shares import REASON, deal, names_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
HEAVY = os.environ.get("MNEMOGATE_HEAVY") == "1"
WHOLE = os.environ.get("MNEMOGATE_WHOLE") == "1"
CORPORA = os.environ.get("MNEMOGATE_CORPORA")
LONGEST = "tests/mutants/"

# Derandomized, so that a red run is red again; the full suite draws other examples each time.
hypothesis.settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.load_profile("full" if HEAVY else "quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the place where stores are durable."""
    parser.addoption("--store", choices=("embedded", "files", "postgres"), default="embedded")


def pytest_configure(config: pytest.Config) -> None:
    """Let the full suite know what the quick one has shown; name the store for all processes."""
    os.environ["STORE"] = chosen = str(config.getoption("--store"))
    # One server serves all workers of a run.
    if chosen == "postgres" and not hasattr(config, "workerinput"):
        from tests.database_stores import serve_database  # noqa: PLC0415 - as below

        config.add_cleanup(serve_database())
    if chosen != "embedded":
        from tests.shipped_stores import ship_if_chosen  # noqa: PLC0415 - the store is slow to load

        ship_if_chosen()
    config.pluginmanager.register(PassedBefore(config, heavy=HEAVY), "passed_before")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with the reason, what was not asked for, is another day's or cannot run here."""
    if not WHOLE and not names_tests(config):
        deal(items)
    # A long file that begins among the last leaves the other worker with nothing to do.
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if item.get_closest_marker("heavy") is not None and not HEAVY:
            item.add_marker(pytest.mark.skip(reason="heavy: set MNEMOGATE_HEAVY=1"))
        if item.get_closest_marker("whole") is not None and not WHOLE:
            item.add_marker(pytest.mark.skip(reason="many minutes: set MNEMOGATE_WHOLE=1"))
        if item.get_closest_marker("corpora") is not None and CORPORA is None:
            item.add_marker(pytest.mark.skip(reason="corpora: set MNEMOGATE_CORPORA"))


def pytest_collection_finish() -> None:
    """Have no later collection of garbage visit the tests and modules, which all stay."""
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what other days run, and after a whole run the size of the shipped code."""
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    if left := sum(REASON in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(
            f"{left} tests are left to other days (tests/shares.py); all of them: make shares"
        )
    if not is_a_part(config):
        _print_size(terminalreporter)


def _print_size(terminalreporter: pytest.TerminalReporter) -> None:
    """A figure to watch, not a gate."""
    files = [
        path for name in ("policy", "proxy", "storage", "telemetry") for path in _sources(name)
    ]
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    spans = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    terminalreporter.write_line(
        f"size: {len(lines)} files, {sum(lines)} lines, median {statistics.median(lines):.0f}, "
        f"longest {lines[-1]}; {len(spans)} functions, "
        f"{sum(span > 40 for span in spans)} over 40 lines"
    )


def _sources(package: str) -> Iterator[Path]:
    return (ROOT / package).rglob("*.py")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The directory of real texts; a test that asks for it is skipped where there is none."""
    if CORPORA is None:
        pytest.skip("corpora: set MNEMOGATE_CORPORA")
    return Path(CORPORA)


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands in the tests' own process: what tells the suite how much to run is none."""
    for name in tuple(os.environ):
        if name.startswith("MNEMOGATE_"):
            monkeypatch.delenv(name)
