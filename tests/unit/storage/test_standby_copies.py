"""A standby's copy of a shared store, which follows the journal, and a journal that begins anew."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from storage.embedded import EmbeddedStore
from storage.ground.errors import (
    StoreCorrupt,
    StoreLocked,
)
from storage.ground.state_directory import StateDirectory
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import Batch, Position, Sealing
from storage.shard import ShardMember
from storage.tables.codec import STORE_FORMAT
from tests.unit.storage.opening import (
    say,
)
from tests.unit.storage.shards import OPTIONS, SECRET, Shard, Unanswered, texts


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    return Shard(tmp_path)


def member_of(shard: Shard, name: str) -> tuple[ShardMember, Path]:
    """A member that does not hold the store, and its state directory."""
    secrets = shard.root / "shared"
    if not secrets.exists():
        shutil.copytree(shard.secrets, secrets)
        (secrets / "journal.key").write_bytes(SECRET)
        (secrets / "journal.key").chmod(0o600)
    return ShardMember(shard.journal(), "shard", secrets, ()), shard.root / name / "state"


@contextmanager
def rows_read() -> Generator[list[int]]:
    """The numbers of the rows of the journal that are opened meanwhile."""
    read = list[int]()
    real = Sealing.open

    def opened(self: Sealing, row: JournalRow, last: Position) -> tuple[Batch, Position]:
        read.append(row.seq)
        return real(self, row, last)

    with patch.object(Sealing, "open", opened):
        yield read


def begin_anew(store: EmbeddedStore) -> None:
    """Let the journal begin anew, as if it were too long."""

    async def run() -> None:
        await store.writer.run(store.lmdb.shorten_journal)

    with patch("storage.shipped._JOURNAL_PER_STORE", 0):
        asyncio.run(run())


def numbers(shard: Shard) -> list[int]:
    return sorted(int(one.name) for one in (shard.root / "journal" / "store").glob("0*"))


def test_a_standby_that_followed_reads_at_its_takeover_only_what_it_lacks(shard: Shard) -> None:
    journal = shard.journal()
    first = shard.open("a", journal)
    member, state = member_of(shard, "b")
    for number in range(3):
        say(first, f"fact {number}")
        member.follow(state, OPTIONS.quota_bytes)
    with rows_read() as idle:
        member.follow(state, OPTIONS.quota_bytes)
    assert idle == []
    with pytest.raises(StoreLocked):
        StateDirectory(state)
    say(first, "the last fact")
    first.close()
    journal.release()
    assert member.acquire()
    with rows_read() as read:
        second = shard.open("b", shipping=member.shipping(state))
    assert read == numbers(shard)[-len(read) :]
    assert 0 < len(read) < 3
    assert texts(second) == {"fact 0", "fact 1", "fact 2", "the last fact"}
    assert second.reader.check().problems == ()
    second.close()
    member.close()
    # Control: a member that did not follow reads every row.
    cold, elsewhere = member_of(shard, "c")
    assert cold.acquire()
    with rows_read() as read:
        shard.open("c", shipping=cold.shipping(elsewhere)).close()
    assert read == numbers(shard)
    cold.close()


def test_a_standby_whose_copy_is_damaged_names_that_and_begins_anew(shard: Shard) -> None:
    journal = shard.journal()
    first = shard.open("a", journal)
    say(first, "fact")
    first.close()
    journal.release()
    member, state = member_of(shard, "a")
    data = state / "store" / "data.mdb"
    data.write_bytes(bytes(len(data.read_bytes())))
    with pytest.raises(StoreCorrupt, match="damaged"):
        member.follow(state, OPTIONS.quota_bytes)
    assert member.acquire()
    again = shard.open("a", shipping=member.shipping(state))
    assert texts(again) == {"fact"}
    again.close()
    member.close()


def test_a_journal_that_lost_what_a_standby_has_is_refused_and_the_copy_kept(shard: Shard) -> None:
    first = shard.open("a")
    say(first, "fact")
    first.close()
    member, state = member_of(shard, "b")
    member.follow(state, OPTIONS.quota_bytes)
    (shard.root / "journal" / "store" / f"{numbers(shard)[-1]:020d}").unlink()
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="ends at row"):
            member.follow(state, OPTIONS.quota_bytes)
    member.close()


@pytest.mark.parametrize("row_bytes", [1, 1 << 18])
def test_a_journal_that_begins_anew_keeps_all_for_a_takeover_from_nothing(
    shard: Shard, row_bytes: int
) -> None:
    journal = shard.journal()
    first = shard.open("a", journal)
    for number in range(3):
        say(first, f"fact {number}")
    before = numbers(shard)
    with patch("storage.shipped._BASE_ROW_BYTES", row_bytes):
        begin_anew(first)
    assert numbers(shard)[0] == journal.begins(Stream.STORE) == before[-1] + 1
    assert say(first, "after").version == 4
    head = first.audit.head().note
    first.close()
    journal.release()
    second = shard.open("b")
    assert texts(second) == {"fact 0", "fact 1", "fact 2", "after"}
    assert second.audit.head().note == head
    assert second.reader.check().problems == ()
    assert say(second, "of another holder").version == 5
    second.close()


def test_a_journal_of_less_than_four_times_its_store_goes_on(shard: Shard) -> None:
    first = shard.open("a")
    say(first, "fact")
    before = numbers(shard)
    asyncio.run(first.writer.run(first.lmdb.shorten_journal))
    assert numbers(shard) == before
    first.close()


def test_a_standby_that_is_behind_a_new_beginning_makes_its_copy_anew(shard: Shard) -> None:
    journal = shard.journal()
    first = shard.open("a", journal)
    say(first, "fact 0")
    member, state = member_of(shard, "b")
    member.follow(state, OPTIONS.quota_bytes)
    say(first, "fact 1")
    begin_anew(first)
    say(first, "fact 2")
    with rows_read() as read:
        member.follow(state, OPTIONS.quota_bytes)
    # The first row is opened before the copy is given up.
    assert read[1:] == numbers(shard)
    first.close()
    journal.release()
    assert member.acquire()
    second = shard.open("b", shipping=member.shipping(state))
    assert texts(second) == {"fact 0", "fact 1", "fact 2"}
    assert second.reader.check().problems == ()
    second.close()
    member.close()


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_new_beginning_without_an_answer_is_settled(shard: Shard, lost: str) -> None:
    journal = Unanswered(shard.root / "journal", address="", store_format=STORE_FORMAT, lease_s=600)
    first = shard.open("a", journal)
    say(first, "fact 0")
    begins = journal.begins(Stream.STORE)
    journal.lost = lost
    begin_anew(first)
    assert (journal.begins(Stream.STORE) > begins) == (lost == "after")
    assert say(first, "fact 1").version == 2
    first.close()
    second = shard.open("b", journal)
    assert texts(second) == {"fact 0", "fact 1"}
    assert second.reader.check().problems == ()
    second.close()


@pytest.mark.parametrize("left", [0, 1])
def test_a_journal_whose_first_rows_are_gone_is_no_new_beginning(shard: Shard, left: int) -> None:
    """Whoever has the database drops rows, and names the next one as the beginning."""
    journal = shard.journal()
    first = shard.open("a", journal)
    say(first, "fact 0")
    member, state = member_of(shard, "b")
    member.follow(state, OPTIONS.quota_bytes)
    say(first, "fact 1")
    say(first, "fact 2")
    first.close()
    last = numbers(shard)[-1]
    with journal._locked() as written:
        written.begins[Stream.STORE] = last + 1 - left
        journal._write(written)
    for number in numbers(shard)[: len(numbers(shard)) - left]:
        (shard.root / "journal" / "store" / f"{number:020d}").unlink()
    lost = f"row {last} .* another history" if left else f"row {last + 1} .* missing"
    with pytest.raises(StoreCorrupt, match=lost):
        shard.open("c", journal)
    # A copy that has what is gone is kept, and shows it again.
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=lost):
            member.follow(state, OPTIONS.quota_bytes)
    assert (state / "store.copy").read_bytes()
    with rows_read() as read, pytest.raises(StoreCorrupt):
        member.follow(state, OPTIONS.quota_bytes)
    assert len(read) == left
    member.close()
