"""The calls of our own functions for one request, which no load moves, as `make figures` counts."""

from __future__ import annotations

from tests.benchmarks.bars import BarRow, Lines
from tests.figures.path import BARS, paths


def run() -> Lines:
    """A line for each kind of request."""
    return [
        BarRow(f"own functions of a {kind} (files)", f"{path.calls} ({path.files})", BARS[kind])
        for kind, path in paths().items()
        if kind in BARS
    ]
