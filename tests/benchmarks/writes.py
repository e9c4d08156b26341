"""Durable gated writes per second over HTTP, as a share of the bare baseline in the same run."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.bars import BarRow, Lines
from tests.benchmarks.load import CHARACTERS
from tests.benchmarks.servers import Server, bare, load, sidecar

WRITERS = (1, 10, 50, 200)
_AIMS = {1: 0.39, 10: 0.25, 50: 0.30, 200: 0.22}
ROUNDS = 3
_HEAD = (
    "writers | bare/s | gated/s | ratio (min-max of pairs) | aim | p50 ms | p99 ms | bare p50 ms | "
    "median/slowest writer | CPU us per write (bare)"
)


def run(seconds: float = 3.0) -> Lines:
    """A table: per number of writers both rates, their ratio pair by pair, and p99."""
    lines: Lines = [_HEAD]
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        with bare(base / "bare") as plain, sidecar(base / "gated") as gated:
            for seed, writers in enumerate(WRITERS):
                lines += _rows(plain, gated, writers, seconds, seed)
        size = (base / "gated" / "state" / "store" / "data.mdb").stat().st_size
        lines.append(f"data.mdb after all runs: {size / 1e6:.1f} MB")
    return lines


def _rows(plain: Server, gated: Server, writers: int, seconds: float, seed: int) -> Lines:
    pairs = [
        (
            measured(plain, writers, seconds, 10 * seed + number + 1),
            measured(gated, writers, seconds, 10 * seed + number + 1),
        )
        for number in range(ROUNDS)
    ]
    ratios = [ours["writes_per_s"] / theirs["writes_per_s"] for theirs, ours in pairs]

    def median(side: int, figure: str) -> float:
        return statistics.median(pair[side][figure] for pair in pairs)

    share = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    line = (
        f"{writers:7d} | {median(0, 'writes_per_s'):6.0f} | {median(1, 'writes_per_s'):7.0f} | "
        f"{share} | "
        f"{_AIMS[writers]} | "
        f"{median(1, 'p50_ms'):6.2f} | {median(1, 'p99_ms'):6.2f} | {median(0, 'p50_ms'):6.2f} | "
        f"{median(1, 'median_to_slowest'):.2f} | "
        f"{median(1, 'cpu_us'):.0f} ({median(0, 'cpu_us'):.0f})"
    )
    tail = f"{median(1, 'p99_ms') / median(0, 'p50_ms'):.0f}"
    return [
        line,
        BarRow(f"gated / bare, {writers} writers", share, f"stated; aim {_AIMS[writers]}"),
        BarRow(f"p99 against bare's p50, {writers} writers", tail, "stated"),
    ]


def measured(
    server: Server, writers: int, seconds: float, seed: int, characters: int = CHARACTERS
) -> dict[str, float]:
    """What the load saw, and the processor time per write, which busy neighbours move less."""
    before_ns = spent_ns(server.process.pid)
    seen = load(server, writers, seconds, seed, characters)
    seen["cpu_us"] = (spent_ns(server.process.pid) - before_ns) / seen["answered"] / 1e3
    return seen


def spent_ns(pid: int) -> int:
    """Processor time of all threads; a thread that ended takes its share with it."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += int((task / "schedstat").read_text().split()[0])
    return total
