"""What every journal promises; each test runs on each implementation."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from storage.ground.errors import (
    LeaseLost,
    StoreCorrupt,
    StoreUnavailable,
    TransactionFailed,
    UnknownFormat,
)
from storage.journal.lease import Renewal
from storage.journal.protocol import Journal, JournalRow, Stream
from storage.tables.codec import STORE_FORMAT
from tests.files_journal import FilesJournal
from tests.postgres_server import PostgresServer, member, serving
from tests.unit.storage.killing import killed_at

LONG_S = 600.0
Opened = Callable[..., Journal]


@pytest.fixture(scope="module")
def database() -> Generator[PostgresServer]:
    with serving() as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Opened:
    """Opens the one journal of a test in a directory, as another process each time."""

    def open_one(lease_s: float = LONG_S, store_format: int = STORE_FORMAT) -> Journal:
        return FilesJournal(
            tmp_path / "journal", address="here", store_format=store_format, lease_s=lease_s
        )

    return open_one


@pytest.fixture(params=["files", pytest.param("postgres", marks=pytest.mark.heavy)])
def opened(request: pytest.FixtureRequest, files: Opened, tmp_path: Path) -> Generator[Opened]:
    """Opens the one journal of a test, as another process each time."""
    if request.param == "files":
        yield files
        return
    server: PostgresServer = request.getfixturevalue("database")
    journals: list[Journal] = []

    def open_one(lease_s: float = LONG_S, store_format: int = STORE_FORMAT) -> Journal:
        journal = member(
            server, tmp_path.name, str(len(journals)), lease_s, written_format=store_format
        )
        journals.append(journal)
        return journal

    yield open_one
    for one in journals:
        one.close()


def row(seq: int, body: bytes = b"") -> JournalRow:
    return JournalRow(seq=seq, first_ordinal=seq, next_ordinal=seq + 1, body=body or b"%d" % seq)


def filled(journal: Journal, count: int) -> list[JournalRow]:
    rows = [row(seq) for seq in range(1, count + 1)]
    for one in rows:
        journal.append(Stream.STORE, one)
    return rows


def test_rows_come_back_in_order_from_any_place(opened: Opened) -> None:
    journal = opened()
    assert journal.acquire()
    rows = filled(journal, 3)
    follower = opened()
    assert list(follower.since(Stream.STORE, 0)) == rows
    assert list(follower.since(Stream.STORE, 2)) == rows[2:]
    assert list(follower.since(Stream.STORE, 3)) == []
    assert list(follower.since(Stream.SESSIONS, 0)) == []


def test_a_second_process_takes_no_lease_that_is_not_over(opened: Opened) -> None:
    first, second = opened(), opened()
    assert first.acquire()
    assert not second.acquire()
    assert first.holds()
    assert not second.holds()
    first.release()
    assert not first.holds()
    assert second.acquire()


def test_a_lease_ends_by_itself(opened: Opened) -> None:
    first, second = opened(lease_s=0.0), opened()
    assert first.acquire()
    assert not first.holds()
    assert second.acquire()
    found = second.lease()
    assert found is not None
    assert found.remaining_s > 0


def test_a_past_holder_appends_nothing_to_any_stream(opened: Opened) -> None:
    first, second = opened(lease_s=0.0), opened()
    assert first.acquire()
    rows = filled(first, 1)
    assert second.acquire()
    # The new holder has appended nothing yet, so the next number is free.
    for stream, seq in ((Stream.STORE, 2), (Stream.SESSIONS, 1)):
        with pytest.raises(LeaseLost):
            first.append(stream, row(seq))
        with pytest.raises(LeaseLost):
            first.settle(stream)
    with pytest.raises(LeaseLost):
        first.renew()
    with pytest.raises(LeaseLost):
        first.exchange(Stream.STORE, [row(1, b"other")])
    with pytest.raises(LeaseLost):
        first.rebase(Stream.STORE, [row(2)])
    assert list(second.since(Stream.STORE, 0)) == rows


def test_control_without_the_epoch_a_past_holder_appends(files: Opened) -> None:
    first, second = files(lease_s=0.0), files()
    assert first.acquire()
    assert second.acquire()
    with patch.object(FilesJournal, "_fenced", return_value=True):
        first.append(Stream.STORE, row(1))
    assert list(second.since(Stream.STORE, 0)) == [row(1)]


@pytest.mark.parametrize("seq", [1, 3])
def test_a_number_that_is_not_the_next_is_refused(opened: Opened, seq: int) -> None:
    journal = opened()
    assert journal.acquire()
    rows = filled(journal, 1)
    with pytest.raises(LeaseLost):
        journal.append(Stream.STORE, row(seq, b"other"))
    assert list(journal.since(Stream.STORE, 0)) == rows


def test_settling_returns_the_last_row_and_ends_what_was_appended_before(opened: Opened) -> None:
    journal = opened()
    assert journal.acquire()
    assert journal.settle(Stream.STORE) == 0
    filled(journal, 2)
    assert journal.settle(Stream.STORE) == 2
    journal.append(Stream.STORE, row(3))
    assert journal.holds()


def test_a_missing_row_and_a_journal_that_ends_too_early_are_noticed(
    files: Opened, tmp_path: Path
) -> None:
    journal = files()
    assert journal.acquire()
    filled(journal, 3)
    with pytest.raises(StoreCorrupt, match="ends at row 3, and row 4"):
        list(journal.since(Stream.STORE, 4))
    (tmp_path / "journal" / "store" / f"{2:020d}").unlink()
    with pytest.raises(StoreCorrupt, match="row 2 "):
        list(journal.since(Stream.STORE, 0))


def test_an_older_version_takes_no_lease_of_a_newer_one(opened: Opened) -> None:
    newer = opened(store_format=STORE_FORMAT + 1)
    assert newer.acquire()
    newer.release()
    with pytest.raises(UnknownFormat, match=f"format {STORE_FORMAT + 1}"):
        opened().acquire()


def test_rows_are_exchanged_together(opened: Opened) -> None:
    journal = opened()
    assert journal.acquire()
    filled(journal, 3)
    journal.exchange(Stream.STORE, [row(1, b"x"), row(3, b"z")])
    assert list(journal.since(Stream.STORE, 0)) == [row(1, b"x"), row(2), row(3, b"z")]
    with pytest.raises(StoreCorrupt):
        journal.exchange(Stream.STORE, [row(2, b"y"), row(9)])
    assert list(journal.since(Stream.STORE, 1)) == [row(2), row(3, b"z")]


def test_a_base_drops_the_rows_before_it(opened: Opened) -> None:
    journal = opened()
    assert journal.acquire()
    filled(journal, 3)
    assert journal.begins(Stream.STORE) == 1
    journal.rebase(Stream.STORE, [row(4), row(5)])
    assert journal.begins(Stream.STORE) == 4
    assert list(journal.since(Stream.STORE, 3)) == [row(4), row(5)]
    with pytest.raises((StoreCorrupt, StoreUnavailable)):
        list(journal.since(Stream.STORE, 0))
    journal.append(Stream.STORE, row(6))
    assert journal.settle(Stream.STORE) == 6


@pytest.mark.parametrize("call", range(1, 12))
def test_a_change_of_several_rows_that_a_crash_cuts_is_whole_or_not_there(
    files: Opened, call: int
) -> None:
    journal = files()
    assert journal.acquire()
    before = filled(journal, 2)
    after = [row(1, b"x"), row(2, b"y")]
    calls = 0
    real = os.fsync

    def crash(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(5, "Input/output error")
        real(handle)

    with patch("os.fsync", crash):
        try:
            journal.exchange(Stream.STORE, after)
        except TransactionFailed:
            found = list(files().since(Stream.STORE, 0))
            assert found in (before, after)
    journal.exchange(Stream.STORE, after)
    assert list(files().since(Stream.STORE, 0)) == after


@pytest.mark.parametrize("change", ["exchange", "rebase"])
def test_a_change_of_several_rows_is_whole_or_not_there_wherever_a_kill_cuts_it(
    tmp_path: Path, change: str
) -> None:
    """A kill before each change of a name in the directory, until one change ends without."""
    given = {"exchange": [row(1, b"x"), row(2, b"y")], "rebase": [row(3), row(4)]}[change]

    def opened_in(directory: Path) -> FilesJournal:
        return FilesJournal(directory, address="", store_format=STORE_FORMAT, lease_s=LONG_S)

    outcomes = list[bool]()
    for step in range(1, 100):
        directory = tmp_path / str(step)
        journal = opened_in(directory)
        assert journal.acquire()
        before = filled(journal, 2)
        killed = killed_at(step, partial(getattr(journal, change), Stream.STORE, given))
        after = opened_in(directory)
        found = list(after.since(Stream.STORE, after.begins(Stream.STORE) - 1))
        assert found in (before, given)
        outcomes.append(found == given)
        if found == before:
            getattr(journal, change)(Stream.STORE, given)
        assert list(after.since(Stream.STORE, after.begins(Stream.STORE) - 1)) == given
        if not killed:
            break
    # Once there it stays, and kills hit both sides.
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 2
    assert outcomes.count(True) > 5


def test_an_append_that_the_disk_refused_is_unknown_until_it_is_settled(files: Opened) -> None:
    journal = files()
    assert journal.acquire()
    broken = patch("os.fsync", side_effect=OSError(5, "Input/output error"))
    with broken, pytest.raises(TransactionFailed):
        journal.append(Stream.STORE, row(1))
    last = journal.settle(Stream.STORE)
    journal.append(Stream.STORE, row(last + 1))
    assert [one.seq for one in journal.since(Stream.STORE, 0)] == list(range(1, last + 2))


def test_a_lease_is_renewed_until_it_is_lost(opened: Opened) -> None:
    first, second = opened(lease_s=0.03), opened()
    assert first.acquire()
    renewal = Renewal(first, 0.03)
    while not second.acquire():
        first.release()
    renewal.stop()
    assert not first.holds()
    assert second.holds()


def test_what_is_stored_of_each_stream_is_counted(opened: Opened) -> None:
    journal = opened()
    assert [(one.stream, one.rows, one.epoch) for one in journal.streams()] == [
        (Stream.STORE, 0, 0),
        (Stream.SESSIONS, 0, 0),
    ]
    assert journal.acquire()
    filled(journal, 3)
    found = opened().streams()[0]
    assert (found.begins, found.seq, found.rows, found.missing, found.bytes) == (1, 3, 3, 0, 3)
    assert (found.epoch, journal.streams()[1].seq) == (1, 0)
    journal.rebase(Stream.STORE, [row(4, b"four"), row(5, b"five")])
    found = opened().streams()[0]
    assert (found.begins, found.seq, found.rows, found.missing, found.bytes) == (4, 5, 2, 0, 8)


def test_a_row_that_is_gone_is_counted_as_missing(files: Opened, tmp_path: Path) -> None:
    journal = files()
    assert journal.acquire()
    filled(journal, 3)
    (tmp_path / "journal" / "store" / f"{2:020d}").unlink()
    found = journal.streams()[0]
    assert (found.seq, found.rows, found.missing, found.bytes) == (3, 2, 1, 2)


def test_a_holder_that_is_asked_to_step_down_renews_no_more_and_ends_its_own_lease(
    opened: Opened,
) -> None:
    first, second, asking = opened(), opened(), opened()
    assert not asking.step_down()
    assert first.acquire()
    first.renew()
    # Asking twice is asking once.
    assert asking.step_down()
    assert asking.step_down()
    # Until it learns of that, it may answer: no one else has the store.
    assert first.holds()
    assert not second.acquire()
    with pytest.raises(LeaseLost):
        first.renew()
    assert not first.holds()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    assert not first.acquire()


def test_a_past_holder_does_not_end_the_lease_of_one_that_is_asked_to_step_down(
    opened: Opened,
) -> None:
    first, second, third = opened(lease_s=0.0), opened(), opened()
    assert first.acquire()
    assert second.acquire()
    assert third.step_down()
    first.release()
    assert second.holds()
    assert not third.acquire()
    # Control: the one that was asked ends it.
    second.release()
    assert third.acquire()
