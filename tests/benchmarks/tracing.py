"""What tracing costs: off, on with a collector beside it, on with one that never answers."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.bars import BarRow, Lines, at_most
from tests.benchmarks.servers import Server, sidecar
from tests.benchmarks.writes import measured
from tests.integration.otlp_receiver import Received, black_hole, otlp_receiver

CONNECTIONS = 50
ROUNDS = 5
SECONDS = 3.0
_ARRIVED_S = 30.0
_BAR = 1.08


def run() -> Lines:
    """Writes per second of each, in turns, against tracing off."""
    rates: dict[str, list[float]] = {"off": [], "collector": [], "black hole": []}
    tails: dict[str, list[float]] = {"off": [], "collector": [], "black hole": []}
    spent: dict[str, list[float]] = {"off": [], "collector": [], "black hole": []}
    answered = 0
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        received = stack.enter_context(otlp_receiver())
        silent = stack.enter_context(black_hole())
        servers: dict[str, Server] = {
            "off": stack.enter_context(sidecar(base / "off")),
            "collector": stack.enter_context(sidecar(base / "on", collector=received.url)),
            "black hole": stack.enter_context(sidecar(base / "hole", collector=silent)),
        }
        for number in range(ROUNDS + 1):
            for name, server in servers.items():
                result = measured(server, CONNECTIONS, SECONDS if number else 1.0, number + 1)
                if name == "collector":
                    answered += int(result["answered"])
                if number:  # the first round only warms up
                    rates[name].append(result["writes_per_s"])
                    tails[name].append(result["p99_ms"])
                    spent[name].append(result["cpu_us"])
        spans = _arrived(received, answered)
    lines: Lines = ["tracing    | writes/s | against off (min-max of pairs) | p99 ms"]
    for name, rate in rates.items():
        pairs = [one / off for one, off in zip(rate, rates["off"], strict=True)]
        lines.append(
            f"{name:10s} | {statistics.median(rate):8.0f} | {statistics.median(pairs):.2f} "
            f"({min(pairs):.2f}-{max(pairs):.2f}) | {statistics.median(tails[name]):6.2f}"
        )
    lines.append(f"verdicts answered {answered}, root spans at the collector {spans} (bar: equal)")
    ratios = [on / off for on, off in zip(spent["collector"], spent["off"], strict=True)]
    middle = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return [*lines, BarRow("CPU per write, tracing on / off", middle, at_most(_BAR))]


def _arrived(received: Received, expected: int) -> int:
    """Root spans, once they are all there or no more come."""
    deadline = time.monotonic() + _ARRIVED_S
    spans = 0
    while time.monotonic() < deadline:
        # A child's parent is a span of ours; a write without a caller's context has no parent.
        spans = sum(not span.parent_span_id for span in received.spans)
        if spans >= expected:
            break
        time.sleep(0.5)
    return spans
