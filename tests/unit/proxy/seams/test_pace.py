"""Who goes on when, where more is to be done than fits into one turn of the loop."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from proxy.seams.pace import LARGE, SLICE_S, Pace


class Clock:
    """Seconds that pass only where work is done."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def work(pace: Pace, clock: Clock, owner: str, done: list[str], times: int) -> None:
    """Do `times` pieces of work, each of which takes half a slice."""
    for _ in range(times):
        clock.now_s += SLICE_S / 2
        done.append(owner)
        await pace.step(owner)


async def turns_of_the_loop(done: list[str], over: asyncio.Event) -> list[int]:
    """How many pieces were done by each turn of the loop."""
    counts: list[int] = []
    while not over.is_set():
        counts.append(len(done))
        await asyncio.sleep(0)
    return counts


async def test_work_of_all_gets_one_slice_of_each_turn_of_the_loop() -> None:
    clock, done, over = Clock(), list[str](), asyncio.Event()
    pace = Pace(clock)

    async def all_of_it() -> None:
        async with asyncio.TaskGroup() as group:
            for owner in "abc":
                group.create_task(work(pace, clock, owner, done, 20))
        over.set()

    async with asyncio.TaskGroup() as group:
        counted = group.create_task(turns_of_the_loop(done, over))
        group.create_task(all_of_it())
    counts = counted.result()
    each = [after - before for before, after in pairwise(counts)]
    # In the first turn each of the three begins, before it is known how long that takes.
    assert max(each) <= 6
    assert max(each[2:]) <= 3
    assert len(done) == 60


async def test_who_has_little_to_do_does_not_wait_for_all_of_another() -> None:
    clock, done = Clock(), list[str]()
    pace = Pace(clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(work(pace, clock, "flood", done, 4))
        group.create_task(work(pace, clock, "other", done, 4))
    last = max(at for at, owner in enumerate(done) if owner == "other")
    assert last < 60, "a principal is one, however many requests it sends"
    assert len(done) == 124


async def test_work_that_was_given_up_stops_nobody() -> None:
    clock, done = Clock(), list[str]()
    pace = Pace(clock)
    tasks = [asyncio.create_task(work(pace, clock, owner, done, 6)) for owner in "ab"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await tasks[1]
    assert done.count("b") == 6


async def test_what_is_large_is_done_on_another_thread() -> None:
    pace = Pace()
    here = threading.get_ident()
    assert await pace.aside("a", LARGE, threading.get_ident) == here
    assert await pace.aside("a", LARGE + 1, threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        await pace.aside("a", LARGE + 1, divmod, 1, 0)
    pace.close()


async def test_a_principal_has_one_thing_on_the_thread_at_a_time() -> None:
    pace = Pace()
    order: list[str] = []
    first = threading.Event()

    def note(name: str) -> None:
        first.wait(10)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for name in ("a1", "a2", "a3", "b1"):
            group.create_task(pace.aside(name[0], LARGE + 1, note, name))
        await asyncio.sleep(0)
        first.set()
    assert order == ["a1", "b1", "a2", "a3"]
    pace.close()
