"""A second gate in a process of its own: `python -m tests.fault.two_gates DIRECTORY COUNT`.

It writes as many memories as it is told to, and prints what became of each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.storage.opening import Bench, say


def beside(root: Path, count: int) -> list[str]:
    """The answers to a second gate's writes to the same state."""
    command = [sys.executable, "-m", "tests.fault.two_gates", str(root), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.split() or [done.stderr.strip().rpartition("\n")[2]]


def main(root: str, count: str) -> None:
    bench = Bench(Path(root))
    store = bench.open()
    for number in range(int(count)):
        outcome = say(store, f"The second gate wrote number {number}.")
        sys.stdout.write(f"{type(outcome).__name__}:{outcome.version}\n")
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
