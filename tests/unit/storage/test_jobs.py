"""A job is begun or taken back, never both; nobody waits for ever, and nobody is told a lie."""

from __future__ import annotations

import asyncio
import threading

import pytest

from storage.errors import OutcomeUnknown, StoreUnavailable
from storage.jobs import Job, deliver


def _job() -> Job:
    return Job(asyncio.get_running_loop(), task=lambda: None)


async def test_a_job_is_claimed_once() -> None:
    job = _job()
    assert [job.claim(), job.claim()] == [True, False]


async def test_what_the_writer_never_began_was_not_written() -> None:
    job = _job()
    with pytest.raises(StoreUnavailable):
        await job.answer(0.01)
    assert not job.claim()


async def test_what_the_writer_began_has_an_unknown_outcome_and_its_late_answer_is_dropped() -> (
    None
):
    job = _job()
    assert job.claim()
    with pytest.raises(OutcomeUnknown):
        await job.answer(0.01)
    deliver([(job, "late")])
    await asyncio.sleep(0)


async def test_an_answer_in_time_comes_from_any_thread() -> None:
    job, failing = _job(), _job()
    error = StoreUnavailable("no")
    thread = threading.Thread(target=deliver, args=([(job, 7), (failing, error)],))
    thread.start()
    assert await job.answer(10) == 7
    with pytest.raises(StoreUnavailable) as told:
        await failing.answer(10)
    assert told.value is error
    thread.join(10)


def test_an_answer_for_a_loop_that_is_gone_harms_nobody() -> None:
    async def made() -> Job:
        return _job()

    deliver([(asyncio.run(made()), 7)])
