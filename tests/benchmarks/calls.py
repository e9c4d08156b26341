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
from typing import Final

from tests.benchmarks.servers import HERE, Server, load, sidecar

CONNECTIONS: Final = 20
SECONDS: Final = 3.0
_BAR: Final = 1_200
_WITHIN_S: Final = 20.0


def run() -> list[str]:
    """The calls of a write by thread."""
    found = per_write()
    by_thread = {thread: sum(calls.values()) for thread, calls in found.items()}
    lines = ["calls of a write, Python and C, 20 connections"]
    lines += [f"{thread:24s} {count:7.0f}" for thread, count in by_thread.items() if count >= 1]
    both = by_thread["MainThread"] + by_thread["mnemogate-writer"]
    return [*lines, f"{'loop and writer':24s} {both:7.0f} (bar: {_BAR})"]


def per_write() -> dict[str, dict[str, float]]:
    """The calls of each function for one write, by thread."""
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
            name: (count - before.get(thread, {}).get(name, 0)) / answered
            for name, count in calls.items()
        }
        for thread, calls in after.items()
    }


def _read(server: Server, counts: Path) -> dict[str, dict[str, int]]:
    counts.unlink(missing_ok=True)
    server.process.send_signal(signal.SIGUSR1)
    until = time.monotonic() + _WITHIN_S
    while not counts.exists():
        if time.monotonic() > until:
            raise RuntimeError("the sidecar wrote no counts")
        time.sleep(0.05)
    found: dict[str, dict[str, int]] = json.loads(counts.read_text("utf-8"))
    return found
