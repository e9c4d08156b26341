"""What `mnemogate run` refuses for a shard, each in one line with the reason (S-8).

A server before 14 is refused in `tests/fault/test_shard_refusals.py`: no such server is at hand.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import pytest

from tests.integration.shard_members import Member, eventually
from tests.postgres_server import PostgresServer, serving

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(400)]


class Begun(msgspec.Struct, frozen=True):
    """A member that has stopped, the files of its shard, and its database."""

    member: Member
    root: Path
    server: PostgresServer

    def refusal(self) -> str:
        """The one line with which a start is refused, apart from what the process logs."""
        before = self.member.log.stat().st_size
        self.member.start()
        assert self.member.ended() in {1, 2, 3}
        told = self.member.log.read_bytes()[before:].decode()
        lines = [one for one in told.splitlines() if not one.startswith('{"time"')]
        assert len(lines) == 1, told
        assert "Traceback" not in told
        return lines[0]

    def starts(self) -> None:
        """The member holds the store, then stops."""
        self.member.start()
        eventually(self.member.is_holder, "the member holds the store", self.member)
        self.member.send(signal.SIGTERM)
        assert self.member.ended() == 0

    def forget(self) -> None:
        """Remove the member's copy of the store, as a new pod has none."""
        shutil.rmtree(self.member.state)

    def rewrite(self, name: str, data: bytes, mode: int = 0o600) -> None:
        path = self.root / name
        path.write_bytes(data)
        path.chmod(mode)


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    with serving() as running:
        yield running


@pytest.fixture
def begun(server: PostgresServer) -> Generator[Begun]:
    """A shard with three memories, whose one member has stopped."""
    server.sql("drop schema if exists mnemogate cascade")
    with tempfile.TemporaryDirectory(prefix="mg-start-") as place:
        root = Path(place)
        member = Member(root, "first", server.url())
        try:
            eventually(member.is_holder, "the member holds the store", member)
            assert [member.write(f"note {number}") for number in (1, 2, 3)] == [201] * 3
            member.send(signal.SIGTERM)
            assert member.ended() == 0
            yield Begun(member, root, server)
        finally:
            member.remove()


def _gap(begun: Begun) -> None:
    begun.server.sql("delete from mnemogate.journal where stream = 'store' and seq = 2")
    begun.forget()


def _swapped(begun: Begun) -> None:
    begun.server.sql(
        "update mnemogate.journal mine set body = other.body from mnemogate.journal other "
        "where mine.stream = 'store' and other.stream = 'store' and mine.seq in (2, 3) "
        "and other.seq = 5 - mine.seq"
    )
    begun.forget()


def _last_rows(begun: Begun) -> None:
    """Put an older journal in place, as a restored database has it."""
    begun.server.sql(
        "update mnemogate.head set seq = seq - 2 where stream = 'store'; "
        "delete from mnemogate.journal using mnemogate.head where journal.stream = 'store' "
        "and head.stream = 'store' and journal.seq > head.seq"
    )


def _older(begun: Begun) -> None:
    _last_rows(begun)
    begun.forget()


def _later_format(begun: Begun) -> None:
    begun.server.sql("update mnemogate.lease set format = 99")


def _role(begun: Begun) -> None:
    begun.server.sql(
        "drop role if exists reader; create role reader login; "
        "grant usage on schema mnemogate to reader; "
        "grant select, insert on all tables in schema mnemogate to reader"
    )
    begun.rewrite("dsn", begun.server.url("reader").encode())


def _option(option: str) -> Callable[[Begun], None]:
    def put(begun: Begun) -> None:
        begun.rewrite("dsn", begun.server.url(options=f"&{option}").encode())

    return put


def _elsewhere(begun: Begun) -> None:
    begun.rewrite("dsn", b"postgresql://gate:secret-word@192.0.2.7/memory?sslmode=require")


def _open_file(name: str) -> Callable[[Begun], None]:
    def opened(begun: Begun) -> None:
        (begun.root / name).chmod(0o644)

    return opened


def _lost_keys(begun: Begun) -> None:
    for path in (begun.root / "keys").iterdir():
        path.unlink()


def _open_keys(begun: Begun) -> None:
    (begun.root / "keys").chmod(0o755)


def _wrong_secret(begun: Begun) -> None:
    begun.rewrite("secrets/journal.key", os.urandom(32))
    begun.forget()


SPOILT = {
    "a gap": (_gap, "row 2 of the journal is missing"),
    "a swapped row": (_swapped, "row 2 of the journal does not open: it was changed or moved"),
    "an older journal": (_last_rows, "the journal ends at row"),
    "an older journal, no copy": (_older, "checkpoint"),
    "a wrong secret": (_wrong_secret, "another journal.key"),
    "lost keys": (_lost_keys, "the shard's directory of keys lacks"),
    "open keys": (_open_keys, "the shard's keys must be a directory that others cannot read"),
    "a later format": (_later_format, "written in format 99, which this version does not know"),
    "a role without rights": (_role, "lacks UPDATE on mnemogate.head"),
    "no wait for the disk": (_option("synchronous_commit=off"), "synchronous_commit = off"),
    "a replica": (_option("default_transaction_read_only=on"), "read-only: name the primary"),
    "an open secret": (_open_file("secrets/journal.key"), "journal.key must be a file that others"),
    "an open URL": (_open_file("dsn"), "dsn: must be a file that others cannot read"),
    "an unverified database": (_elsewhere, "without sslmode=verify-full in its URL"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_start_is_refused_in_one_line_with_the_reason(name: str, begun: Begun) -> None:
    spoil, reason = SPOILT[name]
    spoil(begun)
    line = begun.refusal()
    assert reason in line
    assert "secret-word" not in line


def test_control_the_same_member_starts_and_warns_of_no_standby(begun: Begun) -> None:
    begun.starts()
    begun.forget()
    begun.starts()
    assert "without a synchronous standby" in begun.member.log.read_text()


def test_a_database_without_fsync_is_refused(begun: Begun) -> None:
    with serving("fsync=off") as careless:
        begun.rewrite("dsn", careless.url().encode())
        assert "fsync = off" in begun.refusal()


def test_a_database_that_is_not_there_is_named_as_the_cause(begun: Begun) -> None:
    begun.rewrite("dsn", b"postgresql://gate:secret-word@127.0.0.1:1/memory")
    line = begun.refusal()
    assert "no connection to the database" in line
    assert "look at [shard] in the settings" in line
    assert "secret-word" not in line
