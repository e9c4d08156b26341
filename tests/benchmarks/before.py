"""This tree against another checkout of it, in turns: writes, a first byte, an MCP call.

`python -P -m tests.benchmarks.before DIR`: DIR is a checkout whose dependencies this interpreter
has; with `--now DIR` that one is compared, so that one change is seen alone. Both sidecars serve
at once. Writes, and with `--only turns` model requests with a history of 200 turns, are processor
time of all threads, in pairs of which now one and now the other comes first; with `--anchors N`
so many statements are registered. `--only first-byte` and `--only mcp` are milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks import mcp, model, stall
from tests.benchmarks.model import ROOT
from tests.benchmarks.servers import Server, put_anchors, sidecar
from tests.benchmarks.writes import measured, spent_ns

PAIRS: Final = 10
WRITERS: Final = 10
REQUESTS: Final = 120
_CHOICES: Final = ("stall", "writes", "turns", "first-byte", "mcp")


class Compared(NamedTuple):
    before: Path
    now: Path = ROOT
    pairs: int = PAIRS
    anchors: int = 0


def writes(compared: Compared, *, writers: int = WRITERS, seconds: float = 3.0) -> list[str]:
    """Medians of processor time of all threads and of writes a second, and the ratios of pairs."""

    def once(server: Server, number: int) -> dict[str, float]:
        return measured(server, writers, seconds, number)

    with tempfile.TemporaryDirectory() as scratch:
        figures = _figures(compared, Path(scratch), once)
    lines = [f"{writers} writers, {compared.pairs} pairs of {seconds:g} s, {_anchors(compared)}"]
    lines.append(_line(figures, "cpu_us", "CPU per write, us"))
    lines.append(_line(figures, "writes_per_s", "writes/s"))
    return lines


def turns(compared: Compared, *, requests: int = REQUESTS) -> list[str]:
    """Medians of processor time per request with the longest history, and the ratios of pairs."""
    longest = max(model.HISTORIES)

    def once(server: Server, number: int) -> dict[str, float]:
        # Bodies are made before, and the client's own time is not the sidecar's.
        bodies = list(itertools.islice(model.conversation(longest, f"{number}"), requests))
        began_ns = spent_ns(server.process.pid)
        with model.Client(server.port, "/anthropic/v1/messages", server.key) as client:
            for body in bodies:
                client.ask(body)
        return {"cpu_us": (spent_ns(server.process.pid) - began_ns) / requests / 1e3}

    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = base / "mnemogate.toml"
        config.write_text(model.table(model.upstream(stack)))
        figures = _figures(compared, base, once, "--config", str(config))
    head = f"{requests} requests of {longest} turns, {compared.pairs} pairs, {_anchors(compared)}"
    return [head, _line(figures, "cpu_us", "CPU per request, us")]


def _anchors(compared: Compared) -> str:
    return f"{compared.anchors} anchors"


def _figures(
    compared: Compared, base: Path, once: Callable[[Server, int], dict[str, float]], *flags: str
) -> dict[str, list[dict[str, float]]]:
    figures: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    roots = {"before": compared.before.resolve(), "now": compared.now.resolve()}
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(sidecar(base / name, *flags, root=root))
            for name, root in roots.items()
        }
        for name, root in roots.items():
            put_anchors(base / name, compared.anchors, root)
        for number in range(-1, compared.pairs):  # the first pair warms both up
            for name in roots if number % 2 else reversed(roots):
                seen = once(servers[name], number + 2)
                if number >= 0:
                    figures[name].append(seen)
    return figures


def _line(figures: dict[str, list[dict[str, float]]], figure: str, called: str) -> str:
    then, now = ([one[figure] for one in figures[name]] for name in ("before", "now"))
    ratios = [second / first for first, second in zip(then, now, strict=True)]
    quarters = statistics.quantiles(ratios, n=4)
    return (
        f"{called}: before {statistics.median(then):.0f}, now {statistics.median(now):.0f}, "
        f"ratio {quarters[1]:.3f} ({min(ratios):.3f}-{max(ratios):.3f}, "
        f"quartiles {quarters[0]:.3f} and {quarters[2]:.3f})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -P -m tests.benchmarks.before")
    parser.add_argument("before", type=Path, help="another checkout")
    parser.add_argument("--now", type=Path, default=ROOT, help="writes, turns: not this tree")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--writers", type=int, default=WRITERS)
    parser.add_argument("--anchors", type=int, default=0, help="writes, turns")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", choices=_CHOICES, default="writes")
    options = parser.parse_args()
    before = options.before.resolve()
    compared = Compared(before, options.now, options.pairs, options.anchors)
    match options.only:
        case "first-byte":
            lines = model.against(before)
        case "mcp":
            lines = mcp.against(before)
        case "stall":
            lines = stall.against(before)
        case "turns":
            lines = turns(compared)
        case _:
            lines = writes(compared, writers=options.writers, seconds=options.seconds)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
