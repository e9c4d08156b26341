"""Programs that must not type-check: each line marked `expected` fails, for that reason alone.

They are kept as text, so that the project's own type check does not trip over them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MISUSE = sorted((Path(__file__).parent / "misuse").glob("*.txt"))
_EXPECTED = re.compile(r"# expected: ([a-z-]+)")
_REPORTED = re.compile(r"^(?P<path>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, int, str]]:
    folder = tmp_path_factory.mktemp("misuse")
    programs = [folder / f"{path.stem}.py" for path in MISUSE]
    for path, program in zip(MISUSE, programs, strict=True):
        program.write_text(path.read_text())
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, programs)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    found = [_REPORTED.match(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stdout + done.stderr
    return {(Path(hit["path"]).stem, int(hit["line"]), hit["code"]) for hit in found if hit}


@pytest.mark.parametrize("path", MISUSE, ids=lambda path: path.stem)
def test_misuse_does_not_type_check(path: Path, reported: set[tuple[str, int, str]]) -> None:
    expected = {
        (path.stem, number, marked[1])
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (marked := _EXPECTED.search(line))
    }
    assert expected
    assert {hit for hit in reported if hit[0] == path.stem} == expected
