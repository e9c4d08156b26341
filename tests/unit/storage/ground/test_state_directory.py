"""The state directory is private and held by one gate; time goes on; random bytes are new."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.ground.clock import SLACK_NS, SteadyClock
from storage.ground.errors import StoreCorrupt, StoreLocked, UnknownFormat
from storage.ground.randomness import BLOCK_LEN, random_bytes
from storage.ground.state_directory import StateDirectory, write_durably
from storage.tables.lmdb_store import Lease
from tests.unit.storage.opening import Bench, Clock, say


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    opened = StateDirectory(tmp_path / "state")
    yield opened
    opened.close()


def test_everything_below_is_for_the_owner_alone(directory: StateDirectory) -> None:
    directory.secrets()
    directory.mark_bootstrapped()
    for path in (directory.root, *directory.root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_open_directory_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    directory = StateDirectory(tmp_path / "state")
    assert directory.root.stat().st_mode & 0o777 == 0o700
    directory.close()


def test_a_second_gate_is_turned_away_until_the_first_is_gone(directory: StateDirectory) -> None:
    with pytest.raises(StoreLocked):
        StateDirectory(directory.root)
    directory.close()
    StateDirectory(directory.root).close()


def test_secrets_are_made_once_and_never_shown(directory: StateDirectory) -> None:
    first = directory.secrets()
    assert directory.secrets() == first
    assert len({first.store_key, first.log_key, first.token_key}) == 3
    assert first.store_key.hex() not in repr(first)
    assert repr(first.store_key) not in repr(first)


@pytest.mark.parametrize("name", ["store.key", "log.key", "token.key"])
def test_a_secret_missing_from_a_store_in_use_is_not_replaced(
    directory: StateDirectory, name: str
) -> None:
    directory.secrets()
    directory.mark_bootstrapped()
    (directory.root / "secrets" / name).unlink()
    with pytest.raises(StoreCorrupt, match=name):
        directory.secrets()


def test_a_directory_of_another_format_is_refused(directory: StateDirectory) -> None:
    directory.mark_bootstrapped()
    assert directory.bootstrapped, "control"
    (directory.root / "marker").write_bytes(b"mnemogate state directory, format 0\n")
    with pytest.raises(UnknownFormat, match="another format"):
        _ = directory.bootstrapped
    with pytest.raises(UnknownFormat):
        directory.secrets()


def test_a_truncated_secret_is_refused(directory: StateDirectory) -> None:
    directory.secrets()
    (directory.root / "secrets" / "store.key").write_bytes(b"short")
    with pytest.raises(StoreCorrupt):
        directory.secrets()


def test_a_file_is_replaced_whole_and_leaves_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_durably(target, b"one")
    write_durably(target, b"two")
    assert target.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    write_durably(target, b"one")

    def refused(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("storage.ground.state_directory.os.fsync", refused)
    with pytest.raises(OSError, match="No space"):
        write_durably(target, b"two")
    assert target.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [target]


def test_readers_hold_it_together() -> None:
    lease = Lease()
    with lease.shared():
        other = threading.Thread(target=lambda: lease.shared().__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()


def test_who_wants_it_alone_waits_for_readers_and_keeps_new_ones_out() -> None:
    lease = Lease()
    order: list[str] = []
    wants, has = threading.Event(), threading.Event()

    def alone() -> None:
        wants.set()
        with lease.exclusive():
            order.append("alone")
            has.set()

    with lease.shared():
        thread = threading.Thread(target=alone)
        thread.start()
        assert wants.wait(10)
        order.append("reader")
    assert has.wait(10)
    thread.join(10)
    with lease.shared():
        order.append("reader again")
    assert order == ["reader", "alone", "reader again"]


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
