"""While a candidate is undecided nothing goes on, and what is late is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.model import PrincipalId
from policy.verdict import Reason
from storage.ground.deadline import Due
from storage.ground.errors import StoreUnavailable
from tests.unit.proxy.withheld import NOTE, POISON, Rig, rig
from tests.unit.storage.opening import AGENT


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


async def test_model_requests_wait_while_a_candidate_is_undecided(one: Rig) -> None:
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(one.withholding.quiet(AGENT.principal_id, 30.0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert await one.withholding.quiet(PrincipalId("somebody else"), 0)
    release.set()
    assert await waiting
    assert one.withholding.carries(AGENT.principal_id, POISON)
    assert (await writing).decision == "reject"


async def test_other_routes_wait_as_well_and_then_know_what_is_withheld(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(one.withholding.settled(AGENT, 30.0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert not one.withholding.withholds(AGENT.principal_id)
    release.set()
    await waiting
    assert one.withholding.withholds(AGENT.principal_id)
    assert not one.withholding.withholds(PrincipalId("somebody else"))
    assert (await writing).decision == "reject"


async def test_what_is_undecided_at_the_deadline_is_refused_and_never_written(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0)
    assert await one.withholding.quiet(AGENT.principal_id, 0.01) is True
    assert one.withholding.carries(AGENT.principal_id, NOTE)
    release.set()
    item = await writing
    assert (item.decision, item.reason) == ("reject", Reason.GATE_UNAVAILABLE)
    assert one.live.store.reader.status().version == 0
    assert one.withholding.carries(AGENT.principal_id, NOTE)


async def test_what_nobody_waits_for_is_written(one: Rig) -> None:
    """The control of the test above: the same write, not waited for."""
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0)
    release.set()
    assert (await writing).decision == "admit"


async def test_what_cannot_be_written_down_is_not_judged(one: Rig) -> None:
    before = one.live.store.reader.status().leaf_count
    one.log.fails = True
    with pytest.raises(StoreUnavailable):
        await one.write(NOTE, named=False)
    assert one.live.store.reader.status().leaf_count == before
    one.log.fails = False
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    assert not one.withholding.carries(AGENT.principal_id, NOTE)


async def test_a_crash_between_interception_and_verdict_withholds_what_was_refused(
    one: Rig,
) -> None:
    await one.write(POISON)
    await one.write(NOTE, named=False)
    begun = [record for record in one.log.records if record[0] == 64]
    assert len(begun) == 2
    one.log.records[:] = begun
    again = one.again()
    assert again.carries(AGENT.principal_id, POISON)
    assert not again.carries(AGENT.principal_id, NOTE)


async def test_a_candidate_that_was_never_decided_is_withheld_after_the_crash(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0.01)
    assert one.again().carries(AGENT.principal_id, NOTE)
    release.set()
    await writing


async def test_who_goes_away_does_not_leave_its_principal_waiting(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0.01)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    assert one.withholding.carries(AGENT.principal_id, POISON)
    release.set()


def test_the_first_to_come_decides_whether_a_candidate_is_too_late() -> None:
    begun, over = Due(), Due()
    assert begun.begin()
    assert not begun.expire()
    assert begun.begin()
    assert over.expire()
    assert not over.begin()
    assert over.expire()


def _stop(one: Rig) -> asyncio.Event:
    """Hold the writer's door shut until the event is set."""
    gate = asyncio.Event()
    submit = one.live.store.writer.submit

    class Door:
        async def submit(self, submission: object) -> object:
            await gate.wait()
            return await submit(submission)  # type: ignore[arg-type]

    one.live.writing._writer = Door()  # type: ignore[assignment]
    return gate
