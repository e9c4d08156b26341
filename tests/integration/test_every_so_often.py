"""What a sidecar does by itself: retention sweeps, and the warning of observe mode each minute."""

from __future__ import annotations

import logging
from pathlib import Path

import lmdb
import pytest

from policy.verdict import InvariantBroken
from proxy.aftermath.parole_trials import PROBATIONS_EVERY_S
from proxy.aftermath.rule_watch import LOOK_S
from proxy.compose.app import Composition
from proxy.compose.observe_mode import WARN_EVERY_S
from proxy.compose.periodic import every, repeating
from proxy.ledger.sessions import COMPACTED_EVERY_S
from tests.integration.running import AGENT_KEY, running
from tests.integration.test_retention import DAY_NS, RULES, Clock
from tests.integration.turns import Turns

# No other job of the sidecar comes so often.
SWEEP_S = 5_000.0
# Jobs that every sidecar has: canaries, probations that end, and a log that is compacted.
STANDING = {LOOK_S, PROBATIONS_EVERY_S, COMPACTED_EVERY_S}
EPISODE = {"text": "An episode that ages.", "class": "L4"}
KNOWLEDGE = {"text": "Knowledge that stays.", "class": "L3"}


class Disk:
    """A disk that refuses every commit while it is told to."""

    def __init__(self) -> None:
        self.refuses = False

    def __call__(self, name: str) -> None:
        if self.refuses and name == "before_commit":
            raise lmdb.DiskError("No space left on device")


def _flags(tmp_path: Path, every: str = "5000") -> dict[str, str]:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return {"ruleset": str(file), "retention_seconds": every}


def _said(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


async def test_a_sweep_comes_each_time_its_seconds_are_over_and_erases(tmp_path: Path) -> None:
    clock, turns = Clock(), Turns()
    composition = Composition(clock_ns=clock, wait=turns)
    async with running(tmp_path, composition, _flags(tmp_path)) as sidecar:
        await sidecar.write(AGENT_KEY, EPISODE)
        await sidecar.write(AGENT_KEY, KNOWLEDGE)
        await turns.turn(SWEEP_S)
        assert len(await sidecar.texts(AGENT_KEY)) == 2, "control: nothing is due yet"
        clock.now_ns += 31 * DAY_NS
        assert len(await sidecar.texts(AGENT_KEY)) == 2, "control: being due alone hides nothing"
        before = sidecar.sidecar.store.reader.status().leaf_count
        await turns.turn(SWEEP_S)
        assert await sidecar.texts(AGENT_KEY) == [KNOWLEDGE["text"]]
        assert sidecar.sidecar.store.reader.status().leaf_count == before + 2
        await turns.turn(SWEEP_S)
        assert sidecar.sidecar.store.reader.status().leaf_count == before + 2
    data = (tmp_path / "state" / "store" / "data.mdb").read_bytes()
    assert b"Knowledge that stays" in data, "control: the search finds what is there"
    assert b"episode that ages" not in data


async def test_a_sweep_that_fails_is_told_and_the_next_one_erases(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, turns, disk = Clock(), Turns(), Disk()
    composition = Composition(clock_ns=clock, wait=turns, failpoint=disk)
    async with running(tmp_path, composition, _flags(tmp_path)) as sidecar:
        await sidecar.write(AGENT_KEY, EPISODE)
        clock.now_ns += 31 * DAY_NS
        disk.refuses = True
        await turns.turn(SWEEP_S)
        assert _said(caplog, "mnemogate.responses") == ["retention sweep failed"]
        assert len(await sidecar.texts(AGENT_KEY)) == 1
        disk.refuses = False
        await turns.turn(SWEEP_S)
        assert await sidecar.texts(AGENT_KEY) == []


async def test_no_seconds_are_no_sweep(tmp_path: Path) -> None:
    turns = Turns()
    async with running(tmp_path, Composition(wait=turns), _flags(tmp_path, "0")):
        assert turns.pending() <= STANDING


async def test_observe_mode_warns_at_once_and_each_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert WARN_EVERY_S == 60
    turns, said = Turns(), "observe mode: nothing is refused"
    flags = {"observe": "true", "retention_seconds": "0"}
    async with running(tmp_path, Composition(wait=turns), flags):
        await turns.waits(WARN_EVERY_S)
        assert _said(caplog, "mnemogate.observe") == [said]
        for count in (2, 3, 4):
            await turns.turn(WARN_EVERY_S)
            assert _said(caplog, "mnemogate.observe") == [said] * count
    levels = {record.levelno for record in caplog.records if record.name == "mnemogate.observe"}
    assert levels == {logging.WARNING}
    caplog.clear()
    turns = Turns()
    async with running(tmp_path, Composition(wait=turns), {"retention_seconds": "0"}):
        assert turns.pending() <= STANDING
    assert _said(caplog, "mnemogate.observe") == []


async def test_a_number_moves_the_next_round_and_a_broken_invariant_stops_the_sidecar() -> None:
    turns, halts, rounds = Turns(), list[int](), iter((7.0, None, InvariantBroken("broken")))

    async def work() -> float | None:
        said = next(rounds)
        if isinstance(said, Exception):
            raise said
        return said

    jobs = (every(1.0, work, "work", at_once=True), every(0.0, work, "nothing"))
    async with repeating(jobs, wait=turns, halt=lambda: halts.append(1)):
        await turns.waits(7.0)
        assert turns.pending() == {7.0}, "control: a job of no seconds is left out"
        (await turns.waits(7.0)).set_result(None)
        await turns.waits(1.0)
        assert halts == []
        await turns.turn(1.0)
        assert halts == [1]
