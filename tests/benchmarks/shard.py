"""What a journal in PostgreSQL costs: an append against a bare insert, a shared store against one.

All on this machine, in turns within one run, with a server of the tests' own.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any, Final

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none

from policy.gate import GATE
from policy.ruleset import parse_ruleset
from proxy.embed.embedding import resolve_embedder
from proxy.seams.environment import Embedder
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.journal.lease import Renewal
from storage.journal.protocol import Stream
from storage.journal.sealing import Sealing
from storage.shipped import Shipping
from storage.write.writer import WriterOptions
from tests.benchmarks.filling import submission
from tests.postgres_server import PostgresServer, member, row, serving

BATCHES: Final = (1, 8, 32, 128)
_ROW_LEN: Final = 2_400  # bytes that a gated write puts
_APPENDS: Final = 100
_CANDIDATES: Final = 1_024  # of a round, but for the smallest batch
_ROUNDS: Final = 5
_LEASE_S: Final = 600.0
_BARE: Final = "insert into bare values ($1, $2)"
_driver: Final[Any] = asyncpg


def run() -> list[str]:
    """The table's lines."""
    with serving("shared_buffers=512MB", "max_wal_size=4GB") as server:
        return [*_appends(server), *_writes(server)]


def _appends(server: PostgresServer) -> list[str]:
    journal = member(server, "appends", "bench", _LEASE_S)
    assert journal.acquire()
    loop = asyncio.new_event_loop()
    bare = loop.run_until_complete(_driver.connect(server.url()))
    loop.run_until_complete(bare.execute("create table bare (seq bigint primary key, body bytea)"))
    loop.run_until_complete(bare.execute("alter table bare alter body set storage external"))
    insert = loop.run_until_complete(bare.prepare(_BARE))

    def inserted(seq: int, body: bytes) -> None:
        loop.run_until_complete(insert.fetch(seq, body))

    def appended(seq: int, body: bytes) -> None:
        journal.append(Stream.STORE, row(seq, body))

    lines, seq = list[str](), 0
    for batch in BATCHES:
        taken: dict[Callable[[int, bytes], None], list[float]] = {inserted: [], appended: []}
        for _ in range(_APPENDS):
            seq, body = seq + 1, os.urandom(_ROW_LEN * batch)
            for way in (inserted, appended) if seq % 2 else (appended, inserted):
                started = time.perf_counter()
                way(seq, body)
                taken[way].append(time.perf_counter() - started)
        plain_ms, append_ms = (statistics.median(one) * 1e3 for one in taken.values())
        lines.append(
            f"append, {batch:3d} a batch: bare insert {plain_ms:.2f} ms, journal {append_ms:.2f} "
            f"ms, rate {plain_ms / append_ms:.2f} of the insert's"
        )
    loop.run_until_complete(bare.close())
    loop.close()
    journal.close()
    return lines


def _writes(server: PostgresServer) -> list[str]:
    embedder = resolve_embedder("static")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        journal = member(server, "writes", "bench", _LEASE_S)
        stack.callback(journal.close)
        assert journal.acquire()
        renewal = Renewal(journal, _LEASE_S)
        stack.callback(renewal.stop)
        sealing = Sealing(os.urandom(32), "writes", Stream.STORE)
        shipping = Shipping(journal=journal, sealing=sealing)
        stores = [
            opened(Path(scratch) / name, embedder, one)
            for name, one in (("own", None), ("shared", shipping))
        ]
        for store in stores:
            stack.callback(store.close)
        return [_ratio(stores, embedder, batch) for batch in BATCHES]


def _ratio(stores: list[EmbeddedStore], embedder: Embedder, batch: int) -> str:
    rates: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS):
        for at in (0, 1) if number % 2 else (1, 0):
            rates[at].append(asyncio.run(_rate(stores[at], embedder, batch)))
    own, shared = (statistics.median(one) for one in rates)
    return (
        f"engine, {batch:3d} a batch: own store {own:,.0f}/s, shared store {shared:,.0f}/s, "
        f"{shared / own:.2f} of it"
    )


async def _rate(store: EmbeddedStore, embedder: Embedder, batch: int) -> float:
    count = min(_CANDIDATES, 128 * batch)
    texts = [f"Note {random.random()} about what was agreed" for _ in range(count)]  # noqa: S311
    incarnation = store.reader.status().incarnation
    made = [
        submission(text, vector, embedder.embedder_id, incarnation)
        for text, vector in zip(texts, embedder.embed(texts), strict=True)
    ]
    started = time.perf_counter()
    for start in range(0, count, batch):
        await asyncio.gather(*map(store.writer.submit, made[start : start + batch]))
    return count / (time.perf_counter() - started)


def opened(state: Path, embedder: Embedder, shipping: Shipping | None) -> EmbeddedStore:
    text = resources.files("policy").joinpath("default.toml").read_text("utf-8")
    return open_embedded(
        state=state,
        checkpoint=state.with_suffix(".checkpoint"),
        gate=GATE,
        ruleset=parse_ruleset(text),
        embedder_id=embedder.embedder_id,
        dimension=embedder.dimension,
        clock=lambda: time.time_ns() // 1_000_000,
        options=EmbeddedOptions(writer=WriterOptions(queue_len_max=_CANDIDATES)),
        shipping=shipping,
    )
