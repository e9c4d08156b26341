"""Puts a mutant into a copy of the project and runs the tests that are bound to it there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.mutants.addressed import Misplaced, mutated
from tests.mutants.mutant import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("policy", "proxy", "storage", "telemetry")
_COPIED: Final = (*PACKAGES, "tests", "pyproject.toml", "docs", "README.md", "CHANGELOG.md")
_FAILED, _PASSED = 1, 0
# A test that hangs is ended, and fails, by its own limit (pyproject.toml). These are for the rest.
_START_S: Final = 300
_EACH_S: Final = 3


class Copy:
    """A copy of the project in a directory of its own. One at a time may be mutated."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                # With what is compiled of it, which is true of files of the same time and size: a
                # run compiles nothing but what was mutated.
                shutil.copytree(source, place / name)
            else:
                shutil.copy2(source, place / name)

    @contextmanager
    def holding(self, mutant: Mutant) -> Generator[None]:
        """The copy with the mutant in it.

        Raises:
            Misplaced: What it replaces is not there exactly once.
        """
        clean = (self.place / mutant.file).read_text("utf-8")
        text = mutated(clean, mutant)
        with self.text_of(mutant.file, text):
            yield

    @contextmanager
    def text_of(self, file: str, text: str) -> Generator[None]:
        """The copy with another text in one file."""
        path = self.place / file
        clean = path.read_text("utf-8")
        before = path.stat()
        path.write_text(text, "utf-8")
        # No other version of it is of this time, or what is compiled of that would be run.
        os.utime(path, (before.st_atime, before.st_mtime + 1))
        try:
            yield
        finally:
            path.write_text(clean, "utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def passes(self, tests: Sequence[str]) -> bool:
        """Whether all of the tests pass here; the first that fails ends the run.

        Raises:
            Misplaced: They cannot be collected, or none was found.
        """
        code, said = self.run(tests)
        if code not in {_PASSED, _FAILED}:
            raise Misplaced(f"pytest ended with {code}: {said[-2_000:]}")
        return code == _PASSED

    def run(self, tests: Sequence[str], limit_s: float | None = None) -> tuple[int, str]:
        """Exit status and output of pytest over some tests, with the copy's packages.

        Raises:
            Misplaced: They did not end in time: on a busy machine that says nothing of a mutant.
        """
        limit_s = _START_S + _EACH_S * len(tests) if limit_s is None else limit_s
        environment = {
            "HOME": os.environ.get("HOME", "/"),
            "PATH": os.environ.get("PATH", ""),
            # Before the installed packages: what is imported is the copy.
            "PYTHONPATH": str(self.place),
            # A file of the same size, written in the same second, must not be taken for the old.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
        try:
            done = subprocess.run(
                command,
                cwd=self.place,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise Misplaced(f"no verdict of {len(tests)} tests within {limit_s:.0f} s") from None
        return done.returncode, done.stdout + done.stderr
