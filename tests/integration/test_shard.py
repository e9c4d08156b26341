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

from tests.integration.shard_members import Member, eventually
from tests.postgres_server import PostgresServer, serving

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
