"""The store's LMDB environment: named tables of framed values, one writer, many readers.

`writemap=False`, `sync=True` and `metasync=True` are settings for security and not for speed: with
a writable map an aborted write leaves its text in the file, and a full disk kills the process.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import lmdb

from storage.ground.errors import (
    OutcomeUnknown,
    StorageError,
    StoreCorrupt,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
    TransactionFailed,
)
from storage.ground.state_directory import FILE_MODE, fsync_directory
from storage.tables.codec import (
    DIGEST_LEN,
    FORMAT,
    TOTALS,
    Digests,
    StoreHeader,
    decode_header,
    encode,
)
from storage.tables.copying import copy_compactly, refuse_cut
from storage.tables.names import META, NO_SIZES, TABLES, Record, RecordTable, TableSizes


class Lease:
    """A lock for many readers of the environment, or for one thread that reopens it.

    Not reentrant: a thread that holds the lease shared must not take it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._closing = False

    @contextmanager
    def shared(self) -> Generator[None]:
        """Hold the lease together with other readers; waits while a thread holds it alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closing)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                if self._readers == 0:
                    self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Hold the lease alone; waits for its present readers, and new ones wait for its end."""
        with self._changed:
            self._closing = True
            self._changed.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            with self._changed:
                self._closing = False
                self._changed.notify_all()


_HEADER_KEY: Final = b"header"
_CHECKPOINT_KEY: Final = b"checkpoint"
UNERASED_KEY: Final = b"unerased"
POSITION_KEY: Final = b"position"
"""The key of the last row of a journal that a copy contains, if the store is a copy."""
PURGED_KEY: Final = b"purged"
"""The key of the file (its inode) that has purged bytes since it followed a journal."""
OF_THE_COPY: Final = frozenset({POSITION_KEY, PURGED_KEY})
"""The keys of `META` that describe one copy, and not the store."""
_UNCOUNTED: Final = {_HEADER_KEY, _CHECKPOINT_KEY, UNERASED_KEY, POSITION_KEY, PURGED_KEY}
# The map size is address space and not disk. It includes what purges may use beyond the quota
# (`storage.tables.usage`), and the pages that a batch copies.
_MAP_PER_QUOTA: Final = 2.0
_MAP_SPARE_BYTES: Final = 64 * 1024 * 1024
_READERS_MAX: Final = 512
_LOCK_ATTEMPTS: Final = 8


def _translated(error: lmdb.Error) -> TransactionFailed:
    """The error of this package for an error of LMDB."""
    return (StoreFull if isinstance(error, lmdb.MapFullError) else TransactionFailed)(str(error))


