"""Readers in other threads while the writer commits, purges, compacts and fails."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Self

from policy.model import ChangeKind, Scope
from policy.query import EVERYTHING
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreUnavailable, TransactionFailed
from storage.values import Outcome
from tests.fault.crashing import OPTIONS
from tests.unit.storage.opening import (
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    submission_of,
    vector_of,
)

ROUNDS = 25
TWENTY = range(20)


class Readers:
    """Threads that read without pause, and keep the first contradiction they see."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._stop = threading.Event()
        self.reads = 0
        self.failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(work,)) for work in (self._page, self._search)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _read(self, work: object) -> None:
        try:
            while not self._stop.is_set():
                work()  # type: ignore[operator]
                self.reads += 1
        finally:
            if not self._stop.is_set():
                self.failures.append("a reader died")

    def _page(self) -> None:
        page = self._store.reader.page(TENANT, EVERYTHING, 0, 100)
        texts = [memory.text for memory in page.memories]
        if len(set(texts)) != len(texts):
            self.failures.append("a memory was shown twice")
        if any("doomed" in text for text in texts) and self.purged:
            self.failures.append("a purged memory was shown")

    def _search(self) -> None:
        hits = self._store.reader.search(TENANT, vector_of("doomed"), EVERYTHING, 5, -1.0)
        if self.purged and any("doomed" in hit.memory.text for hit in hits):
            self.failures.append("a purged memory was found")

    purged = False


async def _churn(store: EmbeddedStore, readers: Readers) -> None:
    submit = store.writer.submit
    doomed = await submit(submission_of(candidate_of("doomed", OPERATOR), OPERATOR))
    for number in range(ROUNDS):
        outcome = await submit(submission_of(candidate_of(f"fact {number}", OPERATOR), OPERATOR))
        assert outcome.memory is not None
        memory_id = outcome.memory.memory_id
        update = candidate_of(
            f"fact {number} again", OPERATOR, change=ChangeKind.UPDATE, memory_id=memory_id
        )
        await submit(submission_of(update, OPERATOR))
        if number % 5 == 0:
            await store.writer.compact()
        if number == ROUNDS // 2:
            assert doomed.memory is not None
            purge = candidate_of(
                None,
                OPERATOR,
                change=ChangeKind.PURGE,
                memory_id=doomed.memory.memory_id,
                scope=Scope(),
            )
            await submit(submission_of(purge, OPERATOR))
            readers.purged = True


def test_readers_never_see_a_mix_a_purged_memory_or_a_closed_store(tmp_path: Path) -> None:
    store = Bench(tmp_path).open(options=OPTIONS)
    with Readers(store) as readers:
        asyncio.run(_churn(store, readers))
    assert readers.failures == []
    assert readers.reads > ROUNDS
    assert store.reader.status().live_count == ROUNDS
    assert store.reader.check().problems == ()
    store.close()


def test_no_memory_vanishes_from_a_read_while_it_is_updated(tmp_path: Path) -> None:
    store = Bench(tmp_path).open()

    async def made() -> list[Outcome]:
        submissions = [submission_of(candidate_of(f"fact {n}", OPERATOR), OPERATOR) for n in TWENTY]
        return [await store.writer.submit(one) for one in submissions]

    async def updated(outcomes: list[Outcome]) -> None:
        for number in range(150):
            memory = outcomes[number % 20].memory
            assert memory is not None
            update = candidate_of(
                f"fact {number}", OPERATOR, change=ChangeKind.UPDATE, memory_id=memory.memory_id
            )
            await store.writer.submit(submission_of(update, OPERATOR))

    outcomes = asyncio.run(made())
    seen: set[tuple[int, int, int]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            page = store.reader.page(TENANT, EVERYTHING, 0, 100)
            hits = store.reader.search(TENANT, vector_of("fact"), EVERYTHING, 100, -1.0)
            seen.add((page.total, len(page.memories), len(hits)))

    reader = threading.Thread(target=read)
    reader.start()
    asyncio.run(updated(outcomes))
    done.set()
    reader.join(30)
    assert seen == {(20, 20, 20)}
    store.close()


def test_readers_go_on_while_the_writer_recovers_from_disk_errors(tmp_path: Path) -> None:
    failing = False
    count = 0

    def fault(name: str) -> None:
        nonlocal count
        if failing and name == "after_commit":
            count += 1
            if count % 3 == 0:
                raise TransactionFailed("Input/output error")

    async def write_on(store: EmbeddedStore) -> int:
        refused = 0
        for number in range(ROUNDS):
            try:
                await store.writer.submit(submission_of(candidate_of(f"fact {number}")))
            except StoreUnavailable:
                refused += 1
        return refused

    store = Bench(tmp_path).open(fault, options=OPTIONS)
    failing = True
    with Readers(store) as readers:
        refused = asyncio.run(write_on(store))
    assert readers.failures == []
    assert (refused, store.reader.status().live_count) == (0, ROUNDS)
    assert store.reader.check().problems == ()
    store.close()
