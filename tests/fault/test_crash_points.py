"""A process killed at any named point: what is durable, what is gone, and what never was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from policy.query import EVERYTHING
from storage.values import Decision
from tests.conformance.canary import new_canary, traces
from tests.evaluate.points import POINTS
from tests.fault.crashing import OPTIONS, candidates, submission
from tests.unit.storage.opening import TENANT, Bench, write

ROOT = Path(__file__).resolve().parents[2]
REFUSED = ("hold", "reject")


def _crash(root: Path, point: str, canary: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fault.crashing", str(root), point, canary]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _assert_only_admitted_found(root: Path, canary: str) -> None:
    assert traces(root, f"{canary}first"), "the search finds what is there"
    for name in REFUSED:
        assert traces(root, canary + name) == []


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_crash_point_nothing_refused_is_on_disk_and_nothing_answered_is_lost(
    tmp_path: Path, point: str
) -> None:
    canary = new_canary()
    died = _crash(tmp_path, point, canary)
    assert died.returncode == -signal.SIGKILL, died.stderr
    _assert_only_admitted_found(tmp_path, canary)

    store = Bench(tmp_path).open(options=OPTIONS)
    assert store.reader.check().problems == ()
    _assert_only_admitted_found(tmp_path, canary)
    told = [line.split()[0] for line in died.stdout.splitlines()]
    assert told in ([], ["admit", "hold", "reject"])
    before = store.reader.status()

    wanted = candidates(canary)
    outcomes = write(store, *(submission(name, one) for name, one in wanted.items()))
    assert [outcome.decision for outcome in outcomes] == [
        Decision.ADMIT,
        Decision.ADMIT,
        Decision.HOLD,
        Decision.REJECT,
    ]
    # One transaction held the whole batch: it is there, or it is not.
    assert outcomes[0].replayed
    assert len({outcome.replayed for outcome in outcomes[1:]}) == 1
    if told:
        assert outcomes[1].replayed
        assert store.reader.status() == before
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 2
    assert store.reader.check().problems == ()
    store.close()
    assert traces(tmp_path, f"{canary}admit")
    _assert_only_admitted_found(tmp_path, canary)


def test_without_a_crash_the_same_run_ends_well(tmp_path: Path) -> None:
    canary = new_canary()
    ran = _crash(tmp_path, "never", canary)
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["admit", "hold", "reject"]
    _assert_only_admitted_found(tmp_path, canary)
