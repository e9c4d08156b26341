"""`python -m tests.fault.syscalls [--every N] [--offset K]`: the sweep, under the shim."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from tests.fault.crashstates.searching import memory_directory
from tests.fault.syscalls.preloading import build, missing, run
from tests.fault.syscalls.sweeping import Sweep, Swept

_SHOWN: Final = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.syscalls")
    parser.add_argument("--every", type=int, default=1, help="only every N-th case")
    parser.add_argument("--offset", type=int, default=0, help="start at this case")
    parser.add_argument("--only", default="", help="only cases whose name starts so")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        _inside(Path(given.inside), given.every, given.offset, given.only)
        return 0
    if reason := missing():
        sys.stderr.write(f"{reason}\n")
        return 2
    started = time.monotonic()
    swept = sweep(given.every, given.offset, given.only)
    if given.json:
        sys.stdout.write(msgspec.json.encode(swept).decode() + "\n")
    else:
        _show(swept, time.monotonic() - started)
    return 1 if swept.findings else 0


def sweep(every: int, offset: int = 0, only: str = "") -> Swept:
    """The result of a sweep in a process under the shim."""
    with tempfile.TemporaryDirectory(prefix="sweep-", dir=memory_directory()) as directory:
        base = Path(directory)
        which = ("--every", str(every), "--offset", str(offset), "--only", only)
        done = run(build(base), "tests.fault.syscalls", "--inside", directory, *which)
        if done.returncode != 0:
            raise RuntimeError(f"the sweep failed: {done.stderr[-2_000:]}")
        return msgspec.json.decode((base / "swept.json").read_bytes(), type=Swept)


def _inside(base: Path, every: int, offset: int, only: str) -> None:
    swept = Sweep(base)
    named = (case for case in swept.cases() if str(case).startswith(only))
    found = swept.sweep(itertools.islice(named, offset, None, every))
    (base / "swept.json").write_bytes(msgspec.json.encode(found))


def _show(swept: Swept, seconds: float) -> None:
    calls = ", ".join(f"{count} {name.lower()}" for name, count in swept.calls.items())
    told = ", ".join(f"{count} {name}" for name, count in sorted(swept.told.items()))
    sys.stdout.write(
        f"{swept.cases} cases over {calls} in {seconds:.0f} s; the store said: {told}; "
        f"{len(swept.findings)} promises broken\n"
    )
    for one in swept.findings[:_SHOWN]:
        sys.stdout.write(f"  {one.case}: {one.problem}\n")


if __name__ == "__main__":
    sys.exit(main())
