"""A start refuses a database that would lose what it confirms, and a journal that lost a row."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from storage.ground.errors import StorageError, StoreCorrupt, StoreUnavailable, UnknownFormat
from storage.journal import database
from storage.journal.database import NO_STANDBY, UnfitDatabase
from storage.journal.protocol import Stream
from storage.shard import join_shard
from tests.postgres_server import PostgresServer, member, row, serving

pytestmark = pytest.mark.heavy


def refused(server: PostgresServer, kind: type[StorageError], url: str = "") -> str:
    """The one line with which a start is refused."""
    with pytest.raises(kind) as told:
        member(server, "refused", "one", 10.0, url=url)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_control_this_server_is_accepted_with_a_remark_about_its_standby(
    server: PostgresServer,
) -> None:
    journal = member(server, "accepted", "one", 10.0)
    try:
        assert journal.prepare() == (NO_STANDBY,)
        assert journal.acquire()
    finally:
        journal.close()


def test_a_server_that_is_too_old_is_refused(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_VERSION_MIN", 10**6)
    assert "PostgreSQL before 14" in refused(server, UnfitDatabase)


def test_a_session_that_does_not_wait_for_the_disk_is_refused(server: PostgresServer) -> None:
    url = server.url(options="&synchronous_commit=off")
    assert "synchronous_commit = off" in refused(server, UnfitDatabase, url)


def test_a_replica_is_refused(server: PostgresServer) -> None:
    url = server.url(options="&default_transaction_read_only=on")
    assert "read-only" in refused(server, UnfitDatabase, url)


def test_a_server_without_fsync_is_refused() -> None:
    with serving("fsync=off") as careless:
        assert "fsync = off" in refused(careless, UnfitDatabase)


def test_a_role_that_may_not_update_is_refused_and_named_what_it_lacks(
    server: PostgresServer,
) -> None:
    member(server, "roles", "one", 10.0).close()
    server.sql(
        "create role reader login; grant usage on schema mnemogate to reader; "
        "grant select, insert on all tables in schema mnemogate to reader"
    )
    assert refused(server, UnfitDatabase, server.url("reader")) == (
        "the role of the database lacks UPDATE on mnemogate.head, DELETE on mnemogate.journal, "
        "UPDATE on mnemogate.journal, UPDATE on mnemogate.lease"
    )
    server.sql("grant update on all tables in schema mnemogate to reader")
    assert "DELETE on mnemogate.journal" in refused(server, UnfitDatabase, server.url("reader"))
    server.sql("grant delete on mnemogate.journal to reader")
    member(server, "roles", "two", 10.0, url=server.url("reader")).close()


def test_a_role_that_does_not_exist_is_named_and_its_password_is_not(
    server: PostgresServer,
) -> None:
    line = refused(server, StoreUnavailable, server.url("nobody:correct-horse"))
    assert "nobody" in line
    assert "correct-horse" not in line


def test_a_shard_of_a_later_format_is_not_taken(server: PostgresServer) -> None:
    later = member(server, "format", "later", 10.0, written_format=2)
    earlier = member(server, "format", "earlier", 10.0, written_format=1)
    try:
        assert later.acquire()
        with pytest.raises(UnknownFormat):
            earlier.acquire()
        later.release()
        with pytest.raises(UnknownFormat):
            earlier.acquire()
        assert not earlier.holds()
        assert later.acquire()
    finally:
        later.close()
        earlier.close()


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_row_that_was_deleted_is_a_gap_with_its_number(server: PostgresServer, lost: int) -> None:
    store = f"gap-{lost}"
    journal = member(server, store, "one", 10.0)
    try:
        assert journal.acquire()
        for seq in (1, 2, 3):
            journal.append(Stream.STORE, row(seq, b"%d" % seq))
        assert [one.seq for one in journal.since(Stream.STORE, 0)] == [1, 2, 3]
        server.sql(f"delete from mnemogate.journal where store = '{store}' and seq = {lost}")  # noqa: S608
        with pytest.raises(StoreCorrupt, match=f"row {lost} of the journal is missing"):
            list(journal.since(Stream.STORE, 0))
        with pytest.raises(StoreCorrupt, match="ends at row 3, and row 9 was in it"):
            list(journal.since(Stream.STORE, 9))
    finally:
        journal.close()


def test_rows_are_exchanged_all_or_none_and_dropped_below_a_new_base(
    server: PostgresServer,
) -> None:
    journal = member(server, "base", "one", 10.0)
    try:
        assert journal.acquire()
        for seq in range(1, 131):
            journal.append(Stream.STORE, row(seq, b"old"))
        journal.exchange(Stream.STORE, [row(7, b"new"), row(8, b"new")])
        with pytest.raises(StoreCorrupt, match="row 999"):
            journal.exchange(Stream.STORE, [row(9, b"new"), row(999, b"new")])
        bodies = [one.body for one in journal.since(Stream.STORE, 0)]
        assert bodies == [b"old"] * 6 + [b"new"] * 2 + [b"old"] * 122
        assert journal.begins(Stream.STORE) == 1
        reading = journal.since(Stream.STORE, 0)
        assert next(reading).seq == 1
        journal.rebase(Stream.STORE, [row(131, b"base"), row(132, b"base")])
        assert journal.begins(Stream.STORE) == 131
        assert [one.seq for one in journal.since(Stream.STORE, 130)] == [131, 132]
        with pytest.raises(StoreUnavailable, match="does not have row 65 any more"):
            list(reading)
        journal.append(Stream.STORE, row(133, b"next"))
    finally:
        journal.close()


def test_keys_that_others_can_read_or_that_are_missing_refuse_the_start(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, keys = tmp_path / "secrets", tmp_path / "keys"
    secrets.mkdir(mode=0o700)
    (secrets / "journal.key").write_bytes(b"j" * 32)
    (secrets / "journal.key").chmod(0o600)

    def join(keys: Path | None) -> tuple[str, ...]:
        joined = join_shard("keys", server.url(), secrets, address="127.0.0.1:1", keys=keys)
        joined.close()
        return joined.remarks

    with pytest.raises(StoreUnavailable, match=r"the shard's keys: .*keys: No such file"):
        join(keys)
    keys.mkdir(mode=0o755)
    monkeypatch.setattr("storage.ground.trusted_files._nobody_else_in", Mock(return_value=False))
    with pytest.raises(StoreUnavailable, match="must be a directory that others cannot read"):
        join(keys)
    keys.chmod(0o700)
    assert join(keys) == (NO_STANDBY,)
    # Control: without keys a start is told what that means.
    assert "do not reach the journal" in join(None)[-1]
