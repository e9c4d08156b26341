"""Which faults made by rule do the unit tests notice: `python -m tests.mutants.score [--sample N]`.

They are drawn from the files that the last hundred commits changed, with `--all` from every file;
the same ones for the same `--seed`, which is today. A survivor is a line whose change nothing
notices: a test that is missing, or a line that does not matter. `EXPLAINED` has those that were
looked at.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.mutants.explained import EXPLAINED
from tests.mutants.operators import Fault, faults
from tests.mutants.running import PACKAGES, ROOT, Copy
from tests.mutants.warm import code_of, warm_up
from tests.shares import TODAY

_COMMITS: Final = 100


def drawn(count: int, seed: str, *, everywhere: bool = False) -> list[Fault]:
    """A repeatable sample of faults, in the order of their places; a file at a time is drawn."""
    chance = random.Random(f"mnemogate {seed}")  # noqa: S311 - a sample, no secret
    files = [file for file in _candidates(everywhere=everywhere) if unit_tests_of(file)]
    found: list[Fault] = []
    for file in chance.choices(files, k=count) if files else ():
        every = list(faults(file, (ROOT / file).read_text("utf-8")))
        found += chance.sample(every, min(1, len(every)))
    return sorted(found, key=lambda fault: (fault.file, fault.line, fault.done))


def unit_tests_of(file: str) -> tuple[str, ...]:
    """The unit tests of a file's folder, its own first; none where no folder mirrors it."""
    folder, stem = ROOT / "tests/unit" / Path(file).parent, Path(file).stem
    found = sorted(folder.glob("test_*.py"), key=lambda test: stem not in test.stem)
    return tuple(test.relative_to(ROOT).as_posix() for test in found)


def noticed(copy: Copy, fault: Fault) -> bool:
    """Whether a test turns red. A run that cannot even be collected has noticed as well."""
    with copy.text_of(fault.file, fault.text):
        return code_of(copy.place, unit_tests_of(fault.file)) != 0


def _candidates(*, everywhere: bool) -> list[str]:
    every = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    return sorted(every if everywhere else every & _changed() or every)


def _changed() -> set[str]:
    """What the last commits changed; nothing where there is no history."""
    command = ("git", "log", f"-{_COMMITS}", "--format=", "--name-only")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def main() -> int:
    """Try a sample, and print each survivor."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.score", description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", default=str(TODAY))
    parser.add_argument("--all", action="store_true", help="from every file")
    asked = parser.parse_args()
    tried = drawn(asked.sample, asked.seed, everywhere=asked.all)
    survivors: list[Fault] = []
    warm_up()
    with tempfile.TemporaryDirectory(prefix="mnemogate-score-") as place:
        copy = Copy(Path(place) / "project")
        clean = sorted({test for fault in tried for test in unit_tests_of(fault.file)})
        if code_of(copy.place, clean) != 0:
            sys.stdout.write("the clean code fails\n")
            return 1
        for number, fault in enumerate(tried, start=1):
            if not noticed(copy, fault):
                survivors.append(fault)
                why = EXPLAINED.get(f"{fault.file}: {fault.done}", "NOT EXPLAINED")
                sys.stdout.write(f"{number:4d} survived  {fault.name}  ({why})\n")
                sys.stdout.flush()
    caught = len(tried) - len(survivors)
    sys.stdout.write(f"{caught} of {len(tried)} noticed, {caught / max(1, len(tried)):.1%}\n")
    unexplained = [one for one in survivors if f"{one.file}: {one.done}" not in EXPLAINED]
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
