"""Processor time of a write of 4,000 characters against one of 300, in turns on one sidecar."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.bars import BarRow, Lines, at_most
from tests.benchmarks.servers import Server, sidecar
from tests.benchmarks.writes import measured

SHORT: Final = 300
LONG: Final = 4_000
WRITERS: Final = 10
PAIRS: Final = 10
SECONDS: Final = 1.0
_BAR: Final = 3


def run() -> Lines:
    """The medians of both, and of the ratio of each pair."""
    with tempfile.TemporaryDirectory() as scratch, sidecar(Path(scratch)) as server:
        pairs = [_pair(server, number) for number in range(PAIRS + 1)][1:]  # the first warms up
    short, long = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
    ratio = statistics.median(pair[1] / pair[0] for pair in pairs)
    name = f"CPU of a write of {LONG:,} characters against one of {SHORT}"
    return [
        f"{WRITERS} writers, {PAIRS} pairs: {short:.0f} us, {long:.0f} us",
        BarRow(name, f"{ratio:.1f}", at_most(_BAR)),
    ]


def _pair(server: Server, number: int) -> tuple[float, float]:
    taken: dict[int, float] = {}
    for length in (SHORT, LONG) if number % 2 else (LONG, SHORT):
        taken[length] = measured(server, WRITERS, SECONDS, number + 1, length)["cpu_us"]
    return taken[SHORT], taken[LONG]
