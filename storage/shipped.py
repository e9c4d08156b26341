"""The tables of a shared store: each transaction is appended to a journal before its commit.

What is durable is the journal. The LMDB environment is a copy on this machine that nothing syncs: a
copy of an earlier boot may lack pages, so it is removed, and made again from the journal. A copy is
opened by catching up; what the engine does with it is as with a store of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import lmdb
import msgspec

from storage.ground.errors import StoreUnavailable, TransactionFailed
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import DIRECTORY_MODE, write_durably
from storage.journal.lease import boot_id
from storage.journal.protocol import Journal, Stream
from storage.journal.sealing import TERM_LEN, Position, Sealing, Write
from storage.tables.codec import Digests, StoreHeader, encode
from storage.tables.lmdb_store import POSITION_KEY, Draft, LmdbStore, View
from storage.tables.names import META

_ROWS_PER_TRANSACTION: Final = 256
_COPY_RESERVE_BYTES: Final = 4 * 1024 * 1024
_decode_position: Final = msgspec.msgpack.Decoder(Position).decode


class Shipping(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a shared store, of which this process holds the lease, and its sealing."""

    journal: Journal
    sealing: Sealing


class ShippedDraft(Draft):
    """A write transaction of the copy. `commit` appends it to the journal first."""

    __slots__ = ("_ordinals", "_store", "_writes")

    def __init__(
        self,
        txn: lmdb.Transaction,
        tables: dict[bytes, lmdb._Database],
        digests: Digests,
        store: ShippedStore,
    ) -> None:
        super().__init__(txn, tables, digests)
        self._store = store
        # The last value of each key that was written, framed; None for a removed key.
        self._writes: dict[tuple[bytes, bytes], bytes | None] = {}
        self._ordinals = range(0)

    def put(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """Frame, store and record a payload (`Draft.put`)."""
        self._writes[table, key] = value = super().put(table, key, payload)
        return value

    def append(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """Frame, store and record a payload (`Draft.append`)."""
        self._writes[table, key] = value = super().append(table, key, payload)
        return value

    def delete(self, table: bytes, key: bytes) -> bool:
        """Remove a key, and record that; return whether it was in the table."""
        self._writes[table, key] = None
        return super().delete(table, key)

    def put_header(self, header: StoreHeader) -> None:
        """Replace the store's header, and record its ordinals."""
        before = self.header()
        self._ordinals = range(before.next_ordinal if before else 0, header.next_ordinal)
        super().put_header(header)

    def _put_uncounted(self, key: bytes, payload: bytes) -> bytes:
        value = super()._put_uncounted(key, payload)
        self._writes[META, key] = value
        return value

    def commit(self) -> None:
        """Append the transaction to the journal, then make it visible in the copy.

        Raises:
            LeaseLost: Another process holds the store; nothing was written.
            StoreUnavailable: The disk has too little room for the copy; nothing was written.
            TransactionFailed: The outcome is unknown until `ShippedStore.reopen` has settled it.
        """
        writes = [Write(bytes(table), key, value) for (table, key), value in self._writes.items()]
        self._store.ship(writes, self._ordinals, self)

    def repeat(self, writes: Iterable[Write]) -> None:
        """Write what an earlier transaction wrote, of which the journal has the row."""
        for one in writes:
            if one.value is None:
                self._txn.delete(one.key, db=self._tables[one.table])
            else:
                self._txn.put(one.key, one.value, db=self._tables[one.table])

    def place(self, position: Position) -> None:
        """Record the last row of the journal that the copy contains; no row contains that."""
        super()._put_uncounted(POSITION_KEY, encode(position))

    def keep(self) -> None:
        """Commit the copy alone."""
        super().commit()


class ShippedStore(LmdbStore):
    """The copy of a shared store on this machine, and the way of its transactions to the journal.

    While the lease is over, reads and transactions are refused; `catch_up` is not.
    """

    synced = False

    def __init__(
        self, directory: Path, quota_bytes: int, digests: Digests, shipping: Shipping
    ) -> None:
        super().__init__(directory, quota_bytes, digests)
        self._journal, self._sealing = shipping.journal, shipping.sealing
        # The name of what this process will append. An object serves one takeover.
        self._term = random_bytes(TERM_LEN)
        self._position = Position()

    def open(self, *, bootstrapped: bool) -> None:
        """Open the copy, or begin a new one, and apply the rows of the journal that it lacks.

        Raises:
            StoreCorrupt: The copy is damaged, or a row of the journal is missing, was changed, or
                is of another history than the copy.
            StoreUnavailable: The disk refused, or the journal does not answer.
        """
        mark = self.directory.with_name("store.copy")
        name = f"{boot_id()} {self._sealing.store}".encode()
        try:
            if not mark.exists() and any(self.directory.iterdir()):
                raise StoreUnavailable(
                    "the state directory contains a store of its own, whose place the copy of a "
                    "shared store would take: give the copy another state directory"
                )
            kept = mark.exists() and mark.read_bytes() == name
            if not kept:
                # After a crash of the machine pages may be missing that nothing synced.
                shutil.rmtree(self.directory)
                self.directory.mkdir(mode=DIRECTORY_MODE)
                write_durably(mark, name)
        except OSError as error:
            raise StoreUnavailable(f"the copy cannot be begun: {error.strerror}") from error
        super().open(bootstrapped=bootstrapped and kept)
        try:
            with self._draft() as draft:
                # The header is read first: with another store.key its error is the one to show.
                draft.header()
                stored = draft.get(META, POSITION_KEY)
            self._position = Position() if stored is None else _decode_position(stored)
            self.catch_up()
        except TransactionFailed as error:
            raise StoreUnavailable(f"the copy cannot be written: {error}") from error

    def catch_up(self) -> None:
        """Apply the rows of the journal that the copy lacks, each with its whole transaction.

        Raises:
            StoreCorrupt: As for `open`.
            StoreUnavailable: The journal does not answer.
            TransactionFailed: The disk refused; the copy is as it was after an earlier row.
        """
        rows = self._journal.since(Stream.STORE, self._position.seq)
        while some := tuple(islice(rows, _ROWS_PER_TRANSACTION)):
            position = self._position
            with self._draft() as draft:
                for row in some:
                    batch, position = self._sealing.open(row, position)
                    draft.repeat(batch.writes)
                draft.place(position)
                draft.keep()
            self._position = position

    @contextmanager
    def reading(self) -> Generator[View]:
        """A view of the last committed generation (`LmdbStore.reading`).

        Raises:
            StoreUnavailable: Also where the lease is over: another process may have written since.
        """
        self._refuse_without_lease()
        with super().reading() as view:
            yield view

    def begin(self) -> Draft:
        """Start the write transaction (`LmdbStore.begin`).

        Raises:
            StoreUnavailable: The lease is over.
            TransactionFailed: The environment has to be reopened first.
        """
        self._refuse_without_lease()
        return self._draft()

    def ship(self, writes: Sequence[Write], ordinals: range, draft: ShippedDraft) -> None:
        """Append one transaction to the journal, then commit it to the copy.

        Raises what `ShippedDraft.commit` raises.
        """
        try:
            free_bytes = self.bytes_free()
        except OSError as error:
            raise StoreUnavailable(f"the copy cannot be used: {error.strerror}") from error
        # What is appended cannot be taken back, so the copy must have room for it before.
        if free_bytes < _COPY_RESERVE_BYTES:
            raise StoreUnavailable("no room for the copy of the store: No space left on device")
        row = self._sealing.seal(writes, self._position, self._term, ordinals)
        position = Position(row.seq, self._term)
        # Written before the append, so that after it the commit alone can fail.
        draft.place(position)
        self._journal.append(Stream.STORE, row)
        draft.keep()
        self._position = position

    def reopen(self) -> None:
        """Settle what was appended last, and open the copy again, while readers are excluded.

        Raises:
            StoreUnavailable: The journal does not answer, the lease is lost, or the environment
                cannot be opened.
            StoreCorrupt: As for `open`.
        """
        self._journal.settle(Stream.STORE)
        super().reopen()

    def _draft(self) -> ShippedDraft:
        return ShippedDraft(self._writing(), self._tables, self.digests, self)

    def _refuse_without_lease(self) -> None:
        if not self._journal.holds():
            raise StoreUnavailable("the lease is over: another process may hold this store")
