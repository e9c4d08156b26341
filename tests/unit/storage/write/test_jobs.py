"""A job is begun or taken back, never both; nobody waits for ever, and nobody is told a lie."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import queue
import threading

import pytest

from storage.ground.errors import OutcomeUnknown, StoreUnavailable
from storage.write.jobs import CallerDeadlines, Job, JobBatch, deliver

SHORT_S = 0.02
LONG_S = 60.0


def _job() -> Job:
    return Job(asyncio.get_running_loop(), task=lambda: None)


async def test_a_job_is_claimed_once() -> None:
    job = _job()
    assert [job.claim(), job.claim()] == [True, False]


async def test_what_the_writer_never_began_was_not_written() -> None:
    job = _job()
    with pytest.raises(StoreUnavailable):
        await job.answer(CallerDeadlines(SHORT_S))
    assert not job.claim()


async def test_what_the_writer_began_has_an_unknown_outcome_and_its_late_answer_is_dropped() -> (
    None
):
    job = _job()
    assert job.claim()
    with pytest.raises(OutcomeUnknown):
        await job.answer(CallerDeadlines(SHORT_S))
    deliver([(job, "late")])
    await asyncio.sleep(0)


async def test_an_answer_in_time_comes_from_any_thread() -> None:
    patience = CallerDeadlines(LONG_S)
    job, failing = _job(), _job()
    error = StoreUnavailable("no")
    thread = threading.Thread(target=deliver, args=([(job, 7), (failing, error)],))
    thread.start()
    assert await job.answer(patience) == 7
    with pytest.raises(StoreUnavailable) as told:
        await failing.answer(patience)
    assert told.value is error
    thread.join(10)


def test_an_answer_for_a_loop_that_is_gone_harms_nobody() -> None:
    async def made() -> Job:
        return _job()

    deliver([(asyncio.run(made()), 7)])


async def test_those_that_come_later_expire_later_and_all_of_them_do() -> None:
    patience = CallerDeadlines(SHORT_S)
    first = asyncio.ensure_future(_job().answer(patience))
    with pytest.raises(StoreUnavailable):
        await first
    with pytest.raises(StoreUnavailable):
        await _job().answer(patience)


async def test_an_answer_in_time_is_given_and_nothing_is_kept_of_it() -> None:
    patience = CallerDeadlines(LONG_S)
    jobs = [_job() for _ in range(3)]
    waiting = [asyncio.ensure_future(job.answer(patience)) for job in jobs]
    await asyncio.sleep(0)
    line = patience._of[jobs[0].loop]
    assert len(line._waiting) == 3
    deliver([(job, number) for number, job in enumerate(jobs)])
    assert await asyncio.gather(*waiting) == [0, 1, 2]
    assert not line._waiting


async def test_one_that_hangs_does_not_hide_the_answers_behind_it() -> None:
    patience = CallerDeadlines(SHORT_S)
    hangs, answered = _job(), _job()
    first = asyncio.ensure_future(hangs.answer(patience))
    second = asyncio.ensure_future(answered.answer(patience))
    await asyncio.sleep(0)
    deliver([(answered, "told")])
    assert await second == "told"
    with pytest.raises(StoreUnavailable):
        await first


async def test_what_one_turn_of_a_loop_makes_is_queued_together_and_in_order() -> None:
    queued: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    gathering = JobBatch(queued, lambda: True)
    jobs = [_job() for _ in range(3)]
    for job in jobs:
        gathering.add(job)
    assert queued.empty()
    assert len(gathering) == 3
    await asyncio.sleep(0)
    assert [queued.get_nowait() for _ in jobs] == jobs
    assert len(gathering) == 0


async def test_what_is_gathered_when_the_writer_closes_is_queued_and_later_ones_are_refused() -> (
    None
):
    queued: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    is_open = True
    gathering = JobBatch(queued, lambda: is_open)
    early, late = _job(), _job()
    gathering.add(early)
    is_open = False
    gathering.hurry()
    assert queued.get_nowait() is early
    gathering.add(late)
    with pytest.raises(StoreUnavailable):
        await late.answer(CallerDeadlines(LONG_S))
    assert queued.empty()
