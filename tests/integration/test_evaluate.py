"""`mnemogate evaluate`: its tables come out, and what it composes cannot be reached by `run`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.evaluate.book import Book
from proxy.evaluate.core import core

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def silent(_label: str) -> Callable[[int, int], None]:
    return lambda _done, _total: None


def book(trials: int = 1) -> Book:
    return Book(trials=trials, seed=1, progress=silent)


async def test_tables_2_and_3_come_out_as_the_paper_has_them() -> None:
    found = book()
    await core(found)
    assert found.broken == ()
    cells = found.tables["table2"]
    assert {name: row["all"].value for name, row in cells.items()} == {
        "B0": 0.0,
        "B1": 0.0,
        "LG": 0.0,
        "S3": 100.0,
        "S4": 100.0,
    }
    assert found.tables["table3"]["ever_materialized"].value == 100.0
    assert found.tables["table3"]["absent_from_probe"].value == 0.0


LOADED = (
    "import sys; from proxy.cli.parser import build_parser; "
    "build_parser(); import proxy.cli.run, proxy.app, proxy.cli.mcp; "
    "sys.stdout.write(' '.join(m for m in sys.modules if m.startswith('proxy.evaluate')))"
)


def test_a_sidecar_never_loads_a_gate_that_is_wrong_on_purpose() -> None:
    done = subprocess.run(
        (sys.executable, "-P", "-c", LOADED), capture_output=True, text=True, check=True
    )
    # The names of the experiments, which the command line lists, and nothing that runs one.
    assert set(done.stdout.split()) == {"proxy.evaluate", "proxy.evaluate.names"}
    assert "proxy.evaluate.unsafe" in sys.modules, "control: this process did load it"


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_command_writes_each_figure_with_its_interval(tmp_path: Path) -> None:
    out, trials = tmp_path / "out.json", tmp_path / "trials.jsonl"
    command = (
        *(sys.executable, "-P", "-m", "proxy", "evaluate", "--trials", "1", "--only", "core"),
        *("--json", str(out), "--trials-out", str(trials)),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert set(found["table2"]["S4"]["A1"]) == {"value", "n", "low", "high"}
    assert found["sound"] is True
    assert len(trials.read_text("utf-8").splitlines()) == 25
