"""How long a takeover takes: by a standby whose copy followed, and from nothing.

The journal is in PostgreSQL, on this machine, with a server of the tests' own. The holders that are
killed are processes; all others are in this process, and give the lease up.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from policy.query import EVERYTHING
from proxy.embed.embedding import resolve_embedder
from proxy.seams.environment import Embedder
from storage.embedded import EmbeddedStore
from storage.shard import LEASE_S, ShardMember
from tests.benchmarks.filling import PRINCIPAL, submission
from tests.benchmarks.shard import opened
from tests.integration.shard_members import Member, eventually
from tests.postgres_server import PostgresServer, member, serving

SIZES: Final = ((100_000, 253), (10_000, 1))  # memories, and how many of them a batch has
LIVE: Final = 10_000
EMPTY: Final = 100_000  # batches without a memory, that the journal has besides the live ones
KILLS: Final = 3
_QUOTA: Final = 8 * 1024**3
_LEASE_S: Final = 600.0
_PATIENCE_S: Final = 600.0
_LAST: Final = 10  # memories that a standby lacks when it takes over
_SECRETS: Final = ("store.key", "log.key", "token.key", "journal.key")


def run() -> list[str]:
    """The table's lines."""
    with (
        serving("shared_buffers=512MB", "max_wal_size=4GB") as server,
        tempfile.TemporaryDirectory(prefix="mnemogate-takeover-") as scratch,
    ):
        root = Path(scratch)
        root.chmod(0o700)
        secrets = root / "keys"
        secrets.mkdir(mode=0o700)
        for name in _SECRETS:
            (secrets / name).write_bytes(os.urandom(32))
            (secrets / name).chmod(0o600)
        shard = _Shard(server, root, secrets)
        return [
            *(line for size, batch in SIZES for line in _followed(shard, size, batch)),
            *_begun_anew(shard),
            *_killed(server, root),
        ]


class _Shard:
    """Members of shards on one server, each with a directory of its own."""

    def __init__(self, server: PostgresServer, root: Path, secrets: Path) -> None:
        self.server = server
        self.embedder: Embedder = resolve_embedder("static")
        self._root = root
        self._secrets = secrets

    def joined(self, name: str, member_name: str) -> tuple[ShardMember, Path]:
        journal = member(self.server, name, member_name, _LEASE_S)
        state = self._root / name / member_name
        return ShardMember(journal, name, self._secrets, ()), state

    @contextmanager
    def held(self, name: str, member_name: str) -> Generator[EmbeddedStore]:
        """The store, held by a new member in an empty directory."""
        one, state = self.joined(name, member_name)
        assert one.acquire()
        store = self.open(one, state)
        try:
            yield store
        finally:
            store.close()
            one.close()

    def open(self, one: ShardMember, state: Path) -> EmbeddedStore:
        return opened(state, self.embedder, one.shipping(state))

    async def fill(self, store: EmbeddedStore, count: int, batch: int) -> None:
        """Write memories of one text each, `batch` at a time."""
        incarnation = store.reader.status().incarnation
        for start in range(0, count, batch):
            texts = [f"Note {start + one} of {os.urandom(6).hex()}" for one in range(batch)]
            made = [
                submission(text, vector, self.embedder.embedder_id, incarnation)
                for text, vector in zip(texts, self.embedder.embed(texts), strict=True)
            ]
            await asyncio.gather(*map(store.writer.submit, made))


def _followed(shard: _Shard, size: int, batch: int) -> list[str]:
    name = f"size-{size}-{batch}"
    standby, state = shard.joined(name, "standby")
    with shard.held(name, "holder") as store:
        asyncio.run(shard.fill(store, size, batch))
        started = time.perf_counter()
        standby.follow(state, _QUOTA)
        followed_s = time.perf_counter() - started
        asyncio.run(shard.fill(store, _LAST, 1))
    warm = _timed(shard, standby, state)
    cold = _timed(shard, *shard.joined(name, "cold"))
    what = f"{size:,} memories, {batch} a batch"
    return [
        f"{what}: a new standby's copy took {followed_s:.1f} s",
        f"{what}, by a standby: {warm}",
        f"{what}, from nothing: {cold}",
    ]


def _timed(shard: _Shard, one: ShardMember, state: Path) -> str:
    """Take the store over, write, and search; when each was done, from the lease on."""
    assert one.acquire()
    started = time.perf_counter()
    store = shard.open(one, state)
    try:
        asyncio.run(shard.fill(store, 1, 1))
        written_s = time.perf_counter() - started
        store._engine.parts.derived.wait(_PATIENCE_S)
        [vector] = shard.embedder.embed(["a note"])
        assert store.reader.search(PRINCIPAL.tenant, vector, EVERYTHING, 10, -1.0)
        searched_s = time.perf_counter() - started
    finally:
        store.close()
        one.close()
    return f"first durable write {written_s:.2f} s after the lease, searchable {searched_s:.2f} s"


def _begun_anew(shard: _Shard) -> list[str]:
    """A journal that is much longer than its store, before and after it begins anew."""
    name, lines = "long", list[str]()
    with shard.held(name, "holder") as store:
        asyncio.run(shard.fill(store, LIVE, 250))
        asyncio.run(_empty(store, EMPTY))
        lines.append(f"{EMPTY:,} empty batches over {LIVE:,} memories: {_length(shard, name)}")
    lines.append(f"  from nothing: {_timed(shard, *shard.joined(name, 'before'))}")
    with shard.held(name, "again") as store:
        started = time.perf_counter()
        with patch("storage.shipped._JOURNAL_PER_STORE", 0):
            asyncio.run(store.writer.run(store.lmdb.shorten_journal))
        took_s = time.perf_counter() - started
        lines.append(f"  a base was written in {took_s:.2f} s: {_length(shard, name)}")
    lines.append(f"  from nothing: {_timed(shard, *shard.joined(name, 'after'))}")
    return lines


async def _empty(store: EmbeddedStore, count: int) -> None:
    for _ in range(count):
        await store.writer.run(lambda: store._engine.transact(lambda _change: None))


def _length(shard: _Shard, name: str) -> str:
    told = shard.server.sql(
        "select store, count(*), coalesce(sum(octet_length(body)), 0) from mnemogate.journal "
        "where stream = 'store' group by store"
    )
    [(rows, length)] = [one.split("|")[1:] for one in told.splitlines() if one.startswith(name)]
    return f"{int(rows):,} rows of {int(length) / 1e6:,.1f} MB"


def _killed(server: PostgresServer, root: Path) -> list[str]:
    """The time between the last answer of a killed holder and the first one of the next."""
    server.sql("drop schema if exists mnemogate cascade")
    gaps = list[float]()
    first = Member(root, "first", server.url())
    eventually(first.is_holder, "the first member holds the store", first)
    second = Member(root, "second", server.url())
    try:
        for _ in range(KILLS):
            eventually(second.is_standby, "the other member stands by", second)
            for number in range(20):
                assert second.write(f"note {number}") == 201
            last = time.monotonic()
            first.send(signal.SIGKILL)
            while second.write("the next note") != 201:
                time.sleep(0.02)
            gaps.append(time.monotonic() - last)
            first.ended()
            first.start()
            first, second = second, first
    finally:
        first.remove()
        second.remove()
    shown = ", ".join(f"{one:.1f}" for one in gaps)
    return [
        f"kill -9 of a holder, lease {LEASE_S:g} s: {shown} s until the next one's first answer"
    ]
