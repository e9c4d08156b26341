"""The full suite does not repeat what the quick suite has just shown for the same files.

`make test` notes which tests passed and a digest of every file they could depend on. `make
test-full` skips those tests, with a reason, while the digest is still the same, and does not even
collect a file of which nothing is left to run. Tests that do more when `MNEMOGATE_HEAVY` is set
(heavy ones, drawn examples, what depends on a module's `HEAVY`) run again. Any changed byte,
another interpreter or another set of corpora, and everything runs. `MNEMOGATE_REPEAT=1` runs
everything in any case.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
NOTE: Final = "mnemogate/passed_quick"
SAME_FILES: Final = "MNEMOGATE_SAME_FILES"
REASON: Final = "passed in the quick suite on the same files"

# What a run of the tools leaves behind, and nothing that a test reads.
_LEFT_BEHIND: Final = frozenset({"__pycache__", "build", "dist", "node_modules"})


def _files(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        hidden = entry.name.startswith(".") and entry.name != ".ci"
        if hidden or entry.name in _LEFT_BEHIND or entry.name.endswith(".egg-info"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def digest_of(root: Path, corpora: str | None) -> str:
    """One number for all files below `root`, the interpreter and where the corpora are."""
    whole = hashlib.sha256(f"{sys.version}\0{sys.executable}\0{corpora}".encode())
    for path in _files(root):
        whole.update(f"\0{path.relative_to(root)}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


class _Note(msgspec.Struct):
    digest: str
    passed: frozenset[str]
    # Files of which the full suite has nothing left to run.
    done: frozenset[str]


class PassedBefore:
    """Notes what passed, in the quick suite; skips it, in the full one.

    With pytest-xdist one of these lives in the main process, where reports arrive, and one in each
    worker, where tests are collected. The environment tells the workers what the main one found;
    they tell it which files have tests that do more.
    """

    def __init__(self, config: pytest.Config, *, heavy: bool) -> None:
        self._config = config
        self._heavy = heavy
        self._passed: set[str] = set()
        self._bad: set[str] = set()
        self._unfinished: set[str] = set()
        self._before: _Note | None = None
        self._digest: str | None = None
        if hasattr(config, "workerinput"):
            if heavy and os.environ.get(SAME_FILES) == "1":
                self._before = self._noted()
            return
        os.environ.pop(SAME_FILES, None)
        if is_a_part(config):
            return
        self._digest = digest_of(ROOT, os.environ.get("MNEMOGATE_CORPORA"))
        noted = self._noted()
        wanted = os.environ.get("MNEMOGATE_REPEAT") != "1"
        if heavy and wanted and noted is not None and noted.digest == self._digest:
            os.environ[SAME_FILES] = "1"
            self._before = noted

    def _noted(self) -> _Note | None:
        written: object = self._config.cache.get(NOTE, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        try:
            return msgspec.convert(written, _Note)
        except msgspec.ValidationError:
            return None

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out a file whose tests have all passed and would do the same again."""
        if self._before is None or not collection_path.is_relative_to(ROOT):
            return None
        done = collection_path.relative_to(ROOT).as_posix() in self._before.done
        return True if done else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what passed before, where it would do the same again."""
        self._unfinished |= {_file(item.nodeid) for item in items if does_more(item)}
        if self._before is None:
            return
        for item in items:
            if item.nodeid in self._before.passed and not does_more(item):
                item.add_marker(pytest.mark.skip(reason=REASON))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test only if its call passed and neither its setup nor its teardown failed."""
        if not report.passed:
            self._unfinished.add(_file(report.nodeid))
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._bad.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - a class of pytest-xdist
        """Take over what a worker has collected."""
        self._unfinished |= set(getattr(node, "workeroutput", {}).get(NOTE, ()))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the note after a whole and green quick run; files changed meanwhile: none."""
        told: dict[str, list[str]] | None = getattr(self._config, "workeroutput", None)
        if told is not None:
            told[NOTE] = sorted(self._unfinished)
        if self._digest is None or self._heavy or exitstatus != 0:
            return
        if self._digest != digest_of(ROOT, os.environ.get("MNEMOGATE_CORPORA")):
            return
        passed = sorted(self._passed - self._bad)
        done = sorted({_file(one) for one in passed} - self._unfinished)
        self._config.cache.set(NOTE, {"digest": self._digest, "passed": passed, "done": done})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how much was left out."""
        if self._before is not None:
            terminalreporter.write_line(
                f"{len(self._before.passed)} tests {REASON}; of them nothing was repeated in "
                f"{len(self._before.done)} files, which were not collected"
            )


def is_a_part(config: pytest.Config) -> bool:
    """Whether the command names paths or picks tests: it says nothing about the whole."""
    option = config.option
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return named or bool(option.keyword or option.markexpr or getattr(option, "lf", False))


def does_more(item: pytest.Item) -> bool:
    """Whether a test does more in the full suite than in the quick one."""
    test = getattr(item, "obj", None)
    return (
        item.get_closest_marker("heavy") is not None
        or bool(getattr(test, "is_hypothesis_test", False))
        or (
            hasattr(getattr(item, "module", None), "HEAVY")
            and item.nodeid.split("::")[1].partition("[")[0] in _more_by_heavy(item.path)
        )
    )


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def _more_by_heavy(path: Path) -> frozenset[str]:
    """The names of a module that depend on its `HEAVY`, directly or by others; rather too many."""
    body = ast.parse(path.read_bytes()).body
    found: set[str] = set()
    more = {"HEAVY"}
    while found != more:
        found = set(more)
        for node in body:
            if _mentioned(node) & found:
                more |= _bound(node)
    return frozenset(more)


def _mentioned(node: ast.AST) -> set[str]:
    """Names, parameters (which may be fixtures) and words below a node."""
    said: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=word) | ast.arg(arg=word) | ast.Constant(value=str(word)):
                said.add(word)
            case _:
                pass
    return said


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement gives a meaning to, or changes something of."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {word for target in targets for word in _mentioned(target)}
        case ast.AnnAssign(target=target):
            return _mentioned(target)
        case _:
            return _mentioned(node)
