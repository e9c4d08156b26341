"""Stores of tests on a journal: each transaction is appended before its local commit.

With `pytest --store files`, or STORE=files in the environment of a process that a test starts, each
store that is opened is a copy of a shared one. The journal is in the state directory, so that a
copy of the directory has a copy of it. With `postgres` it is in a database of the tests' own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from unittest.mock import patch

from storage.journal.protocol import Journal, Stream
from storage.journal.sealing import Sealing
from storage.shipped import ShippedStore, Shipping
from storage.tables.codec import STORE_FORMAT, Digests
from storage.tables.lmdb_store import LmdbStore
from tests.files_journal import FilesJournal

SECRET: Final = b"j" * 32


class _HeldAlways(FilesJournal):
    """A journal whose lease is over at once, but for its holder: a crashed one is not waited for.

    Who may append is decided by the epoch alone.
    """

    def holds(self) -> bool:
        """Always True."""
        return True


class CopyOfTests(ShippedStore):
    """A copy of a shared store, which takes the lease when it is opened."""

    def __init__(self, directory: Path, quota_bytes: int, digests: Digests) -> None:
        self._taken = False
        self._own = _journal(directory.with_name("journal"))
        sealing = Sealing(SECRET, "tests", Stream.STORE)
        super().__init__(
            directory, quota_bytes, digests, Shipping(journal=self._own, sealing=sealing)
        )

    def open(self, *, bootstrapped: bool) -> None:
        """Take the lease at the first call, then open the copy."""
        if not self._taken:
            self._taken = self._own.acquire()
        super().open(bootstrapped=bootstrapped)


def _journal(place: Path) -> Journal:
    if os.environ["STORE"] == "files":
        return _HeldAlways(place, address="", store_format=STORE_FORMAT, lease_s=0.0)
    from tests.database_stores import JournalOfTests  # noqa: PLC0415 - its driver is slow to load

    return JournalOfTests(place)


def ship_if_chosen() -> None:
    """Open every store of this process as a copy of a shared one, unless STORE is `embedded`."""
    if os.environ.get("STORE", "embedded") != "embedded":
        patch("storage.embedded.LmdbStore", _tables).start()


def _tables(directory: Path, quota_bytes: int, digests: Digests) -> LmdbStore:
    """The tables of a store; those that `mnemogate run` made in a test are no copy."""
    own = (directory / "data.mdb").exists() and not directory.with_name("store.copy").exists()
    return (LmdbStore if own else CopyOfTests)(directory, quota_bytes, digests)
