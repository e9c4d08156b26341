"""Tries every mutant against its tests: `python -m tests.mutants [--only NAME] [--list]`.

Exit status 1 if one survives, if the clean code fails, or if a mutant no longer fits the code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.addressed import Misplaced
from tests.mutants.mutant import bound_tests
from tests.mutants.running import Copy
from tests.mutants.table import MUTANTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="those whose name contains this")
    parser.add_argument("--list", action="store_true", help="only print the table")
    asked = parser.parse_args()
    chosen = tuple(one for one in MUTANTS if asked.only is None or asked.only in one.name)
    if not chosen:
        parser.error(f"no mutant has a name with {asked.only!r} in it: --list names them all")
    if asked.list:
        for mutant in chosen:
            sys.stdout.write(f"{mutant.row}: {mutant.name}: {mutant.invariant}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mnemogate-mutants-") as place:
        copy = Copy(Path(place) / "project")
        if not copy.passes(bound_tests(chosen)):
            sys.stdout.write("the clean code fails the bound tests\n")
            return 1
        wrong = [one.name for one in chosen if _say(copy, one.name) != "caught"]
    sys.stdout.write(f"{len(chosen) - len(wrong)} of {len(chosen)} caught\n")
    return 1 if wrong else 0


def _say(copy: Copy, name: str) -> str:
    mutant = next(one for one in MUTANTS if one.name == name)
    started = time.monotonic()
    try:
        with copy.holding(mutant):
            outcome = "SURVIVED" if copy.passes(mutant.tests) else "caught"
    except Misplaced as error:
        outcome = f"MISPLACED ({error})"
    took = time.monotonic() - started
    sys.stdout.write(f"{outcome:9s} {took:5.1f} s  {mutant.file}: {mutant.name}\n")
    sys.stdout.flush()
    return outcome


if __name__ == "__main__":
    sys.exit(main())
