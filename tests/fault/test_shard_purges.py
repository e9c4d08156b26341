"""A purge reaches the journal in PostgreSQL; no file of the server has what never was a memory."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from unittest.mock import Mock

import pytest

from storage.embedded import EmbeddedStore
from storage.ground.errors import LeaseLost, StoreCorrupt
from storage.journal import postgres
from storage.journal.postgres import PostgresJournal
from storage.values import Decision, Outcome
from tests.conformance.canary import new_canary, traces
from tests.erased_shards import (
    OTHERS,
    ErasedShard,
    filled,
    plain,
    purge,
    rejected_and_denied,
    server_keyed,
    short_segments,
    texts,
    vouched,
)
from tests.fault.kills.purge_process import STEPS, killed_while_purging
from tests.postgres_server import PostgresServer, member
from tests.unit.storage.opening import say

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]


@pytest.fixture
def shard(
    tmp_path: Path, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Generator[ErasedShard]:
    """A store whose lease another process may take at once: the fence alone decides."""
    monkeypatch.setattr(PostgresJournal, "holds", Mock(return_value=True))
    name = f"purged-{secrets.token_hex(4)}"
    made = ErasedShard(
        tmp_path, lambda: member(server, name, secrets.token_hex(4), 0.0), PostgresJournal
    )
    yield made
    made.close()


def files_with(server: PostgresServer, needle: bytes) -> list[str]:
    """The files of the server, its write-ahead log among them, that contain some bytes."""
    server.sql("checkpoint")
    return [
        str(path)
        for path in (server.directory / "data").rglob("*")
        if path.is_file() and needle in path.read_bytes()
    ]


@pytest.mark.parametrize("kind", [plain, vouched, server_keyed])
def test_the_old_row_is_in_the_servers_files_and_no_remaining_key_opens_it(
    shard: ErasedShard,
    server: PostgresServer,
    tmp_path: Path,
    kind: Callable[[EmbeddedStore, str], Outcome],
) -> None:
    canary = new_canary()
    with short_segments():
        store = shard.open("a")
        outcome = filled(store, canary, kind)
        before = shard.rows()
        shutil.copytree(shard.keys, tmp_path / "stolen")
        purge(store, outcome)
        assert canary.encode() not in shard.opened()
        say(store, "after the purge")
        store.close()
    purged = [row for row in before if canary.encode() in shard.opened([row], tmp_path / "stolen")]
    assert purged
    for row in purged:
        # The server still has the old ciphertext, which the old key opens, and none that is left.
        assert files_with(server, row.body[-64:])
        with pytest.raises(StoreCorrupt, match="lacks"):
            shard.opened([row])
    assert files_with(server, canary.encode()) == []
    assert shard.left() == shard.used()
    again = shard.open("b")
    assert texts(again) == OTHERS | {"after the purge"}
    assert again.reader.check().problems == ()
    again.close()
    assert traces(tmp_path / "b", canary) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_purge_that_a_kill_cut_short_is_finished_by_the_next_holder(
    shard: ErasedShard, tmp_path: Path, step: str
) -> None:
    canary = new_canary()
    killed_while_purging(shard, step, canary)
    assert b"before 0" in shard.opened()
    with short_segments():
        store = shard.open("b")
        assert canary.encode() not in shard.opened()
        assert texts(store) == OTHERS
        assert say(store, "of the next holder").decision is Decision.ADMIT
        assert store.reader.check().problems == ()
        store.close()
    assert shard.left() == shard.used()
    assert traces(tmp_path / "b", canary) == []


def test_a_past_holder_that_purges_changes_nothing(
    shard: ErasedShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with short_segments():
        first = shard.open("a")
        filled(first, new_canary())
        second = shard.open("b")
        say(second, "of the holder")
        rows, keys = shard.rows(), shard.left()
        with pytest.raises(LeaseLost):
            first.lmdb.compact()
        # Overtaken after it has settled, it draws a key, and exchanges and destroys nothing.
        with monkeypatch.context() as patched:
            patched.setattr(PostgresJournal, "settle", Mock(return_value=0))
            with pytest.raises(LeaseLost):
                first.lmdb.compact()
        assert shard.rows() == rows
        assert shard.left() >= keys
        # Control: without the fence it does.
        open_fence = postgres._FENCE.replace("epoch = $3", "$3::bigint >= 0")
        assert open_fence != postgres._FENCE
        monkeypatch.setattr(postgres, "_FENCE", open_fence)
        with monkeypatch.context() as patched:
            patched.setattr(PostgresJournal, "settle", Mock(return_value=0))
            first.lmdb.compact()
        assert shard.rows() != rows
        first.close()
        second.close()


def test_rejected_and_denied_texts_are_in_no_batch_and_in_no_file_of_the_server(
    shard: ErasedShard, server: PostgresServer
) -> None:
    rejected, denied, admitted, control = (new_canary() for _ in range(4))
    server.sql("create table if not exists rolled_back(text text)")
    server.sql(f"begin; insert into rolled_back values ('{control}'); rollback")  # noqa: S608
    store = shard.open("a")
    rejected_and_denied(
        store,
        [f"{rejected} {number}" for number in range(150)],
        [f"{denied} {number}" for number in range(20)],
        [f"{admitted} {number}" for number in range(20)],
    )
    store.close()
    batches = shard.opened()
    assert all(f"{admitted} {number}".encode() in batches for number in range(20))
    for canary in (rejected, denied):
        assert canary.encode() not in batches
        assert files_with(server, canary.encode()) == []
    assert files_with(server, admitted.encode()) == []
    # Control: what a transaction wrote and took back would be found.
    assert files_with(server, control.encode())