class View:
    """One consistent read of the store. Payloads are returned after their digests were checked."""

    __slots__ = ("_tables", "_txn", "_unframe", "digests")

    def __init__(
        self, txn: lmdb.Transaction, tables: dict[bytes, lmdb._Database], digests: Digests
    ) -> None:
        self._txn = txn
        self._tables = tables
        self.digests = digests
        self._unframe = digests.unframe

    def get(self, table: bytes, key: bytes) -> bytes | None:
        """The payload under a key, or None.

        Raises:
            StoreCorrupt: The stored value does not match its digest.
        """
        value = self._txn.get(key, db=self._tables[table])
        return None if value is None else self._unframe(table, key, bytes(value))

    def read(self, table: RecordTable[Record], key: bytes) -> Record | None:
        """The record under a key, or None.

        Raises:
            StoreCorrupt: The stored value does not match its digest.
        """
        if table not in self._tables:
            return None
        value = self._txn.get(key, db=self._tables[table])
        return None if value is None else table.decoded(self._unframe(table, key, bytes(value)))

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether the table has a key; the value is not read."""
        return self._txn.get(key, db=self._tables[table]) is not None

    def scan(
        self, table: bytes, start: bytes = b"", *, sound_only: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Every key from `start` on, in byte order, with its payload.

        With `sound_only`, values that do not match their digests are left out.
        """
        cursor = self._txn.cursor(db=self._tables[table])
        try:
            if cursor.set_range(start):
                unframe = self._unframe
                for found, value in cursor:
                    key = bytes(found)
                    try:
                        payload = unframe(table, key, bytes(value))
                    except StoreCorrupt:
                        if not sound_only:
                            raise
                    else:
                        yield key, payload
        finally:
            cursor.close()

    def under(self, table: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Every key that begins with `prefix`, in byte order, with its payload."""
        for key, payload in self.scan(table, prefix):
            if not key.startswith(prefix):
                return
            yield key, payload

    def records(
        self, table: RecordTable[Record], start: bytes = b"", *, sound_only: bool = False
    ) -> Iterator[tuple[bytes, Record]]:
        """Every key from `start` on, in byte order, with its record; otherwise like `scan`."""
        for key, payload in self.scan(table, start, sound_only=sound_only):
            yield key, table.decoded(payload)

    def keys(self, table: bytes, start: bytes = b"") -> Iterator[bytes]:
        """Every key from `start` on, in byte order; the values are not read."""
        cursor = self._txn.cursor(db=self._tables[table])
        try:
            if cursor.set_range(start):
                yield from map(bytes, cursor.iternext(keys=True, values=False))
        finally:
            cursor.close()

    def stored(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Every key, in byte order, with its value as it is stored; digests are not checked."""
        cursor = self._txn.cursor(db=self._tables[table])
        return ((bytes(key), bytes(value)) for key, value in cursor)

    def count(self, table: bytes) -> int:
        """The number of keys in a table."""
        return self._txn.stat(self._tables[table])["entries"]

    def header(self) -> StoreHeader | None:
        """The header of the store, which describes its generation; None before the first commit.

        Raises:
            StoreCorrupt: The header was changed, or the store was made with another key.
        """
        try:
            payload = self.get(META, _HEADER_KEY)
        except StoreCorrupt as error:
            raise StoreCorrupt(
                "secrets/store.key is not the key that this store was made with, or its header was "
                "changed without the key: put the right key back, or restore a backup"
            ) from error
        return None if payload is None else decode_header(payload)

    def sizes(self) -> TableSizes:
        """The sizes of all tables."""
        return self._measured(self._tables, NO_SIZES)

    def _measured(self, names: Iterable[bytes], others: TableSizes) -> TableSizes:
        """The sizes of some tables, beside those of the others."""
        values, page_bytes = {**others.values}, {**others.page_bytes}
        for name in names:
            stat = self._txn.stat(self._tables[name])
            in_use = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
            values[name], page_bytes[name] = stat["entries"], in_use * stat["psize"]
        return TableSizes(values, page_bytes)

    def problems(self) -> Iterator[str]:
        """Each value that does not match its digest; if none, whether one was put in, out or back.

        Nothing if `store.key` is not known.
        """
        matching, there = self.digests.key is not None, 0
        for table in TABLES if matching else ():
            for key in self.keys(table):
                value = bytes(self._txn.get(key, db=self._tables[table]) or b"")
                try:
                    self._unframe(table, key, value)
                except StoreCorrupt as error:
                    matching = False
                    yield str(error)
                if table != META or key not in _UNCOUNTED:
                    there += self.digests.weight(table, key, value)
        header = self.header() if matching else None
        if header is not None and (self.digests.total(header.total) - there) % TOTALS:
            yield "the values are not those of the last commit: one was put in, out or back"

    def checkpoint(self) -> bytes | None:
        """The signed checkpoint of the log, of the same generation; None before any commit."""
        return self.get(META, _CHECKPOINT_KEY)

    def unerased(self) -> bool:
        """Whether purged bytes are still in pages of the file that were not rewritten."""
        return self.has(META, UNERASED_KEY)


class Draft(View):
    """The one write transaction. Nothing is visible or durable before `commit` returns."""

    __slots__ = ("_added", "_hashes", "_written")

    def __init__(
        self, txn: lmdb.Transaction, tables: dict[bytes, lmdb._Database], digests: Digests
    ) -> None:
        super().__init__(txn, tables, digests)
        self._hashes = digests.tables
        # The tables that this transaction changed, as keys; the header is put after the counting.
        self._written: dict[bytes, bool] = {META: True}
        # The weights of the counted values that this transaction adds, less those it takes out.
        self._added = 0

    def put(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """Frame and store a payload in place of an earlier one; return the value."""
        # As `Digests.digest`, here and in `append`: each write stores six values.
        hashed = self._hashes[table].copy()
        hashed.update(key + payload)
        digest = hashed.digest()
        value = FORMAT + digest[:DIGEST_LEN] + payload
        before = self._txn.replace(key, value, db=self._tables[table])
        self._written[table] = True
        self._added += int.from_bytes(digest[DIGEST_LEN:])
        if before is not None:
            self._added -= self.digests.weight(table, key, before)
        return value

    def sizes_after(self, before: TableSizes) -> TableSizes:
        """The sizes with this transaction's changes, by those before it."""
        return self._measured(self._written if before.values else self._tables, before)

    def total_after(self, total: bytes) -> bytes:
        """The sealed sum of weights after this transaction, of the one before it."""
        return self.digests.sealed(self.digests.total(total) + self._added)

    def write(self, table: RecordTable[Record], key: bytes, record: Record) -> None:
        """Store a record in place of an earlier one."""
        self.put(table, key, encode(record))

    def append(self, table: bytes, key: bytes, payload: bytes) -> bytes:
        """Like `put`, for a key that is above all others in its table; cheaper."""
        hashed = self._hashes[table].copy()
        hashed.update(key + payload)
        digest = hashed.digest()
        value = FORMAT + digest[:DIGEST_LEN] + payload
        self._txn.put(key, value, db=self._tables[table], append=True)
        self._written[table] = True
        self._added += int.from_bytes(digest[DIGEST_LEN:])
        return value

    def delete(self, table: bytes, key: bytes) -> bool:
        """Remove a key; return whether it was in the table."""
        before = self._txn.pop(key, db=self._tables[table])
        self._written[table] = True
        if before is not None:
            self._added -= self.digests.weight(table, key, before)
        return before is not None

    def put_header(self, header: StoreHeader) -> None:
        """Replace the store's header."""
        self._put_uncounted(_HEADER_KEY, encode(header))

    def put_checkpoint(self, note: bytes) -> None:
        """Replace the signed checkpoint."""
        self._put_uncounted(_CHECKPOINT_KEY, note)

    def mark_unerased(self, *, unerased: bool = True) -> None:
        """Record whether purged bytes stay in the file until it is rewritten."""
        if unerased:
            self._put_uncounted(UNERASED_KEY, b"")
        else:
            self._txn.delete(UNERASED_KEY, db=self._tables[META])

    def _put_uncounted(self, key: bytes, payload: bytes) -> bytes:
        value = self.digests.frame(META, key, payload)
        self._txn.put(key, value, db=self._tables[META])
        return value

    def number(self) -> int:
        """The number of this transaction in the environment, counted from the first one."""
        return self._txn.id()

    def commit(self) -> None:
        """Make the changes durable and visible.

        Raises:
            TransactionFailed: The outcome is unknown.
        """
        try:
            self._txn.commit()
        except lmdb.Error as error:
            raise _translated(error) from error

    def abort(self) -> None:
        """Discard all changes. Safe to call in any state."""
        self._txn.abort()

    def __enter__(self) -> Self:
        """Return the draft itself. At the end of the block a draft without a commit is aborted."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: object
    ) -> None:
        """Discard what was not committed.

        Raises:
            TransactionFailed: LMDB refused a read or a write; nothing was written.
        """
        self.abort()
        if isinstance(error, lmdb.Error):
            raise _translated(error) from error


class LmdbStore:
    """The LMDB environment of a store and its open tables.

    Any thread may call `reading`; only the writer thread calls the other methods.
    """

    synced = True
    """Whether a commit is durable in the files when it returns."""

    def __init__(self, directory: Path, quota_bytes: int, digests: Digests) -> None:
        self.directory = directory
        self._data = directory / "data.mdb"
        # Each transaction asks for this file, and spelling a path takes longer than asking.
        self._data_name = str(self._data)
        self.digests = digests
        self.quota_bytes = quota_bytes
        self._map_bytes = int(quota_bytes * _MAP_PER_QUOTA) + _MAP_SPARE_BYTES
        self._pid = os.getpid()
        self._lease = Lease()
        self._env: lmdb.Environment | None = None
        self.inode = 0
        self._tables: dict[bytes, lmdb._Database] = {}

    def open(self, *, bootstrapped: bool) -> None:
        """Open or create the environment, and make its directory entries durable.

        A crash while LMDB writes its very first pages leaves a file that LMDB refuses to open.
        Before the first commit is durable no data can be lost, so such a file is made anew. Later
        the file counts as damaged, and the store stays closed.

        Raises:
            StoreCorrupt: The file is damaged, or missing from a store that was in use.
            StoreUnavailable: The disk refused.
        """
        if bootstrapped and not self._data.exists():
            raise StoreCorrupt("store/data.mdb is gone from a store in use; restore a backup")
        try:
            if bootstrapped:
                refuse_cut(self.directory)
            self._open_environment()
        except lmdb.InvalidError as error:
            if bootstrapped:
                raise StoreCorrupt("store/data.mdb is damaged; restore a backup") from error
            self._recreate()
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailable(f"the store cannot be opened: {error}") from error

    def _recreate(self) -> None:
        shutil.rmtree(self.directory)
        self.directory.mkdir(mode=0o700)
        fsync_directory(self.directory.parent)
        try:
            self._open_environment()
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailable(f"the store cannot be created: {error}") from error

    def _open_environment(self) -> None:
        env = self._agreeing_environment()
        try:
            self._tables = {name: env.open_db(name) for name in TABLES}
            env.reader_check()
        except lmdb.Error:
            env.close()
            raise
        # The environment is assigned before the sync: if the sync fails, nothing may be written,
        # but reads continue.
        self._env = env
        self.inode = self._data.stat().st_ino
        fsync_directory(self.directory)

    def _agreeing_environment(self) -> lmdb.Environment:
        """The environment, once its lock file and its data file name the same generation.

        The lock file contains the number of the last transaction, and outlives a replaced data file
        while another process (an `audit verify`, a backup) has it open. A writer that relies on
        such a lock file takes the wrong one of the two meta pages, which in a compacted copy is an
        empty store. So the lock file is replaced. Only the other process needs the old lock file,
        because it reads the old data file.
        """
        for _ in range(_LOCK_ATTEMPTS):
            env = lmdb.open(
                str(self.directory),
                map_size=self._map_bytes,
                max_dbs=len(TABLES),
                max_readers=_READERS_MAX,
                mode=FILE_MODE,
                sync=self.synced,
                metasync=self.synced,
                writemap=False,
            )
            with env.begin() as txn:
                believed = txn.id()
            if believed == env.info()["last_txnid"]:
                return env
            env.close()
            (self.directory / "lock.mdb").unlink(missing_ok=True)
        raise lmdb.LockError("the lock file is of another data file")

    def _environment(self) -> lmdb.Environment:
        if os.getpid() != self._pid:
            # LMDB would also write from a forked child, and two writers would share one map, so a
            # fork is refused.
            raise StoreLocked("the store was opened by another process; open it after the fork")
        if self._env is None:
            raise StoreUnavailable("the store is closed")
        return self._env

    @contextmanager
    def reading(self) -> Generator[View]:
        """A view of the last committed generation; keep it short. Not reentrant per thread.

        Raises:
            StoreUnavailable: The environment is closed, or unusable after a failed commit.
            StoreLocked: The caller forked.
        """
        with self._lease.shared():
            try:
                with self._environment().begin() as txn:
                    yield View(txn, self._tables, self.digests)
            except lmdb.Error as error:
                raise StoreUnavailable(f"the store cannot be read: {error}") from error

    def bytes_free(self) -> int:
        """The number of bytes that the disk has left for this user.

        Raises:
            OSError: The file system does not report it.
        """
        found = os.statvfs(self.directory)
        return found.f_bavail * found.f_frsize

    def begin(self) -> Draft:
        """Start the write transaction.

        Raises:
            TransactionFailed: The environment has to be reopened first.
        """
        return Draft(self._writing(), self._tables, self.digests)

    def _writing(self) -> lmdb.Transaction:
        try:
            return self._environment().begin(write=True)
        except lmdb.Error as error:
            raise _translated(error) from error

    def overtaken(self, draft: Draft) -> bool:
        """Whether another process has committed, or replaced the file, since the last commit.

        LMDB excludes a second writer by a lock file. If that file is removed, two processes have
        one lock file each, and each transaction continues from the last one of its own process.
        """
        if self._environment().info()["last_txnid"] + 1 != draft.number():
            return True
        try:
            return os.stat(self._data_name).st_ino != self.inode  # noqa: PTH116 - see `_data_name`
        except FileNotFoundError:
            return True

    def reader_check(self) -> int:
        """Free the slots of dead readers, which would keep old pages for ever; return how many.

        Raises:
            TransactionFailed: The slots cannot be read.
        """
        try:
            return self._environment().reader_check()
        except lmdb.Error as error:
            raise _translated(error) from error

    def reopen(self) -> None:
        """Close the environment and open it again, while readers are excluded.

        Raises:
            StoreUnavailable: The environment cannot be opened; it stays closed.
            StoreCorrupt: The file is damaged.
        """
        with self._lease.exclusive():
            self.close()
            self.open(bootstrapped=True)

    def shorten_journal(self) -> None:
        """Let the journal of a shared store begin anew, if it is too long; else do nothing.

        Raises:
            StoreUnavailable: The journal does not answer.
            StoreCorrupt: As for `reopen`.
        """

    def compact(self) -> int:
        """Rewrite the file without its free pages, by a copy that replaces it.

        Returns:
            Bytes saved.

        Raises:
            StoreUnavailable: No space for the copy; the store continues with the old file.
            OutcomeUnknown: The copy is in place, but its name may not be durable, or it cannot be
                opened. Nothing more may be written, because after a power cut the old file could be
                back, without the commits since.
            OSError: A file beside the store could not be removed.
        """
        # Inside, so that a copy that a kill left there goes wherever the store goes.
        beside = self.directory / "compacting"
        before = self._data.stat().st_size
        copy_compactly(self._environment(), beside)
        with self._lease.exclusive():
            self.close()
            failure: OSError | None = None
            try:
                (beside / "data.mdb").replace(self._data)
            except OSError as error:
                failure = error
            try:
                self.open(bootstrapped=True)  # `copy_compactly` also syncs the directory
            except StorageError as error:
                raise OutcomeUnknown(f"the compacted store: {error}") from error
        shutil.rmtree(beside, ignore_errors=True)
        if failure is not None:
            raise StoreUnavailable(f"no compacted copy: {failure}") from failure
        fsync_directory(self.directory)
        return max(0, before - self._data.stat().st_size)

    def close(self) -> None:
        """Close the environment. No reader may be using it, as `reopen` and `compact` ensure."""
        if self._env is not None and os.getpid() == self._pid:
            self._env.close()
        self._env = None

    def shut(self) -> None:
        """Close the environment for good, after its readers have ended."""
        with self._lease.exclusive():
            self.close()
