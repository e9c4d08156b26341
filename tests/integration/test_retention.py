"""What a sidecar does by itself: at its start, and each time some seconds are over."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from pathlib import Path

import pytest

from policy.model import Tenant
from policy.verdict import InvariantBroken
from proxy.admin.erasure_runner import ERASING_S
from proxy.aftermath.parole_trials import PROBATIONS_EVERY_S
from proxy.aftermath.rule_watch import LOOK_S
from proxy.compose import app
from proxy.compose.app import Composition
from proxy.compose.observe_mode import WARN_EVERY_S
from proxy.compose.periodic import every, repeating
from proxy.compose.services import Foundation, Services
from proxy.ledger.sessions import COMPACTED_EVERY_S
from proxy.transport.auth import NewKey
from storage.features.retention_candidates import RetentionCandidates
from storage.ground.errors import TransactionFailed
from tests.integration.running import AGENT_KEY, Json, Running, running
from tests.integration.turns import Clock, Turns
from tests.unit.storage.opening import RULESET_TEXT

DAY_NS = 86_400 * 10**9
RULES = (
    RULESET_TEXT
    + """
[retention]
expired_grace_days = 7

[retention.classes.L4]
age_days_max = 30
"""
)


async def sweep(sidecar: Running, *, dry_run: bool) -> Json:
    return await sidecar.operate("POST", "/retention", {"dry_run": dry_run})


async def test_what_is_kept_no_longer_is_erased_and_the_log_grows(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    flags = {"ruleset": str(file), "retention_seconds": "0"}
    async with running(tmp_path, Composition(clock_ns=clock), flags) as sidecar:
        await sidecar.write(AGENT_KEY, {"text": "An episode that ages.", "class": "L4"})
        await sidecar.write(AGENT_KEY, {"text": "Knowledge that stays.", "class": "L3"})
        await sidecar.write(
            AGENT_KEY, {"text": "A secret that expires.", "expires_at": "2026-09-22T00:00:00Z"}
        )
        assert (await sweep(sidecar, dry_run=False))["due_count"] == 0
        clock.now_ns += 31 * DAY_NS
        assert len(await sidecar.texts(AGENT_KEY)) == 2, "the expired one is hidden already"

        before = sidecar.sidecar.store.reader.status()
        told = await sweep(sidecar, dry_run=True)
        assert [(one["item"]["memory_class"], one["why"]) for one in told["due"]] == [
            ("L4", "age"),
            ("L3", "expired"),
        ]
        assert sidecar.sidecar.store.reader.status() == before, "a dry run changes nothing"

        done = await sweep(sidecar, dry_run=False)
        assert (done["due_count"], done["purged_count"]) == (2, 2)
        after = sidecar.sidecar.store.reader.status()
        assert after.leaf_count == before.leaf_count + 4, "an interception and a verdict each"
        assert await sidecar.texts(AGENT_KEY) == ["Knowledge that stays."]
        assert (await sweep(sidecar, dry_run=False))["due_count"] == 0
        assert sidecar.sidecar.store.reader.check().problems == ()
    data = (tmp_path / "state" / "store" / "data.mdb").read_bytes()
    assert b"Knowledge that stays" in data, "control: the search finds what is there"
    assert b"episode that ages" not in data
    assert b"secret that expires" not in data


async def test_a_memory_that_was_changed_since_it_was_seen_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    flags = {"ruleset": str(file), "retention_seconds": "0"}
    async with running(tmp_path, Composition(clock_ns=clock), flags) as sidecar:
        _, stored = await sidecar.write(AGENT_KEY, {"text": "An episode.", "class": "L4"})
        retained = sidecar.sidecar.store.of(RetentionCandidates)
        ((item,), rest) = retained.slice(0, 10)
        assert rest is None
        assert retained.stands(item)
        status, _ = await sidecar.call(
            "PATCH", f"/v1/memories/{stored['id']}", AGENT_KEY, {"text": "An episode, told again."}
        )
        assert status == 200
        assert not retained.stands(item)
        items, rest = retained.slice(0, 1)
        assert (items, rest) == ((), 1), "the row before the change is no memory any more"
        (newest,), _ = retained.slice(1, 10)
        assert newest.tenant == Tenant("default")


# No other job of the sidecar comes so often.
SWEEP_S = 5_000.0
# Jobs that every sidecar has: canaries, probations that end, and a log that is compacted.
STANDING = {LOOK_S, PROBATIONS_EVERY_S, COMPACTED_EVERY_S, ERASING_S}
EPISODE = {"text": "An episode that ages.", "class": "L4"}
KNOWLEDGE = {"text": "Knowledge that stays.", "class": "L3"}


class Disk:
    """A disk that refuses every commit while it is told to."""

    def __init__(self) -> None:
        self.refuses = False

    def __call__(self, name: str) -> None:
        if self.refuses and name == "before_commit":
            raise TransactionFailed("No space left on device")


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


ASKED = f"GET /v1/memories HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {AGENT_KEY}\r\n\r\n"
LATER_S = 0.3


async def test_a_key_that_the_operator_gave_is_known_before_anybody_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_keys, asked = app._first_keys, asyncio.Event()

    async def late(foundation: Foundation, services: Services) -> tuple[NewKey, ...]:
        await asked.wait()
        await asyncio.sleep(LATER_S)  # as long as a busy disk may take for the first keys
        return await first_keys(foundation, services)

    monkeypatch.setattr(app, "_first_keys", late)
    with tempfile.TemporaryDirectory() as short:
        path = Path(short) / "data.sock"

        async def answered() -> bytes:
            while not path.exists():  # noqa: ASYNC110 - a socket appears, and no event says so
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(ASKED.encode())
            await writer.drain()
            asked.set()
            line = await reader.readline()
            writer.close()
            return line

        client = asyncio.create_task(answered())
        flags = {"unix_socket": str(path), "unix_uids": str(os.getuid())}
        async with running(tmp_path, flags=flags):
            assert (await client).startswith(b"HTTP/1.1 200")
