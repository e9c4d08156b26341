"""Which faults made by rule do the fast tests notice: `python -m tests.mutants.score [--sample N]`.

The same sample each time. A survivor is a line whose change nothing notices: a test that is
missing, or a line that does not matter. `EXPLAINED` has those that were looked at.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.mutants.explained import EXPLAINED
from tests.mutants.operators import Fault, faults
from tests.mutants.running import ROOT, Copy
from tests.mutants.warm import code_of, warm_up

_MODULES: Final = """
    anchors canonical checks directive gate injection labels language model query ruleset skeleton
    tokens trust verdict
"""
_POLICY: Final = tuple(f"policy/{name}.py" for name in _MODULES.split())
_COMMIT: Final = (
    "storage/write/commit.py",
    "storage/write/judging.py",
    "storage/write/gathering.py",
)
_STORAGE_TESTS: Final = (
    "tests/unit/storage/write/test_commit.py",
    "tests/unit/storage/write/test_writes.py",
    "tests/unit/storage/write/test_held.py",
    "tests/unit/storage/derived/test_recovery.py",
    "tests/fault/test_erasure.py",
    "tests/property/test_store_interleaving.py",
    "tests/conformance/test_bypass_shapes.py",
)
_POLICY_TESTS: Final = (
    "tests/unit/policy",
    "tests/property/test_gate_canonical.py",
    "tests/property/test_gate_reference.py",
)


def sampled(count: int) -> list[Fault]:
    """A repeatable sample over all the files, each fault as likely as any other."""
    every = [
        fault
        for file in (*_POLICY, *_COMMIT)
        for fault in faults(file, (ROOT / file).read_text("utf-8"))
    ]
    drawn = random.Random("mnemogate").sample(every, min(count, len(every)))  # noqa: S311
    return sorted(drawn, key=lambda fault: (fault.file, fault.line, fault.done))


def noticed(copy: Copy, fault: Fault) -> bool:
    """Whether some test fails with the fault in place; the module's own tests are asked first."""
    stem = Path(fault.file).stem
    own = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests/unit").rglob(f"test_{stem}*.py"))
        if path.parent.name == Path(fault.file).parent.name
    ]
    rest = _POLICY_TESTS if fault.file.startswith("policy/") else _STORAGE_TESTS
    with copy.text_of(fault.file, fault.text):
        # A run that cannot even be collected has noticed as well.
        return (bool(own) and code_of(copy.place, own) != 0) or code_of(copy.place, rest) != 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.score", description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    asked = parser.parse_args()
    drawn = sampled(asked.sample)
    survivors: list[Fault] = []
    warm_up()
    with tempfile.TemporaryDirectory(prefix="mnemogate-score-") as place:
        copy = Copy(Path(place) / "project")
        if code_of(copy.place, (*_POLICY_TESTS, *_STORAGE_TESTS)) != 0:
            sys.stdout.write("the clean code fails\n")
            return 1
        for number, fault in enumerate(drawn, start=1):
            if not noticed(copy, fault):
                survivors.append(fault)
                why = EXPLAINED.get(f"{fault.file}: {fault.done}", "NOT EXPLAINED")
                sys.stdout.write(f"{number:4d} survived  {fault.name}  ({why})\n")
                sys.stdout.flush()
    caught = len(drawn) - len(survivors)
    sys.stdout.write(f"{caught} of {len(drawn)} noticed, {caught / max(1, len(drawn)):.1%}\n")
    unexplained = [one for one in survivors if f"{one.file}: {one.done}" not in EXPLAINED]
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
