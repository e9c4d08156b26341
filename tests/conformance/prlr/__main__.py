"""`python -m tests.conformance.prlr [--trials N]`: the leakage rate per API, and its control."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance.prlr.trials import SETUPS, TRIALS, benches, run_trial


def main() -> int:
    """Run all trials; 0 where none leaked, and where all of them do with coupling off."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.prlr")
    parser.add_argument("--trials", type=int, default=TRIALS, help="per API and way (default 150)")
    given = parser.parse_args()
    good = True
    for coupled in (True, False):
        good &= asyncio.run(_table(given.trials, coupled=coupled))
    return 0 if good else 1


async def _table(count: int, *, coupled: bool) -> bool:
    good = True
    print("coupled, as shipped" if coupled else "control: coupling off")  # noqa: T201 - a report
    with tempfile.TemporaryDirectory() as base:
        async with benches(Path(base), coupled=coupled) as bench:
            for api, stream in SETUPS:
                started = time.monotonic()
                trials = [await run_trial(bench, (api, stream), at) for at in range(count)]
                counted = [trial for trial in trials if trial.counts]
                leaking = sum(bool(trial.leaks) for trial in counted)
                good &= len(counted) == count and leaking == (0 if coupled else count)
                way = "streaming" if stream else "whole"
                print(  # noqa: T201 - a report
                    f"  {api:9} {way:9} rejected and observed {len(counted)} of {count}, "
                    f"leaking {leaking} ({time.monotonic() - started:.0f} s)"
                )
    return good


if __name__ == "__main__":
    sys.exit(main())
