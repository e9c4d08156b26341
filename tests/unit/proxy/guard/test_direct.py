"""Questions of the gate's own process: answered to their end, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.guard.client import GuardClient
from proxy.guard.direct import Direct
from proxy.seams.faults import MalformedRequest
from storage.ground.errors import OutcomeUnknown, StoreUnavailable
from tests.unit.proxy.guard.direct import Slow, direct_to
from tests.unit.proxy.guarded import AGENT, GOOD, SERVER, call, item


@asynccontextmanager
async def asked_of(direct: Direct, base: Path) -> AsyncGenerator[GuardClient]:
    async with GuardClient(base / "nobody.sock", direct=lambda: direct) as client:
        yield client


async def test_a_gate_that_ends_answers_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    front = Slow(b"[true]")
    direct = direct_to(front, drain_s=30)
    async with asked_of(direct, tmp_path) as client:
        async with direct.serving():
            asked = asyncio.ensure_future(client.sift(AGENT, SERVER, ("a",)))
            await front.asked.wait()
            asyncio.get_running_loop().call_later(0.01, front.go.set)
        assert await asked == (True,)
        with pytest.raises(StoreUnavailable):
            await client.sift(AGENT, SERVER, ("a",))


async def test_what_outlasts_the_drain_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    front = Slow(b"[]")
    direct = direct_to(front, drain_s=0)
    async with asked_of(direct, tmp_path) as client:
        async with direct.serving():
            asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
            await front.asked.wait()
        with pytest.raises(OutcomeUnknown):
            await asked
    assert front.departed == 0, "the relay waited to the end"


async def test_whoever_stops_waiting_is_known_to_be_gone_and_the_work_goes_on(
    tmp_path: Path,
) -> None:
    front = Slow(b"[]")
    direct = direct_to(front)
    async with direct.serving(), asked_of(direct, tmp_path) as client:
        asked = asyncio.ensure_future(client.judge(AGENT, call(item(GOOD))))
        await front.asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (front.departed, front.answered) == (1, 0)
        front.go.set()
    assert front.answered == 1


async def test_an_answer_that_does_not_come_in_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    front = Slow(b"[]")
    direct = direct_to(front, drain_s=0)
    async with (
        direct.serving(),
        GuardClient(tmp_path / "nobody.sock", answer_s=0.01, direct=lambda: direct) as client,
    ):
        with pytest.raises(OutcomeUnknown):
            await client.judge(AGENT, call(item(GOOD)))
        assert front.departed == 1


async def test_a_question_is_bounded_as_at_the_socket(tmp_path: Path) -> None:
    front = Slow(b"[false]")
    front.go.set()
    direct = direct_to(front, body_bytes_max=1_000)
    async with direct.serving(), asked_of(direct, tmp_path) as client:
        assert await client.sift(AGENT, SERVER, ("a" * 900,)) == (False,)
        with pytest.raises(MalformedRequest, match="too large"):
            await client.sift(AGENT, SERVER, ("a" * 1_000,))


async def test_a_front_that_breaks_costs_its_own_question_only(tmp_path: Path) -> None:
    front = Slow(b"[false]")
    front.go.set()
    direct = direct_to(front)
    async with direct.serving(), asked_of(direct, tmp_path) as client:
        front.fails = True
        with pytest.raises(OutcomeUnknown):
            await client.judge(AGENT, call(item(GOOD)))
        front.fails = False
        assert await client.sift(AGENT, SERVER, ("a",)) == (False,)
