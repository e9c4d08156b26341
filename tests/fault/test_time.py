"""Clocks that jump, and disks that are slow: order is by number, and nobody waits without end."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from pathlib import Path

import pytest

from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions
from storage.ground.errors import OutcomeUnknown, StoreUnavailable
from storage.values import Decision, Outcome
from storage.write.writer import WriterOptions
from tests.unit.storage.opening import TENANT, Bench, Clock, candidate_of, say, submission_of, write

HOUR_MS = 3_600_000
JUMPS_MS = (0, HOUR_MS, -HOUR_MS, 30 * 24 * HOUR_MS, -30 * 24 * HOUR_MS, 0)
NOW_MS = 1_750_000_000_000
COMMIT_S = 0.02
REQUESTS = 120


def test_a_clock_that_jumps_changes_neither_order_nor_numbers(tmp_path: Path) -> None:
    clock = Clock(NOW_MS)
    bench = Bench(tmp_path, clock)
    store = bench.open()
    texts: list[str] = []
    for number, jump_ms in enumerate(JUMPS_MS * 3):
        clock.now_ms = NOW_MS + jump_ms
        outcome = say(store, f"fact {number}", nonce=f"n-{number}")
        texts.append(f"fact {number}")
        assert (outcome.decision, outcome.version) == (Decision.ADMIT, number + 1)
    shown = [memory.text for memory in store.reader.page(TENANT, EVERYTHING, 0, 99).memories]
    assert shown == texts[::-1]
    assert store.reader.check().problems == ()
    store.close()
    # A start before the epoch of its own past: nonces stay spent, and the log goes on.
    clock.now_ms = NOW_MS - 400 * 24 * HOUR_MS
    store = bench.open()
    again = write(store, submission_of(candidate_of("fact 3", nonce="n-3")))[0]
    assert (again.replayed, again.version) == (True, 4)
    assert say(store, "afterwards").version == len(texts) + 1
    assert store.reader.check().problems == ()
    store.close()


def test_a_clock_that_goes_backwards_inside_a_batch_is_only_a_time(tmp_path: Path) -> None:
    ticks = itertools.cycle((NOW_MS, NOW_MS - HOUR_MS, NOW_MS + HOUR_MS))
    bench = Bench(tmp_path)
    bench.clock = ticks.__next__  # type: ignore[assignment]
    store = bench.open()
    outcomes = write(store, *(submission_of(candidate_of(f"fact {n}")) for n in range(9)))
    assert sorted(one.version for one in outcomes) == list(range(1, 10))
    assert store.reader.check().problems == ()
    store.close()


def test_what_expired_is_not_shown_whichever_way_the_clock_goes(tmp_path: Path) -> None:
    clock = Clock(NOW_MS)
    store = Bench(tmp_path, clock).open()
    say(store, "for a while", expires_at="2025-06-15T16:00:00Z")  # an hour and some from now
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 1
    clock.now_ms = NOW_MS + 30 * 24 * HOUR_MS
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 0
    assert store.reader.check().problems == ()
    store.close()


class SlowDisk:
    """Takes a while for every commit, once it is slow."""

    def __init__(self) -> None:
        self.slow = False
        self.commits = 0
        self._never = threading.Event()

    def __call__(self, name: str) -> None:
        if self.slow and name == "before_commit":
            self.commits += 1
            self._never.wait(COMMIT_S)


def test_on_a_slow_disk_writers_share_commits_and_readers_do_not_wait(tmp_path: Path) -> None:
    disk = SlowDisk()
    store = Bench(tmp_path).open(disk)
    say(store, "before")
    disk.slow = True
    slowest_read_s = 0.0

    async def read() -> None:
        nonlocal slowest_read_s
        for _ in range(20):
            started = time.perf_counter()
            store.reader.page(TENANT, EVERYTHING, 0, 1)
            slowest_read_s = max(slowest_read_s, time.perf_counter() - started)
            await asyncio.sleep(0)

    async def write_all() -> list[Outcome]:
        submissions = [submission_of(candidate_of(f"fact {n}")) for n in range(REQUESTS)]
        asking = (store.writer.submit(one) for one in submissions)
        outcomes, _ = await asyncio.gather(asyncio.gather(*asking), read())
        return outcomes

    outcomes = asyncio.run(write_all())
    assert len({one.version for one in outcomes}) == REQUESTS
    assert disk.commits < REQUESTS / 10  # no convoy: who waits together, commits together
    assert slowest_read_s < 10 * COMMIT_S + 0.5
    assert store.reader.check().problems == ()
    store.close()


def test_a_full_queue_refuses_at_once_and_whoever_was_accepted_is_answered(tmp_path: Path) -> None:
    disk = SlowDisk()
    options = EmbeddedOptions(
        quota_bytes=1 << 26,
        staging_quota_bytes=1 << 26,
        writer=WriterOptions(queue_len_max=10, batch_len_max=4),
    )
    store = Bench(tmp_path).open(disk, options=options)
    disk.slow = True

    async def ask() -> list[Outcome | BaseException]:
        asking = [store.writer.submit(submission_of(candidate_of(f"fact {n}"))) for n in range(60)]
        async with asyncio.timeout(10):
            return await asyncio.gather(*asking, return_exceptions=True)

    told = asyncio.run(ask())
    refused = [one for one in told if isinstance(one, StoreUnavailable)]
    admitted = len(told) - len(refused)
    assert len(refused) >= 40
    assert all("queue" in str(one) for one in refused)
    assert store.reader.status().version == admitted
    assert store.reader.check().problems == ()
    store.close()


def test_a_disk_slower_than_patience_is_an_unknown_outcome_that_a_retry_settles(
    tmp_path: Path,
) -> None:
    options = EmbeddedOptions(
        quota_bytes=1 << 26, staging_quota_bytes=1 << 26, writer=WriterOptions(answer_timeout_s=0.2)
    )
    hanging, goes_on = threading.Event(), threading.Event()

    def disk(name: str) -> None:
        if hanging.is_set() and name == "before_commit":
            goes_on.wait(30)

    store = Bench(tmp_path).open(disk, options=options)
    hanging.set()
    candidate = candidate_of("at last")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(store.writer.submit(submission_of(candidate)))
    hanging.clear()
    goes_on.set()
    for _ in range(100):
        if store.reader.status().version:
            break
        store.writer._thread.join(0.05)
    again = write(store, submission_of(candidate))[0]
    assert (again.decision, again.version, again.replayed) == (Decision.ADMIT, 1, True)
    assert store.reader.check().problems == ()
    store.close()
