"""Shared stores of several processes, each with a directory of its own, for tests."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from policy.query import EVERYTHING
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.ground.errors import (
    TransactionFailed,
)
from storage.journal.protocol import JournalRow, Stream
from storage.journal.sealing import Sealing
from storage.shipped import Shipping
from storage.tables.codec import STORE_FORMAT
from tests.files_journal import FilesJournal
from tests.unit.storage.opening import (
    TENANT,
    Bench,
    Clock,
)

OPTIONS = EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26)
SECRET = b"j" * 32


class Shard:
    """One shared store, and the directories of the processes that take it over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self._secrets: Path | None = None

    @property
    def secrets(self) -> Path:
        assert self._secrets is not None
        return self._secrets

    def journal(self, lease_s: float = 600.0) -> FilesJournal:
        return FilesJournal(
            self.root / "journal", address="", store_format=STORE_FORMAT, lease_s=lease_s
        )

    def open(
        self,
        name: str,
        journal: FilesJournal | None = None,
        secret: bytes = SECRET,
        shipping: Shipping | None = None,
    ) -> EmbeddedStore:
        """The store in the directory of one process, whose lease it takes; a past one is over.

        With `shipping` the process is a member that has the lease.
        """
        if shipping is None:
            journal = journal or self.journal()
            if not journal.holds():
                last = journal.lease()
                assert journal.acquire(), last
            sealing = Sealing(secret, "shard", Stream.STORE)
            shipping = Shipping(journal=journal, sealing=sealing)
        state = self.root / name / "state"
        if self._secrets is not None and not state.exists():
            state.mkdir(mode=0o700, parents=True)
            shutil.copytree(self._secrets, state / "secrets")
        self._secrets = self._secrets or state / "secrets"
        bench = Bench(self.root / name, self.clock)
        bench.checkpoint = self.root / "checkpoint.txt"
        return bench.open(options=OPTIONS, shipping=shipping)


def texts(store: EmbeddedStore) -> set[str]:
    return {one.text or "" for one in store.reader.page(TENANT, EVERYTHING, 0, 99).memories}


class Unanswered(FilesJournal):
    """A journal whose next append gets no answer, before or after the row was stored."""

    lost: str = ""

    def append(self, stream: Stream, row: JournalRow) -> None:
        with self._unanswered():
            super().append(stream, row)

    def rebase(self, stream: Stream, rows: Iterable[JournalRow]) -> None:
        with self._unanswered():
            super().rebase(stream, rows)

    @contextmanager
    def _unanswered(self) -> Generator[None]:
        lost, self.lost = self.lost, ""
        if lost == "before":
            raise TransactionFailed("no answer")
        yield
        if lost == "after":
            raise TransactionFailed("no answer")


def shard_of(root: Path) -> Shard:
    root.mkdir()
    return Shard(root)
