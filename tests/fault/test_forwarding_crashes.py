"""Killed between an intent and its result: never live, never lost, never sent a second time."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from policy.model import CandidateId, ForwardStatus
from policy.query import EVERYTHING
from storage.audit import ResultLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from tests.conformance.canary import new_canary, traces
from tests.evaluate.points import POINTS
from tests.fault.crashing import OPTIONS
from tests.fault.forwarding_process import BEHIND, STEPS, settle, submission
from tests.unit.storage.opening import TENANT, Bench, write

ROOT = Path(__file__).resolve().parents[2]
# The failpoints that a command of the writer passes. A submission passes all of them.
TASK_POINTS = ("before_commit", "after_commit", "key_destroyed", "index_swapped", "before_answer")
CASES = [
    (step, point) for step in STEPS for point in (POINTS[:11] if step == "judge" else TASK_POINTS)
]


def _crash(root: Path, step: str, point: str, canary: str) -> tuple[int, dict[str, str], str]:
    command = [sys.executable, "-m", "tests.fault.forwarding_process"]
    ran = subprocess.run(
        [*command, str(root), step, point, canary],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    pairs = (line.split() for line in ran.stdout.splitlines())
    told = {pair[0]: pair[-1] for pair in pairs}
    return ran.returncode, told, ran.stderr


def _shown(store: EmbeddedStore, canary: str) -> set[str]:
    page = store.reader.page(TENANT, EVERYTHING, 0, 100)
    return {memory.text.removeprefix(canary).split()[0] for memory in page.memories}


def _pending(store: EmbeddedStore, canary: str) -> dict[str, bool]:
    return {
        (one.candidate.text or "").removeprefix(canary).split()[0]: one.sent
        for one in store.forwards.pending()
    }


def _results(store: EmbeddedStore, candidate_id: str) -> list[ForwardStatus]:
    leaves = [decode_leaf(data) for data in store.audit.leaves(0, 10_000)]
    return [
        leaf.result
        for leaf in leaves
        if isinstance(leaf, ResultLeaf) and leaf.candidate_id == candidate_id
    ]


def _again(store: EmbeddedStore, step: str, canary: str, told: dict[str, str]) -> None:
    """Repeat the requests that got no answer, and check that they end as they would have."""
    ids = {name: CandidateId(one) for name, one in told.items()}
    if step == "judge":
        outcomes = write(store, *(submission(name, canary) for name in ("admit", "hold", "reject")))
        assert [one.decision.value for one in outcomes] == ["admit", "hold", "reject"]
        assert _pending(store, canary)["admit"], "it may have been sent: it is looked up"
    elif step in {"settle", "lose"}:
        for _ in range(2):
            settle(store, ids["intent"], ForwardStatus.DONE)
        assert _results(store, ids["intent"])[-1] is ForwardStatus.DONE
        assert _results(store, ids["intent"]).count(ForwardStatus.DONE) == 1
        assert "intent" in _shown(store, canary)
    elif step == "claim":
        first = asyncio.run(store.forwards.claim(BEHIND, (ids["released"],)))
        assert asyncio.run(store.forwards.claim(BEHIND, (ids["released"],))) == frozenset()
        assert len(first) <= 1
        assert _pending(store, canary)["released"]
    else:
        held = [one.candidate_id for one in store.reader.held()]
        assert (ids["hold"] in held) is ("hold" not in _pending(store, canary))


@pytest.mark.parametrize(("step", "point"), CASES)
def test_killed_between_intent_and_result_nothing_is_live_lost_or_sent_twice(
    tmp_path: Path, step: str, point: str
) -> None:
    canary = new_canary()
    code, told, errors = _crash(tmp_path, step, point, canary)
    assert code == -signal.SIGKILL, errors
    assert "answered" not in told
    store = Bench(tmp_path).open(options=OPTIONS)
    assert store.reader.check().problems == ()
    shown, pending = _shown(store, canary), _pending(store, canary)
    assert shown <= {"settled", "intent"}
    assert "settled" in shown
    # One transaction: an intent is open, or its result is in the log and it is what that says.
    assert ("intent" in pending) is ("intent" not in shown)
    done = ForwardStatus.DONE in _results(store, told["intent"])
    assert done is ("intent" in shown)
    assert "released" in pending
    _again(store, step, canary, told)
    assert store.reader.check().problems == ()
    store.close()
    for name in ("reject", "hold") if step == "judge" else ():
        assert traces(tmp_path, canary + name) == []
    assert traces(tmp_path, f"{canary}intent"), "the search finds what is there"


@pytest.mark.parametrize("step", STEPS)
def test_without_a_crash_the_same_steps_end_well(tmp_path: Path, step: str) -> None:
    canary = new_canary()
    code, told, errors = _crash(tmp_path, step, "never", canary)
    assert (code, "answered" in told) == (0, True), errors
    store = Bench(tmp_path).open(options=OPTIONS)
    pending, shown = _pending(store, canary), _shown(store, canary)
    wanted = {
        "judge": ({"intent": True, "released": False, "admit": True}, {"settled"}),
        "settle": ({"released": False}, {"settled", "intent"}),
        "lose": ({"intent": True, "released": False}, {"settled"}),
        "claim": ({"intent": True, "released": True}, {"settled"}),
        "release": ({"intent": True, "released": False, "hold": False}, {"settled"}),
    }
    assert (pending, shown) == wanted[step]
    store.close()
