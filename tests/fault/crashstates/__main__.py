"""`python -m tests.fault.crashstates [--states N] [--seed N] [--controls] [--json]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.fault.crashstates.planting import BUGS
from tests.fault.crashstates.recording import missing
from tests.fault.crashstates.searching import Result, memory_directory, recorded, search

_SHOWN: Final = 10


def main() -> int:
    """Search; 0 where the store kept every promise and every planted bug was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.crashstates")
    parser.add_argument("--states", type=int, default=5_000, help="about how many (default 5000)")
    parser.add_argument("--seed", type=int, default=1, help="for another choice of states")
    parser.add_argument(
        "--controls", type=int, default=600, help="states per planted bug; 0 leaves them out"
    )
    given = parser.parse_args()
    if reason := missing():
        sys.stderr.write(f"{reason}\n")
        return 2
    found = _enough(given.states, given.seed)
    if given.controls:
        for bug in BUGS:
            control = _search(f"planted: {bug}", bug, given.controls, given.seed)
            found = found and control.broken_states > 0
    return 0 if found else 1


def _enough(states: int, seed: int) -> bool:
    """Search one recorded life after another: each has other ids and keys, and only so many states.

    True where none of them broke a promise.
    """
    found, broken, lives = 0, 0, 0
    while found < states:
        life = _search("the store as it is", "", states - found, seed + lives)
        found, broken, lives = found + life.states, broken + life.broken_states, lives + 1
        if not life.states:
            break
    sys.stdout.write(f"{lives} lives, {found} states, {broken} of them broken\n")
    return found >= states and not broken


def _search(name: str, bug: str, states: int, seed: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory_directory()) as directory:
        run = recorded(Path(directory), bug)
        result = search(run, states, seed, _progress(states))
    sys.stdout.write(
        f"{name}: {result.operations} operations, {result.states} states in "
        f"{result.seconds:.0f} s ({result.states / max(result.seconds, 0.001):.0f}/s), "
        f"{result.broken_states} of them broken\n"
    )
    for kind, count in result.kinds().most_common(_SHOWN):
        sys.stdout.write(f"  {count} x {kind}\n")
    if not bug:
        for one in result.violations[:_SHOWN]:
            sys.stdout.write(f"  after operation {one.boundary} ({one.choice}): {one.problem}\n")
    sys.stdout.flush()
    return result


def _progress(wanted: int) -> Callable[[Result], None]:
    def told(result: Result) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{result.states} of about {wanted}, {result.broken_states} broken ")

    return told


if __name__ == "__main__":
    sys.exit(main())
