"""Who goes on when, while a long piece of work is done that changes what others read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import pairwise

from proxy.seams.pace import SLICE_S, Pace
from proxy.seams.slices import LARGE, STEPS, apart, rest, resting

SLICE = 8
"""Pieces of work that fill a slice by the clock of these tests."""


class Clock:
    """Seconds that pass only where work is done."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def work(self, done: list[str], name: str, times: int) -> Callable[[], str]:
        """Work in `times` pieces, with a rest before each, on a thread other than the loop's."""

        def call() -> str:
            for _ in range(times):
                rest()
                self.now_s += SLICE_S / SLICE
                done.append(name)
            return f"{name} on {threading.current_thread().name}"

        return call


async def test_others_go_on_after_each_slice_of_a_long_piece_of_work() -> None:
    clock, done, counts = Clock(), list[str](), list[int]()
    pace, over = Pace(clock), asyncio.Event()

    async def long() -> None:
        assert "mnemogate-sliced" in await pace.in_turn("a", LARGE + 1, clock.work(done, "a", 100))
        over.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(long())
        while not over.is_set():
            counts.append(len(done))
            await asyncio.sleep(0)
    longest = max(after - before for before, after in pairwise(counts))
    assert longest <= SLICE + 1
    assert len(done) == 100
    # Control: what is short is done where it is asked for, in one piece.
    assert "mnemogate-sliced" not in await pace.in_turn("a", LARGE, clock.work(done, "a", 100))
    pace.close()


async def test_two_lines_take_turns() -> None:
    clock, done = Clock(), list[str]()
    pace = Pace(clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(pace.in_turn("a", LARGE + 1, clock.work(done, "a", 20 * SLICE)))
        group.create_task(pace.in_turn("b", LARGE + 1, clock.work(done, "b", SLICE)))
    assert done.index("b") < 4 * SLICE, "the other tenant does not wait for all of it"
    assert "a" in done[done.index("b") :]
    pace.close()


async def test_a_line_keeps_the_order_in_which_its_pieces_came_short_ones_too() -> None:
    clock, done = Clock(), list[str]()
    pace = Pace(clock)
    async with asyncio.TaskGroup() as group:
        for name, size in (("1", LARGE + 1), ("2", 0), ("3", LARGE + 1), ("4", 1)):
            group.create_task(pace.in_turn("a", size, clock.work(done, name, 3 * SLICE)))
        other = group.create_task(pace.in_turn("b", 0, clock.work(done, "b", 1)))
    assert other.result()
    assert [one for one in done if one != "b"] == [
        name for name in "1234" for _ in range(3 * SLICE)
    ]
    assert done[0] == "b", "another line is not waited for"
    pace.close()


async def test_what_was_begun_is_finished_and_what_was_not_never_begins() -> None:
    clock, done = Clock(), list[str]()
    pace = Pace(clock)
    began = asyncio.create_task(pace.in_turn("a", LARGE + 1, clock.work(done, "1", 9 * SLICE)))
    waits = asyncio.create_task(pace.in_turn("a", LARGE + 1, clock.work(done, "2", SLICE)))
    for _ in range(10_000):
        await asyncio.sleep(0)
        if done:
            break
    began.cancel()
    waits.cancel()
    assert len(done) < 9 * SLICE
    # The next of the line comes behind all of the first.
    await pace.in_turn("a", 0, clock.work(done, "3", 1))
    assert done == ["1"] * (9 * SLICE) + ["3"]
    early = asyncio.create_task(pace.in_turn("a", LARGE + 1, clock.work(done, "4", 1)))
    await asyncio.sleep(0)
    early.cancel()
    await pace.in_turn("a", LARGE + 1, clock.work(done, "5", 1))
    assert done[-2:] == ["3", "5"]
    pace.close()


async def test_a_pure_function_of_a_long_text_runs_beside_the_loop() -> None:
    pace, answered = Pace(), threading.Event()
    loop = asyncio.get_running_loop()

    def waits(text: str) -> int:
        # Only a turn of the loop that is not held up sets it.
        loop.call_soon_threadsafe(answered.set)
        return len(text) if answered.wait(30) else -1

    long = "x" * (LARGE + 1)
    assert await pace.in_turn("a", len(long), lambda: apart(waits, long)) == len(long)
    # Control: outside of sliced work, and for a short text, it is a plain call.
    assert apart(_thread_of, long) == threading.get_ident()
    here = await pace.in_turn("a", len(long), lambda: apart(_thread_of, "x") == _thread_of(""))
    assert here
    pace.close()


def _thread_of(text: str) -> int:
    del text
    return threading.get_ident()


async def test_a_rest_comes_before_every_few_items() -> None:
    clock, done = Clock(), list[int]()
    pace, counts, over = Pace(clock), list[int](), asyncio.Event()

    def call() -> None:
        for one in resting(range(10 * STEPS)):
            clock.now_s += SLICE_S
            done.append(one)

    async def long() -> None:
        await pace.in_turn("a", LARGE + 1, call)
        over.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(long())
        while not over.is_set():
            counts.append(len(done))
            await asyncio.sleep(0)
    assert set(counts) >= {STEPS * at for at in range(1, 10)}
    assert [*resting(range(3))] == [0, 1, 2]
    pace.close()
