"""A copy of the project that has one of the samples in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.mutants.running import Copy


def moved(copy: Copy, source: Path, target: str, renamed: Mapping[str, str]) -> None:
    """Put a file of a sample in its place, where its imports name that place."""
    text = source.read_text("utf-8")
    for old, new in renamed.items():
        text = text.replace(old, new)
    path = copy.place / target
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def edit(copy: Copy, file: str, changes: Iterable[tuple[str, str]]) -> None:
    """Replace what is there exactly once."""
    path = copy.place / file
    text = path.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) == 1, (file, old)
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


def failed_tests(said: str) -> set[str]:
    """The tests that failed in a run."""
    return {line.split(" ")[1] for line in said.splitlines() if line.startswith("FAILED ")}


def contracts(place: Path) -> tuple[int, str]:
    """Exit status and output of the import contracts over a copy."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=place,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
