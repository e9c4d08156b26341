"""Who is the gate: one process at a time, and another one when it ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from policy.model import CandidateId, ChangeKind
from proxy.guard.election import ElectedGuard, Election, OpenedGate
from proxy.seams.guard import ForwardStatus, GuardedCall, Item, ItemVerdict
from storage.ground.errors import OutcomeUnknown, StoreCorrupt, StoreLocked, StoreUnavailable
from tests.unit.proxy.guard.direct import Slow, direct_to
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.mcp.wire import AGENT


class Place:
    """A state directory: a lock, and a socket that the gate serves."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "gate.sock"
        self.lock = folder / "gate.lock"
        self.opened = 0
        self.serving = False
        self.open: list[asyncio.StreamWriter] = []
        self.halted: list[asyncio.Event] = []
        self.asked_for: list[asyncio.Event] = []

    @asynccontextmanager
    async def open_gate(self) -> AsyncGenerator[OpenedGate]:
        handle = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreLocked("another gate holds this state directory") from error
            self.socket.unlink(missing_ok=True)
            self.opened += 1
            self.serving = True
            server = await asyncio.start_unix_server(self._serve, str(self.socket))
            halted = asyncio.Event()
            self.halted.append(halted)
            self.asked_for.append(asyncio.Event())
            try:
                yield OpenedGate(halted, direct_to(Slow(b"")), self.asked_for[-1])
            finally:
                self.serving = False
                server.close()
                for writer in self.open:
                    writer.close()
        finally:
            os.close(handle)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.append(writer)
        if self.serving:
            await reader.read()
        writer.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@asynccontextmanager
async def standing(place: Place) -> AsyncGenerator[tuple[Election, asyncio.Task[None]]]:
    election = Election(place.socket, place.open_gate, pause_s=0.001, stand_back_s=3_600)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run())
        await election.ready(10)
        yield election, task
        task.cancel()


async def test_of_several_one_is_the_gate_and_all_have_one(place: Place) -> None:
    async with (
        standing(place) as (first, _),
        standing(place) as (second, _),
        standing(place) as (
            third,
            _,
        ),
    ):
        assert [one.leads for one in (first, second, third)] == [True, False, False]
        assert [one.own is not None for one in (first, second, third)] == [True, False, False]
    assert place.opened == 1


async def test_when_the_gate_ends_another_one_takes_over(place: Place) -> None:
    async with standing(place) as (first, task), standing(place) as (second, _):
        task.cancel()
        async with asyncio.timeout(10):
            while not second.leads:  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.001)
        await second.ready(1)
        assert not first.leads
    assert place.opened == 2


async def test_a_place_that_was_asked_for_is_left_to_whoever_asked(place: Place) -> None:
    async with standing(place) as (wrapper, _):
        place.asked_for[0].set()
        async with asyncio.timeout(10):
            while wrapper.leads:  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.001)
        # As many turns as it took the wrapper to become the gate, and more: it stays back.
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert place.opened == 1
        # The sidecar that asked comes, and the wrapper follows it.
        async with place.open_gate():
            await wrapper.ready(10)
            assert not wrapper.leads
    assert place.opened == 2


async def test_a_gate_that_halted_does_not_lead_again(place: Place) -> None:
    async with standing(place) as (election, _):
        place.halted[0].set()
        async with asyncio.timeout(10):
            while election.leads:  # noqa: ASYNC110 - looked at from outside
                await asyncio.sleep(0.001)
        assert election.own is None
        with pytest.raises(StoreUnavailable):
            await election.ready(0.05)
    assert place.opened == 1


async def test_a_state_that_cannot_be_opened_is_said_and_not_tried_for_ever(tmp_path: Path) -> None:
    def broken() -> AbstractAsyncContextManager[OpenedGate]:
        raise StoreCorrupt("secrets/log.key is missing")

    with pytest.raises(StoreCorrupt):
        await Election(tmp_path / "gate.sock", broken).run()


class Failing(MemoryGuard):
    """Loses so many answers, of what it is asked, on the way back."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses

    def stumble(self) -> None:
        if self.losses:
            self.losses -= 1
            raise OutcomeUnknown("the gate went away before it answered")

    async def judge(self, principal: object, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        judged = await super().judge(AGENT, call)
        self.stumble()
        return judged

    async def settle(
        self, principal: object, server: str, settled: tuple[tuple[CandidateId, ForwardStatus], ...]
    ) -> None:
        await super().settle(AGENT, server, settled)
        self.stumble()


def write() -> GuardedCall:
    item = Item(change=ChangeKind.CREATE, arguments='{"text":"#0"}', pieces=("likes tea",))
    return GuardedCall(server="memory", tool="remember", items=(item,))


async def test_a_verdict_that_was_lost_is_not_asked_for_again(place: Place) -> None:
    guard = Failing(1)
    async with standing(place) as (election, _):
        with pytest.raises(OutcomeUnknown):
            await ElectedGuard(election, guard).judge(AGENT, write())
    assert len(guard.judged) == 1


async def test_a_settlement_that_was_lost_is_said_again(place: Place) -> None:
    guard = Failing(1)
    async with standing(place) as (election, _):
        elected = ElectedGuard(election, guard)
        (judged,) = await MemoryGuard.judge(guard, AGENT, write())
        assert judged.candidate_id is not None
        await elected.settle(AGENT, "memory", ((judged.candidate_id, ForwardStatus.DONE),))
    assert [state for _, state in guard.settled] == [ForwardStatus.DONE, ForwardStatus.DONE]
