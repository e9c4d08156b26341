"""How many calls of Python and C functions a native write costs, which no load of a machine moves.

A sidecar runs with a profile in each of its threads. The calls between two readings, divided by
the writes that were answered meanwhile, are those of a write and of what is done beside it.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.bars import BarRow, Lines, at_most
from tests.benchmarks.servers import HERE, Server, load, sidecar

CONNECTIONS: Final = 20
SECONDS: Final = 3.0
_BAR: Final = 1_200
_WITHIN_S: Final = 20.0


class Spent(NamedTuple):
    """Calls, and seconds of processor time."""

    calls: float = 0
    seconds: float = 0

    def less(self, before: Spent, writes: float) -> Spent:
        """What was spent since then for each write."""
        return Spent((self.calls - before.calls) / writes, (self.seconds - before.seconds) / writes)


def run() -> Lines:
    """The calls of a write by thread."""
    found = per_write()
    by_thread = {thread: sum(one.calls for one in each.values()) for thread, each in found.items()}
    lines: Lines = [f"calls of a write, Python and C, {CONNECTIONS} connections"]
    lines += [f"{thread:24s} {count:7.0f}" for thread, count in by_thread.items() if count >= 1]
    both = by_thread["MainThread"] + by_thread["mnemogate-writer"]
    name = f"Python and C calls of a native write, loop and writer, {CONNECTIONS} connections"
    return [*lines, BarRow(name, f"{both:,.0f}", at_most(_BAR))]


def per_write() -> dict[str, dict[str, Spent]]:
    """What each function takes for one write, by thread."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        counts = base / "counts.json"
        runner = (sys.executable, "-P", str(HERE / "counted.py"), str(counts))
        with sidecar(base, runner=runner) as server:
            load(server, CONNECTIONS, 1.0, 1)
            before = _read(server, counts)
            answered = load(server, CONNECTIONS, SECONDS, 2)["answered"]
            after = _read(server, counts)
    return {
        thread: {
            name: one.less(before.get(thread, {}).get(name, Spent()), answered)
            for name, one in each.items()
        }
        for thread, each in after.items()
    }


def _read(server: Server, counts: Path) -> dict[str, dict[str, Spent]]:
    counts.unlink(missing_ok=True)
    server.process.send_signal(signal.SIGUSR1)
    until = time.monotonic() + _WITHIN_S
    while not counts.exists():
        if time.monotonic() > until:
            raise RuntimeError("the sidecar wrote no counts")
        time.sleep(0.05)
    found: dict[str, dict[str, tuple[int, float]]] = json.loads(counts.read_text("utf-8"))
    return {
        thread: {name: Spent(*one) for name, one in each.items()} for thread, each in found.items()
    }
