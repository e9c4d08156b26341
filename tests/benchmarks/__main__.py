"""`make bench`: the figures, as ratios measured in one run."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from tests.benchmarks import (
    after,
    anchors,
    backends,
    bars,
    budget,
    calls,
    commands,
    console,
    held,
    keys,
    lengths,
    mcp,
    model,
    neighbours,
    older,
    paths,
    search,
    search_quality,
    shard,
    stall,
    startup,
    takeover,
    tracing,
    views,
    writes,
)
from tests.benchmarks.bars import BarRow
from tests.benchmarks.floor import fdatasync_floor
from tests.benchmarks.guards import table as guards

_BENCHES: dict[str, tuple[str, Callable[[], Sequence[str | BarRow]]]] = {
    "anchors": ("a text against a hundred anchors: indexed, and one by one", anchors.run),
    "after": ("the recall ledger on against off, and a thousand hidden in one act", after.run),
    "writes": ("durable gated writes over HTTP against the bare baseline", writes.run),
    "calls": ("calls of Python and C functions of a write", calls.run),
    "budget": ("calls and processor time of a write, by stage", budget.run),
    "paths": ("calls of our own functions for a request", paths.run),
    "lengths": ("a write of 4,000 characters against one of 300", lengths.run),
    "older": ("processor time of a write against two older trees", older.run),
    "commands": ("processor time of two commands", commands.run),
    "tracing": ("tracing on against off, and no verdict without its span", tracing.run),
    "search": ("search, exact and approximate, with what quarantine costs", search.run),
    "search-quality": ("search by words too against vectors alone", search_quality.run),
    "views": ("what likeness finds of a lie, and what an operator's views cost", views.run),
    "mcp": ("what the MCP wrapper adds to a call", mcp.run),
    "backends": ("what the gate adds in front of real memory servers", backends.run),
    "model": ("what the model front adds to the first streamed byte", model.run),
    "stall": ("how long others wait while the costliest bodies are judged", stall.run),
    "held": ("ten thousand that wait: the list, and a thousand refused in one act", held.run),
    "console": ("Review where ten thousand wait, and Now fed a thousand a second", console.run),
    "keys": ("ten thousand keys: how long each act on one holds the event loop", keys.run),
    "shard": ("a journal in PostgreSQL against a bare insert and an own store", shard.run),
    "takeover": ("a takeover of a shard, by a standby and from nothing", takeover.run),
    "startup": ("start-up, disk and memory at 100,000 memories", startup.run),
    "neighbours": ("Chroma and SuperLocalMemory on the same work", neighbours.run),
    "guards": ("five other guards: the same attacks, the same counting", guards.run),
}
_HEAVY = frozenset(
    {
        "after",
        "backends",
        "older",
        "search-quality",
        "neighbours",
        "guards",
        "held",
        "keys",
        "views",
        "console",
        "shard",
        "takeover",
    }
)


def sections() -> str:
    """Every table there is, and which of them a run without arguments leaves out."""
    lines = ["tables (--only NAME):"]
    for name, (title, _) in _BENCHES.items():
        heavy = " [heavy: only when named]" if name in _HEAVY else ""
        lines.append(f"  {name:16s}{title}{heavy}")
    return "\n".join(lines)


def arguments() -> argparse.ArgumentParser:
    """What `make bench ARGS='...'` takes; `--help` lists every table."""
    parser = argparse.ArgumentParser(
        prog="make bench",
        description=__doc__,
        epilog=sections(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(_BENCHES),
        default=[],
        metavar="NAME",
        help="one table; may be given again (default: all that are not heavy)",
    )
    parser.add_argument(
        "--with-neighbours", action="store_true", help="the default run, and `neighbours`"
    )
    parser.add_argument(
        "--bars",
        action="store_true",
        help="the tables that hold a figure against a bar, and all of these at the end",
    )
    parser.add_argument(
        "--feed-s",
        type=float,
        default=console.FEED_S,
        metavar="SECONDS",
        help="how long `console` feeds the page Now (default: %(default)g)",
    )
    return parser


def main() -> int:
    """Run what was asked for and print one table each."""
    options = arguments().parse_args()
    chosen = (
        options.only
        or [*bars.TABLES] * options.bars
        or [
            name
            for name in _BENCHES
            if name not in _HEAVY or (options.with_neighbours and name == "neighbours")
        ]
    )
    _say(_machine())
    rows: list[BarRow] = []
    failed = 0
    for name in chosen:
        title, run = _BENCHES[name]
        if name == "console":
            run = partial(console.run, options.feed_s)
        load = os.getloadavg()[0]
        _say(f"\n== {name}: {title} (load {load:.1f} when it began)")
        _say(f"   make bench ARGS='--only {name}'")
        started = time.monotonic()
        try:
            lines = run()
        except bars.FAILURES as failure:
            lines = [bars.not_measured(name, failure)]
            failed = 1
        for line in lines:
            _say(str(line))
        rows += [line for line in lines if isinstance(line, BarRow)]
        _say(f"   {time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f}")
    if options.bars:
        _say(f"\n{bars.table(rows)}")
    return failed


def _machine() -> str:
    floor = fdatasync_floor()
    return (
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load "
        f"{' '.join(f'{one:.1f}' for one in os.getloadavg())}; pwrite 4 KiB + fdatasync: "
        f"p50 {floor[0]:.0f} us, p99 {floor[1]:.0f} us. Read the ratios."
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
