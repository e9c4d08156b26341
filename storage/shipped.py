"""The tables of a shared store: each transaction is appended to a journal before its commit.

What is durable is the journal. The LMDB environment is a copy on this machine that nothing syncs: a
copy of an earlier boot may lack pages, so it is removed, and made again from the journal. A copy is
opened by catching up; what the engine does with it is as with a store of its own.

Where the journal is much longer than the store, it begins anew with a base: rows that contain the
whole store. They follow no row, so that a copy that lacks one of them is made anew from them.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import lmdb
import msgspec
from msgspec.structs import replace

from storage.ground.errors import StoreCorrupt, StoreUnavailable, TransactionFailed
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import DIRECTORY_MODE, write_durably
from storage.journal.lease import boot_id
from storage.journal.protocol import Journal, JournalRow, Stream
from storage.journal.sealing import (
    NO_KEY,
    SEGMENT_LEN,
    TERM_LEN,
    Position,
    Sealing,
    Write,
    key_id_of,
)
from storage.journal.segment_keys import SegmentKeys
from storage.tables.codec import Digests, StoreHeader, encode
from storage.tables.lmdb_store import (
    OF_THE_COPY,
    POSITION_KEY,
    PURGED_KEY,
    UNERASED_KEY,
    Draft,
    LmdbStore,
    View,
)
from storage.tables.names import META, TABLES

COPY_MARK: Final = "store.copy"
"""The file beside a copy that names the boot of the machine and the store that it is of."""
_ROWS_PER_TRANSACTION: Final = 256
_COPY_RESERVE_BYTES: Final = 4 * 1024 * 1024
_BASE_ROW_BYTES: Final = 256 * 1024
_JOURNAL_PER_STORE: Final = 4
"""How many times longer than the store the journal may be, before it begins anew."""


class Shipping(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a shared store, of which this process holds the lease, and its sealing."""

    journal: Journal
    sealing: Sealing

    def open_row(self, seq: int) -> None:
        """Open the store's row `seq`, or its first row where that is later; nothing in a new shard.

        The key of the last row is the newest of all: without it the keys were lost, or are older
        than the journal.

        Raises:
            StoreCorrupt: The row is missing, or does not open.
            StoreUnavailable: The journal does not answer, or the keys cannot be read.
        """
        begins = self.journal.begins(Stream.STORE)
        for row in islice(self.journal.since(Stream.STORE, max(seq, begins) - 1), 1):
            self.sealing.read(row)


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """The last row that a copy contains, and the length of the journal up to it."""

    position: Position = Position()
    journal_bytes: int = 0

    def after(self, position: Position, row: JournalRow) -> _Place:
        """The place of the next row."""
        return _Place(position, self.journal_bytes + len(row.body))


