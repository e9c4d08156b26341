"""Processor time of two commands: one that asks nobody, and one that asks a running sidecar."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.bars import BarRow, Lines, at_most
from tests.benchmarks.servers import ROOT, sidecar

RUNS: Final = 9
_VERSION: Final = ("--version",)
_LIST: Final = ("review", "list", "--state")
_VERSION_BAR_S: Final = 0.08
_LIST_BAR_S: Final = 0.25


def run() -> Lines:
    """The median of each, after one run that warms the caches of files."""
    with tempfile.TemporaryDirectory() as scratch, sidecar(base := Path(scratch)):
        version = _spent_s(base, *_VERSION)
        listed = _spent_s(base, *_LIST, str(base / "state"))
    return [
        BarRow("CPU of --version", f"{version:.3f} s", at_most(_VERSION_BAR_S, " s")),
        BarRow("CPU of review list", f"{listed:.3f} s", at_most(_LIST_BAR_S, " s")),
    ]


def _spent_s(home: Path, *words: str) -> float:
    command = [sys.executable, "-P", "-m", "proxy", *words]
    environment = {"HOME": str(home), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    return statistics.median([_once(command, environment) for _ in range(RUNS + 1)][1:])


def _once(command: list[str], environment: dict[str, str]) -> float:
    started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{command} failed")
    return used.ru_utime + used.ru_stime
