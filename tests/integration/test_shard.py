"""Two members of a shard over one database: one holds the store, the other forwards and takes over.

Each has a state directory of its own. Nothing is started before the database of the test.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.ground.errors import StoreCorrupt
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import Sealing
from storage.journal.segment_keys import SegmentKeys
from tests.conformance.canary import new_canary, traces
from tests.integration.shard_members import Member, eventually
from tests.postgres_server import PostgresServer, member, serving

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    with serving() as running:
        yield running


@pytest.fixture
def root() -> Generator[Path]:
    """A directory for both members; the path of a Unix socket below it has to be short."""
    with tempfile.TemporaryDirectory(prefix="mnemogate-shard-") as place:
        yield Path(place)


@contextmanager
def two_members(root: Path, server: PostgresServer) -> Generator[tuple[Member, Member]]:
    """A holder and a standby, both ready."""
    first = Member(root, "first", server.url())
    members = [first]
    try:
        eventually(first.is_holder, "the first member holds the store", first)
        second = Member(root, "second", server.url())
        members.append(second)
        eventually(second.is_standby, "the second member stands by")
        yield first, second
    finally:
        for one in members:
            one.remove()


def test_what_was_acknowledged_is_there_after_a_kill_and_a_pause_of_the_holder(
    root: Path, server: PostgresServer
) -> None:
    with two_members(root, server) as (first, second):
        assert first.write("note one") == 201
        assert second.write("note two") == 201
        assert second.texts() == first.texts() == ["note two", "note one"]

        copy = Path("store", "data.mdb")
        eventually(lambda: any(second.home.rglob(str(copy))), "the standby has a copy")
        first.send(signal.SIGKILL)
        first.ended()
        eventually(second.is_holder, "the standby takes over")
        assert second.write("note three") == 201
        first.start()
        eventually(first.is_standby, "the killed member stands by")
        assert first.texts() == ["note three", "note two", "note one"]

        second.send(signal.SIGSTOP)
        eventually(first.is_holder, "the first member takes over again")
        assert first.write("note four") == 201
        second.send(signal.SIGCONT)
        # The woken member answers nothing as a holder: it refuses, or forwards to the holder.
        assert second.write("note five") in {0, 201, 503}
        eventually(second.is_standby, "the woken member stands by")
        assert second.texts() == first.texts()
        assert set(first.texts()) - {"note five"} == {
            *("note one", "note two", "note three", "note four")
        }
        assert first.problems() == []

        # A holder that is stopped gives the lease up, so that no one waits for its end.
        first.send(signal.SIGTERM)
        assert first.ended() == 0
        eventually(second.is_holder, "the standby takes over at once")
        assert "note four" in second.texts()
        second.send(signal.SIGTERM)
        assert second.ended() == 0


def test_a_standby_without_a_copy_names_the_reason_and_takes_over_nevertheless(
    root: Path, server: PostgresServer
) -> None:
    server.sql("drop schema if exists mnemogate cascade")
    with two_members(root, server) as (first, second):
        assert first.write("note one") == 201
        eventually(lambda: bool(list(second.home.rglob("store.copy"))), "the standby has a copy")
        [mark] = second.home.rglob("store.copy")
        second.send(signal.SIGKILL)
        second.ended()
        data = mark.with_name("store") / "data.mdb"
        data.write_bytes(bytes(8_192))
        second.start()
        eventually(lambda: "damaged" in second.log.read_text(), "the standby names the damage")
        eventually(second.is_standby, "the standby follows with a new copy", second)
        first.send(signal.SIGKILL)
        first.ended()
        eventually(second.is_holder, "the standby takes over")
        assert second.texts() == ["note one"]
        assert second.problems() == []


def test_wrong_keys_of_one_client_count_for_no_other_client_of_a_standby(
    root: Path, server: PostgresServer
) -> None:
    server.sql("drop schema if exists mnemogate cascade")
    with two_members(root, server) as (first, second):
        stranger = "wrong-key-of-a-stranger"
        assert [second.write("no", stranger) for _ in range(21)][-2:] == [401, 429]
        # The client is the same to the holder, which it asks without the standby.
        assert first.write("no", stranger) == 429
        assert second.write("no", stranger, client="127.0.0.2") == 401
        assert second.write("yes") == 201


@pytest.mark.parametrize("keyed", [True, False])
def test_an_erasure_reaches_the_journal_where_its_segments_have_keys(
    root: Path, server: PostgresServer, *, keyed: bool
) -> None:
    server.sql("drop schema if exists mnemogate cascade")
    holder = Member(root, "holder", server.url(), keyed=keyed)
    try:
        eventually(holder.is_holder, "the member holds the store", holder)
        assert ("do not reach the journal" in holder.log.read_text()) is not keyed
        canary = new_canary()
        for number in range(5):
            assert holder.write(f"{canary} {number}", user_id="ana") == 201
            assert holder.write(f"note {number}") == 201
        before = _rows(server)
        assert canary.encode() in _opened(before, root, keyed=keyed)
        told = holder.erase("ana")
        assert told["receipt"]
        assert told["found"]["memories"] == 5
        assert "the journal of a shard without `keys`" in told["receipt"]
        left = _opened(_rows(server), root, keyed=keyed)
        assert b"note 4" in left
        assert (canary.encode() in left) is not keyed
        if keyed:
            with pytest.raises(StoreCorrupt, match="lacks"):
                _opened(before, root, keyed=keyed)
        assert traces(root / "holder", canary) == []
        assert holder.problems() == []
    finally:
        holder.remove()


def _rows(server: PostgresServer) -> list[JournalRow]:
    reader = member(server, "test", "reader", 1.0)
    try:
        return list(reader.since(Stream.STORE, 0))
    finally:
        reader.close()


def _opened(rows: list[JournalRow], root: Path, *, keyed: bool) -> bytes:
    """All that the rows contain for who has the secrets and the keys that are left."""
    secret = (root / "secrets" / "journal.key").read_bytes()
    keys = SegmentKeys(root / "keys", secret, "test") if keyed else None
    sealing = Sealing(secret, "test", Stream.STORE, keys)
    return b"".join(one.value or b"" for row in rows for one in sealing.read(row).writes)
