"""Processor time of a write against two older trees of the git history, in turns in one run."""

from __future__ import annotations

import io
import statistics
import subprocess
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.benchmarks.bars import BarRow, Lines, at_most
from tests.benchmarks.servers import ROOT, sidecar
from tests.benchmarks.writes import measured

TREES: Final = {
    "7675be2a": ("the first that stages every candidate in LMDB", 0.95),
    "540899b": ("which staged in a dictionary", 1.2),
}
WRITERS: Final = (1, 10, 50)
PAIRS: Final = 10
SECONDS: Final = 1.5


def run() -> Lines:
    """The ratios of this tree to each, with their quartiles."""
    lines: Lines = []
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        base = Path(scratch)
        found = {name: tree for name in TREES if (tree := _checked_out(name, base)) is not None}
        lines += [f"{name}: not in the git history here" for name in TREES.keys() - found.keys()]
        servers = {
            name: stack.enter_context(sidecar(base / f"at-{name}", root=root))
            for name, root in {"now": ROOT, **found}.items()
        }
        for writers in WRITERS:
            taken = {name: [0.0] * PAIRS for name in servers}
            for number in range(-1, PAIRS):  # the first turn warms all of them up
                for name in servers if number % 2 else reversed(servers):
                    spent = measured(servers[name], writers, SECONDS, number + 2)["cpu_us"]
                    taken[name][max(number, 0)] = spent
            lines += [_row(name, writers, taken) for name in found]
    return lines


def _row(name: str, writers: int, taken: dict[str, list[float]]) -> BarRow:
    ratios = [now / then for now, then in zip(taken["now"], taken[name], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    what, bar = TREES[name]
    return BarRow(
        f"CPU per write at {writers}, against {name} ({what})",
        f"{middle:.2f} ({low:.2f}-{high:.2f})",
        at_most(bar),
    )


def _checked_out(name: str, base: Path) -> Path | None:
    """The files of that commit; None where the history does not reach so far."""
    made = subprocess.run(
        ["git", "archive", "--format=tar", name], cwd=ROOT, check=False, capture_output=True
    )
    if made.returncode:
        return None
    place = base / name
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(place, filter="data")
    return place
