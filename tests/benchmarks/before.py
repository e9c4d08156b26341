"""This tree against another checkout of it, in turns: writes, a first byte, an MCP call.

`python -P -m tests.benchmarks.before DIR`: DIR is a checkout whose dependencies this interpreter
has; with `--now DIR` writes of that one are compared, so that one change is seen alone. Both
sidecars serve at once. Writes are processor time of all threads and writes a second, in pairs of
which now one and now the other comes first; `--only first-byte` and `--only mcp` are milliseconds,
and `--only store` is processor time of a call of store mode.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks import mcp, model, stall, store_graph
from tests.benchmarks.model import ROOT
from tests.benchmarks.servers import sidecar
from tests.benchmarks.writes import measured

PAIRS: Final = 10
WRITERS: Final = 10
_CHOICES: Final = ("stall", "writes", "first-byte", "mcp", "store")


def run(
    before: Path,
    current: Path = ROOT,
    *,
    writers: int = WRITERS,
    pairs: int = PAIRS,
    seconds: float = 3.0,
) -> list[str]:
    """Medians of processor time of all threads and of writes a second, and the ratios of pairs."""
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        with (
            sidecar(base / "before", root=before.resolve()) as old,
            sidecar(base / "now", root=current.resolve()) as new,
        ):
            figures: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
            for number in range(-1, pairs):  # the first pair warms both up
                turns = [("before", old), ("now", new)]
                for name, server in turns if number % 2 else reversed(turns):
                    seen = measured(server, writers, seconds, number + 2)
                    if number >= 0:
                        figures[name].append(seen)
    lines = [f"{writers} writers, {pairs} pairs of {seconds:g} s"]
    for figure, called in (
        ("cpu_us", "CPU per write, us"),
        ("writes_per_s", "writes/s"),
    ):
        then, now = ([one[figure] for one in figures[name]] for name in ("before", "now"))
        ratios = [second / first for first, second in zip(then, now, strict=True)]
        quarters = statistics.quantiles(ratios, n=4)
        lines.append(
            f"{called}: before {statistics.median(then):.0f}, now {statistics.median(now):.0f}, "
            f"ratio {quarters[1]:.3f} ({min(ratios):.3f}-{max(ratios):.3f}, "
            f"quartiles {quarters[0]:.3f} and {quarters[2]:.3f})"
        )
    return lines


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -P -m tests.benchmarks.before")
    parser.add_argument("before", type=Path, help="another checkout")
    parser.add_argument("--now", type=Path, default=ROOT, help="writes: instead of this tree")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--writers", type=int, default=WRITERS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", choices=_CHOICES, default="writes")
    options = parser.parse_args()
    before = options.before.resolve()
    match options.only:
        case "first-byte":
            lines = model.against(before)
        case "mcp":
            lines = mcp.against(before)
        case "store":
            lines = store_graph.against(before)
        case "stall":
            lines = stall.against(before)
        case _:
            lines = run(
                before,
                options.now,
                writers=options.writers,
                pairs=options.pairs,
                seconds=options.seconds,
            )
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
