"""The full suite does not repeat what the quick suite has just shown for the same files.

`make test` notes which tests passed and a digest of every file they could depend on. `make
test-full` skips those tests, with a reason, while the digest is still the same. Tests that do more
when `MNEMOGATE_HEAVY` is set (heavy ones, drawn examples, modules that read `HEAVY`) run again. Any
changed byte, another interpreter or another set of corpora, and everything runs.
`MNEMOGATE_REPEAT=1` runs everything in any case.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

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


class PassedBefore:
    """Notes what passed, in the quick suite; skips it, in the full one.

    With pytest-xdist one of these lives in the main process, where reports arrive, and one in each
    worker, where tests are collected. The environment tells the workers what the main one found.
    """

    def __init__(self, config: pytest.Config, *, heavy: bool) -> None:
        self._config = config
        self._heavy = heavy
        self._passed: set[str] = set()
        self._bad: set[str] = set()
        self._digest: str | None = None
        if hasattr(config, "workerinput"):
            return
        os.environ.pop(SAME_FILES, None)
        if _is_a_part(config):
            return
        self._digest = digest_of(ROOT, os.environ.get("MNEMOGATE_CORPORA"))
        noted = self._noted()
        wanted = os.environ.get("MNEMOGATE_REPEAT") != "1"
        if heavy and wanted and noted is not None and noted.digest == self._digest:
            os.environ[SAME_FILES] = "1"

    def _noted(self) -> _Note | None:
        written: object = self._config.cache.get(NOTE, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        try:
            return msgspec.convert(written, _Note)
        except msgspec.ValidationError:
            return None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what passed before, where it would do the same again."""
        if not self._heavy or os.environ.get(SAME_FILES) != "1":
            return
        noted = self._noted()
        passed = frozenset[str]() if noted is None else noted.passed
        for item in items:
            if item.nodeid in passed and not does_more(item):
                item.add_marker(pytest.mark.skip(reason=REASON))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test only if its call passed and neither its setup nor its teardown failed."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._bad.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the note after a whole and green quick run; files changed meanwhile: none."""
        if self._digest is None or self._heavy or exitstatus != 0:
            return
        if self._digest != digest_of(ROOT, os.environ.get("MNEMOGATE_CORPORA")):
            return
        passed = sorted(self._passed - self._bad)
        self._config.cache.set(NOTE, {"digest": self._digest, "passed": passed})


def _is_a_part(config: pytest.Config) -> bool:
    """Whether the command names paths or picks tests: it says nothing about the whole."""
    option = config.option
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    return named or bool(option.keyword or option.markexpr or getattr(option, "lf", False))


def does_more(item: pytest.Item) -> bool:
    """Whether a test does more in the full suite than in the quick one."""
    module = getattr(item, "module", None)
    test = getattr(item, "obj", None)
    return (
        hasattr(module, "HEAVY")
        or item.get_closest_marker("heavy") is not None
        or bool(getattr(test, "is_hypothesis_test", False))
    )
