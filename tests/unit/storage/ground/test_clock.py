"""Time goes on from the latest that was known; random bytes of a pool are the kernel's."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from storage.ground.clock import SLACK_NS, SteadyClock
from storage.ground.randomness import BLOCK_LEN, random_bytes
from tests.unit.storage.opening import Bench, Clock, say

HOUR_NS = 3_600 * 10**9
HOUR_MS = HOUR_NS // 10**6


class Hands:
    """A wall clock and a monotonic one, moved by hand."""

    def __init__(self) -> None:
        self.wall_ns = 1_750_000_000 * 10**9
        self.monotonic_ns = 7

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall_ns, lambda: self.monotonic_ns)


def test_a_clock_that_runs_is_followed_and_one_set_back_is_not() -> None:
    hands = Hands()
    clock = hands.clock()
    began = clock()
    hands.wall_ns += HOUR_NS  # a jump ahead is believed: a suspended machine does that
    assert clock() == began + HOUR_NS
    hands.wall_ns -= 24 * HOUR_NS
    assert clock() == began + HOUR_NS
    hands.monotonic_ns += HOUR_NS  # and time does not stand still meanwhile
    assert clock() == began + 2 * HOUR_NS
    assert clock.behind_s() == 25 * 3_600
    hands.wall_ns += 26 * HOUR_NS
    assert clock() == began + 3 * HOUR_NS
    assert clock.behind_s() == 0


def test_a_clock_that_is_put_right_by_a_second_is_believed_and_cannot_creep() -> None:
    hands = Hands()
    clock = hands.clock()
    began = clock()
    hands.wall_ns -= SLACK_NS // 2
    assert clock() == began - SLACK_NS // 2
    assert clock.behind_s() == 0
    hands.wall_ns -= SLACK_NS
    assert clock() == began


def test_it_is_not_before_what_the_store_knows() -> None:
    hands = Hands()
    clock = hands.clock()
    later_ms = clock.now_ms() + HOUR_MS
    clock.not_before(later_ms)
    assert clock.now_ms() == later_ms
    clock.not_before(later_ms - HOUR_MS)
    assert clock.now_ms() == later_ms


def test_the_store_keeps_the_latest_time_of_a_write_and_of_a_stop(tmp_path: Path) -> None:
    clock = Clock()
    bench = Bench(tmp_path, clock)
    store = bench.open()
    clock.now_ms += HOUR_MS
    say(store, "Ada likes tea.")
    late = clock.now_ms
    assert store.time_ms == late
    clock.now_ms -= 24 * HOUR_MS
    say(store, "Ada likes rum.")
    assert store.time_ms == late
    clock.now_ms = late + 2 * HOUR_MS  # nothing is written any more, but it is stopped
    leaves = store.reader.status().leaf_count
    store.close()
    clock.now_ms = late - 24 * HOUR_MS
    store = bench.open()
    assert store.time_ms == late + 2 * HOUR_MS
    assert store.reader.status().leaf_count == leaves
    assert store.reader.check().problems == ()
    store.close()


def test_no_bytes_are_given_twice_across_blocks_and_threads() -> None:
    drawn: list[bytes] = []

    def draw() -> None:
        drawn.extend(random_bytes(16) for _ in range(3 * BLOCK_LEN // 16))

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    draw()
    assert len(set(drawn)) == len(drawn)
    assert all(len(one) == 16 for one in drawn)


def test_more_than_a_block_is_given_at_once() -> None:
    assert len(set(random_bytes(2 * BLOCK_LEN))) > 250


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    random_bytes(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_bytes(32))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 32)
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 32
    assert theirs != random_bytes(32)
