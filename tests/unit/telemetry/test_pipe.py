"""The pipe: what is offered arrives once or is counted as dropped, and nobody waits."""

from __future__ import annotations

import threading
import time

from telemetry import pipe
from telemetry.pipe import Pipe

WAIT_S = 20.0


def test_everything_offered_arrives_once_and_in_order() -> None:
    arrived: list[int] = []

    def deliver(batch: list[int]) -> int:
        arrived.extend(batch)
        return len(batch)

    numbers: Pipe[int] = Pipe("test", deliver)
    for number in range(50_000):
        assert numbers.offer(number)
    numbers.close(WAIT_S)
    assert arrived == list(range(50_000))
    counts = numbers.counts()
    assert (counts.offered, counts.delivered, counts.dropped) == (50_000, 50_000, 0)


def test_batches_are_bounded() -> None:
    sizes: list[int] = []

    def deliver(batch: list[int]) -> int:
        sizes.append(len(batch))
        return len(batch)

    numbers: Pipe[int] = Pipe("test", deliver)
    for number in range(10_000):
        numbers.offer(number)
    numbers.close(WAIT_S)
    assert max(sizes) <= pipe.BATCH_LEN_MAX
    assert sum(sizes) == 10_000


class Stuck:
    """A far side that takes a batch and does not come back until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self, batch: list[int]) -> int:
        self.entered.set()
        self.release.wait(WAIT_S)
        return len(batch)


def test_a_stuck_far_side_fills_the_pipe_and_only_then_events_are_dropped() -> None:
    stuck = Stuck()
    numbers: Pipe[int] = Pipe("test", stuck)
    numbers.offer(0)
    assert stuck.entered.wait(WAIT_S)
    room = pipe.QUEUE_LEN_MAX - pipe.URGENT_RESERVE
    taken = sum(numbers.offer(number) for number in range(room + 500))
    assert taken == room
    assert numbers.counts().dropped == 500
    stuck.release.set()
    numbers.close(WAIT_S)


def test_a_refusal_finds_a_place_when_a_flood_of_admits_no_longer_does() -> None:
    stuck = Stuck()
    numbers: Pipe[int] = Pipe("test", stuck)
    numbers.offer(0)
    assert stuck.entered.wait(WAIT_S)
    while numbers.offer(1):
        pass
    assert numbers.offer(2, urgent=True)
    taken = 1
    while numbers.offer(2, urgent=True):
        taken += 1
    assert taken == pipe.URGENT_RESERVE
    stuck.release.set()
    numbers.close(WAIT_S)


def test_closing_does_not_wait_for_a_stuck_far_side_and_counts_what_is_lost() -> None:
    stuck = Stuck()
    numbers: Pipe[int] = Pipe("test", stuck)
    numbers.offer(0)
    assert stuck.entered.wait(WAIT_S)
    for number in range(100):
        numbers.offer(number)
    started_s = time.monotonic()
    numbers.close(0.2)
    assert time.monotonic() - started_s < 10.0
    assert numbers.counts().dropped == 101
    assert not numbers.offer(1)
    stuck.release.set()
    # A batch whose delivery ends after the close is not counted a second time.
    numbers.close(WAIT_S)
    counts = numbers.counts()
    assert (counts.delivered, counts.dropped, counts.waiting) == (0, 102, 0)


def test_threads_that_offer_at_once_lose_nothing() -> None:
    arrived: list[int] = []

    def deliver(batch: list[int]) -> int:
        arrived.extend(batch)
        return len(batch)

    numbers: Pipe[int] = Pipe("test", deliver)

    def offer_all(first: int) -> None:
        for number in range(first, first + 5_000):
            numbers.offer(number)

    threads = [threading.Thread(target=offer_all, args=(n * 5_000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers.close(WAIT_S)
    assert sorted(arrived) == list(range(40_000))
