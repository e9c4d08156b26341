"""`python -m tests.fault.kills [--kills N] [--holders N]`: kill -9 under load, and ask again."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fault.crashstates.searching import memory_directory
from tests.fault.kills.holder_process import kill_holders, wake_holders
from tests.fault.kills.ledger import Counts
from tests.fault.kills.sidecar_process import kill_sidecars
from tests.fault.kills.storage_process import kill_forked


def main() -> int:
    """Run the kills. Returns 0 if every answered write is there, and nothing else is."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.kills")
    parser.add_argument("--kills", type=int, default=1_000, help="of a store (default 1000)")
    parser.add_argument("--real", type=int, default=100, help="of `mnemogate run` (default 100)")
    parser.add_argument("--holders", type=int, default=200, help="of a shared store (default 200)")
    parser.add_argument("--wakes", type=int, default=50, help="of its holders (default 50)")
    parser.add_argument("--seed", type=int, default=1, help="for other moments")
    given = parser.parse_args()
    forked = _killed("store", kill_forked, given.kills, given.seed)
    real = _killed("mnemogate run", kill_sidecars, given.real, given.seed)
    holders = _killed("holder of a shared store", kill_holders, given.holders, given.seed)
    with tempfile.TemporaryDirectory(prefix="wakes-", dir=memory_directory()) as directory:
        woken = wake_holders(Path(directory), given.wakes)
    sys.stdout.write(
        f"woken holders: {woken.wakes}, {woken.refused} requests refused, {woken.read} reads and "
        f"{woken.appended} writes answered after a takeover; {len(woken.counts.broken)} problems\n"
    )
    broken = [*forked.broken, *real.broken, *holders.broken, *woken.counts.broken]
    return 1 if broken or woken.read or woken.appended else 0


def _killed(
    name: str,
    kill: Callable[[Path, int, int, Callable[[Counts], None]], Counts],
    kills: int,
    seed: int,
) -> Counts:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-", dir=memory_directory()) as directory:
        counts = kill(Path(directory), kills, seed, _progress(kills))
    sys.stdout.write(
        f"{name}: {counts.kills} kills in {time.monotonic() - started:.0f} s, {counts.answered} "
        f"answers; {counts.in_flight} requests under way when it died, {counts.durable_unanswered} "
        f"of them durable; {len(counts.lost)} lost, {len(counts.ghosts)} ghosts, "
        f"{len(counts.partial)} partial\n"
    )
    for problem in counts.broken[:20]:
        sys.stdout.write(f"  {problem}\n")
    sys.stdout.flush()
    return counts


def _progress(wanted: int) -> Callable[[Counts], None]:
    def told(counts: Counts) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{counts.kills} of {wanted} ")

    return told


if __name__ == "__main__":
    sys.exit(main())