_decode_place: Final = msgspec.msgpack.Decoder(_Place).decode


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

    def mark_unerased(self, *, unerased: bool = True) -> None:
        """Record whether purged bytes stay in the file, also for those who follow the journal."""
        super().mark_unerased(unerased=unerased)
        if not unerased:
            self._writes[META, UNERASED_KEY] = None

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

    def still_there(self, writes: Iterable[Write]) -> list[Write]:
        """Those of some earlier writes that left what the store has now.

        Marks of purges are among them, whatever came after: each copy has to see that there was
        one.
        """
        return [
            one
            for one in writes
            if self._txn.get(one.key, db=self._tables[one.table]) == one.value
            or (one.table, one.key) == (META, UNERASED_KEY)
        ]

    def mark_purged(self, inode: int) -> None:
        """Record the file to which this transaction repeats a purge; no row contains that."""
        super()._put_uncounted(PURGED_KEY, encode(inode))

    def place(self, place: _Place) -> None:
        """Record the last row of the journal that the copy contains; no row contains that."""
        super()._put_uncounted(POSITION_KEY, encode(place))

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
        self._shipping = shipping
        self._journal, self._sealing = shipping.journal, shipping.sealing
        # The name of what this process will append. An object serves one takeover.
        self._term = random_bytes(TERM_LEN)
        self._place = _Place()
        self._mark = directory.with_name(COPY_MARK)
        self._name = f"{boot_id()} {self._sealing.store} 2".encode()

    def open(self, *, bootstrapped: bool) -> None:
        """Open the copy, or begin a new one, and apply the rows of the journal that it lacks.

        Raises:
            StoreCorrupt: The copy is damaged, or a row of the journal is missing, was changed, or
                is of another history than the copy.
            StoreUnavailable: The disk refused, or the journal does not answer.
        """
        self.open_copy(bootstrapped=bootstrapped)
        # A copy that lacks no row would open none.
        self._shipping.open_row(self._place.position.seq)
        try:
            self.catch_up()
        except TransactionFailed as error:
            raise StoreUnavailable(f"the copy cannot be written: {error}") from error

    def open_copy(self, *, bootstrapped: bool) -> None:
        """Open the copy as it is, or begin a new one. Raises what `open` raises."""
        try:
            if not self._mark.exists() and any(self.directory.iterdir()):
                raise StoreUnavailable(
                    "the state directory contains a store of its own, whose place the copy of a "
                    "shared store would take: give the copy another state directory"
                )
            kept = self._mark.exists() and self._mark.read_bytes() == self._name
        except OSError as error:
            raise StoreUnavailable(f"the copy cannot be begun: {error.strerror}") from error
        if not kept:
            # After a crash of the machine pages may be missing that nothing synced.
            self.begin_anew()
            return
        super().open(bootstrapped=bootstrapped)
        try:
            with self._draft() as draft:
                # The header is read first: with another store.key its error is the one to show.
                draft.header()
                stored = draft.get(META, POSITION_KEY)
        except TransactionFailed as error:
            raise StoreUnavailable(f"the copy cannot be written: {error}") from error
        self._place = _Place() if stored is None else _decode_place(stored)

    def begin_anew(self) -> None:
        """Put an empty copy in place of this one.

        Raises:
            StoreUnavailable: The disk refused.
        """
        self.close()
        try:
            # A crash on the way leaves a copy that is begun anew.
            write_durably(self._mark, b"")
            shutil.rmtree(self.directory)
            self.directory.mkdir(mode=DIRECTORY_MODE)
            super().open(bootstrapped=False)
            write_durably(self._mark, self._name)
        except OSError as error:
            raise StoreUnavailable(f"the copy cannot be begun: {error.strerror}") from error
        self._place = _Place()

    def catch_up(self) -> None:
        """Apply the rows of the journal that the copy lacks, each with its whole transaction.

        If one of them was a purge, the copy's file is then rewritten without the purged bytes. So a
        copy that follows the journal has no text that a purge took, once this returns.

        Raises:
            StoreCorrupt: As for `open`.
            StoreUnavailable: The journal does not answer.
            TransactionFailed: The disk refused; the copy is as it was after an earlier row.
        """
        begins = self._journal.begins(Stream.STORE)
        if self._place.position.seq < begins:
            last = Position(begins - 1)
            if last.seq:
                # Whoever has the database can name any row as the first one. The copy shows what
                # the journal lost, so it is given up for a base alone.
                first = next(self._journal.since(Stream.STORE, last.seq), None)
                if first is None:
                    raise StoreCorrupt(f"row {begins} of the journal is missing, its first one")
                self._sealing.open(first, last)
                self.begin_anew()
            self._place = _Place(last)
        rows = self._journal.since(Stream.STORE, self._place.position.seq)
        while some := tuple(islice(rows, _ROWS_PER_TRANSACTION)):
            place = self._place
            with self._draft() as draft:
                for row in some:
                    batch, position = self._sealing.open(row, place.position)
                    draft.repeat(batch.writes)
                    if any((one.table, one.key) == (META, UNERASED_KEY) for one in batch.writes):
                        draft.mark_purged(self.inode)
                    place = place.after(position, row)
                draft.place(place)
                draft.keep()
            self._place = place
        with self._draft() as draft:
            purged = draft.get(META, PURGED_KEY) == encode(self.inode)
        # A rewritten file has another inode, so that this is done once, and again after a crash.
        if purged:
            super().compact()

    def shorten_journal(self) -> None:
        """Append the whole store as the journal's beginning, if the journal is too long for it."""
        place = _Place(self._place.position)

        def base(view: View) -> Generator[JournalRow]:
            nonlocal place
            for row in base_of(view, self._sealing, place.position.seq, self._term):
                place = place.after(Position(row.seq, self._term), row)
                yield row

        try:
            with super().reading() as view:
                if self._place.journal_bytes <= _JOURNAL_PER_STORE * view.sizes().bytes_used:
                    return
                self._journal.rebase(Stream.STORE, base(view))
            with self._draft() as draft:
                draft.place(place)
                draft.keep()
            self._place = place
        except TransactionFailed:
            self.reopen()

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
        row = self._sealing.seal(writes, self._place.position, self._term, ordinals)
        place = self._place.after(Position(row.seq, self._term), row)
        # Written before the append, so that after it the commit alone can fail.
        draft.place(place)
        self._journal.append(Stream.STORE, row)
        draft.keep()
        self._place = place

    def reopen(self) -> None:
        """Settle what was appended last, and open the copy again, while readers are excluded.

        Raises:
            StoreUnavailable: The journal does not answer, the lease is lost, or the environment
                cannot be opened.
            StoreCorrupt: As for `open`.
        """
        self._journal.settle(Stream.STORE)
        super().reopen()

    def compact(self) -> int:
        """Rewrite the file without its free pages, and the journal without outdated values.

        Raises:
            StoreUnavailable: Also where the journal or the keys do not answer, or the lease is
                lost: a part of the journal may be rewritten, and the rest is by the next call.
            StoreCorrupt: A row of the journal does not open.
        """
        saved = super().compact()
        if self._sealing.keys is not None:
            self._reseal(self._sealing.keys)
        return saved

    def _reseal(self, keys: SegmentKeys) -> None:
        """Seal each segment with outdated values again without them, and destroy its old key.

        What the store does not have is then in no row that a remaining key opens, whichever record
        of whichever batch it was in. A key is durable before rows are sealed under it, and is
        destroyed when no row is left that it opens. A start after a crash finds the store's mark of
        the purge, and does it again.
        """
        # All of these are of this holder or of earlier ones, because settling is fenced: what a
        # later holder seals is not under them, so they may be destroyed whatever happens meanwhile.
        before = keys.ids()
        self._journal.settle(Stream.STORE)
        self._sealing.end_segment()
        used = set[bytes]()
        stored = self._journal.since(Stream.STORE, self._journal.begins(Stream.STORE) - 1)
        with self._draft() as draft:
            for key_id, rows in groupby(stored, key_id_of):
                while segment := tuple(islice(rows, SEGMENT_LEN)):
                    if not self._resealed(segment, draft, keys):
                        used.add(key_id)
        keys.destroy(before - used)

    def _resealed(
        self, segment: Sequence[JournalRow], draft: ShippedDraft, keys: SegmentKeys
    ) -> bool:
        """Whether some rows under one key had outdated values, and were sealed again without."""
        batches = [self._sealing.read(row) for row in segment]
        left = [replace(one, writes=draft.still_there(one.writes)) for one in batches]
        if left == batches and key_id_of(segment[0]) != NO_KEY:
            return False
        key_id = keys.draw()
        rows = [
            self._sealing.reseal(row, batch, key_id)
            for row, batch in zip(segment, left, strict=True)
        ]
        try:
            self._journal.exchange(Stream.STORE, rows)
        except TransactionFailed as error:
            raise StoreUnavailable(f"the journal was not rewritten: {error}") from error
        return True

    def _draft(self) -> ShippedDraft:
        return ShippedDraft(self._writing(), self._tables, self.digests, self)

    def _refuse_without_lease(self) -> None:
        if not self._journal.holds():
            raise StoreUnavailable("the lease is over: another process may hold this store")


def base_of(view: View, sealing: Sealing, seq: int, term: bytes) -> Generator[JournalRow]:
    """The rows of a whole store with which its journal begins anew after the row `seq`, or begins.

    The first of them follows no row, as the first row of all.
    """
    header, last = view.header(), Position(seq)
    for writes in _parts(view):
        row = sealing.seal(writes, last, term, range(header.next_ordinal if header else 0))
        last = Position(row.seq, term)
        yield row


def _parts(view: View) -> Generator[list[Write]]:
    """All values of a store, in parts of the length of a row."""
    part, size = list[Write](), 0
    for table in TABLES:
        for key, value in view.stored(table):
            if table != META or key not in OF_THE_COPY:
                part.append(Write(bytes(table), key, value))
                size += len(value)
            if size >= _BASE_ROW_BYTES:
                yield part
                part, size = [], 0
    yield part
