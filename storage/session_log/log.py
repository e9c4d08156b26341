"""The session ledger's own file: appended to, encrypted, with losses reported.

After a loss `whole` is False, and the ledger trusts less (`storage.session_log.frames` has the
format).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from storage.ground.errors import StoreUnavailable
from storage.ground.state_directory import DIRECTORY_MODE, fsync_directory
from storage.session_log.frames import (
    NAME,
    UNFINISHED,
    FrameKeys,
    ValidFrames,
    derived,
    make,
    portions,
    read_contents,
    write_all,
)

DIRECTORY: Final = "sessions"
RECORD_LEN_MAX: Final = 16 * 1024 * 1024
QUEUE_LEN_MAX: Final = 256 * 1024 * 1024


class OpenedLog(NamedTuple):
    """The contents of a log that was opened.

    `whole` is False where a promised record is missing.
    """

    log: SealedLog
    records: tuple[bytes, ...]
    whole: bool


class _Batch:
    """Records that are written together, and the futures that wait for these records."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.records: list[bytes] = []
        self.bytes = 0
        self.done: asyncio.Future[None] = loop.create_future()


class SealedLog:
    """Implements `SessionLog` on a file; a thread waits for the disk."""

    def __init__(self, directory: Path, keys: FrameKeys, contents: ValidFrames) -> None:
        self._directory = directory
        self._keys = keys
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mnemogate-sessions")
        self._file_id = contents.file_id
        self._frame_count = contents.frame_count
        self._length = contents.length
        self._handle = os.open(directory / NAME, os.O_RDWR | os.O_CLOEXEC)
        self._failed: str | None = None
        self._open: _Batch | None = None
        self._writing: _Batch | None = None

    @property
    def length(self) -> int:
        """The length of the file in bytes."""
        return self._length

    def add(self, records: Iterable[bytes]) -> asyncio.Future[None]:
        """Have records written soon; the returned future is done when they are durable."""
        self._require_usable()
        batch = self._open
        if batch is None:
            batch = self._open = _Batch(asyncio.get_running_loop())
        for record in records:
            if len(record) > RECORD_LEN_MAX:
                raise StoreUnavailable("a record of the session ledger is too long")
            batch.records.append(record)
            batch.bytes += len(record)
        if batch.bytes > QUEUE_LEN_MAX:
            raise StoreUnavailable("the session ledger cannot keep up")
        if self._writing is None:
            # What is queued in the same turn of the loop is written together.
            asyncio.get_running_loop().call_soon(self._start)
        return batch.done

    async def append(self, records: Iterable[bytes] = ()) -> None:
        """Make records durable, and all that were queued before."""
        # The waiting caller may be cancelled; the records are written for the other callers all the
        # same.
        await asyncio.shield(self.add(records))

    def _start(self) -> None:
        batch = self._open
        if batch is None or self._writing is not None:
            return
        self._writing, self._open = batch, None
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._pool, self._write, batch.records).add_done_callback(self._settle)

    def _settle(self, written: asyncio.Future[None]) -> None:
        batch, self._writing = self._writing, None
        if batch is None:
            return
        error = written.exception()
        if error is None:
            batch.done.set_result(None)
            if self._open is not None:
                self._start()
            return
        batch.done.set_exception(error)
        # Nobody has to wait for this future, so its exception is marked as seen. Later records must
        # not become durable without these records.
        batch.done.exception()
        # Records must not become durable before those that were queued earlier.
        waiting = self._open
        if waiting is None:
            waiting = self._open = _Batch(asyncio.get_running_loop())
        waiting.records[:0] = batch.records
        waiting.bytes += batch.bytes

    async def rewrite(self, records: Iterable[bytes]) -> None:
        """Replace all records that were added before by the given ones.

        Records that are being written at this moment may be in the file twice.
        """
        self._require_usable()
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._pool, self._replace, list(records)))

    async def check(self) -> str | None:
        """What is wrong with the file now; None if it is sound."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._check)

    def _check(self) -> str | None:
        """Check the file on the thread that writes: then nothing is written meanwhile."""
        try:
            contents = read_contents(self._directory / NAME, self._keys)
        except OSError as error:
            return f"{DIRECTORY}/{NAME} cannot be read: {error.strerror}"
        if contents is None:
            return f"{DIRECTORY}/{NAME} is missing"
        same = (contents.whole, contents.file_id) == (True, self._file_id)
        if not same or contents.frame_count != self._frame_count:
            return f"{DIRECTORY}/{NAME} is not what was written"
        return None

    async def close(self) -> None:
        """Write queued records and release the file."""
        if self._handle < 0:
            return
        loop = asyncio.get_running_loop()
        try:
            while self._writing is not None:
                await asyncio.wait([self._writing.done])
            if self._open is not None:
                batch, self._open = self._open, None
                await loop.run_in_executor(self._pool, self._write, batch.records)
        finally:
            self._pool.shutdown(wait=True)
            os.close(self._handle)
            self._handle = -1

    def _require_usable(self) -> None:
        if self._failed is not None or self._handle < 0:
            raise StoreUnavailable(f"the session ledger cannot be written: {self._failed}")

    def _write(self, batch: list[bytes]) -> None:
        """Write one or more frames, then the header, and sync. Worker thread only."""
        self._require_usable()
        count, length = self._frame_count, self._length
        try:
            for records in portions(batch):
                frame = self._keys.seal(self._file_id, count, records)
                write_all(self._handle, frame, length)
                count, length = count + 1, length + len(frame)
            write_all(self._handle, self._keys.header(self._file_id, count), 0)
            os.fdatasync(self._handle)
        except OSError as error:
            self._take_back(error)
            raise StoreUnavailable(f"the session ledger cannot be written: {error}") from error
        self._frame_count, self._length = count, length

    def _take_back(self, error: OSError) -> None:
        """After a failed write: cut the file back to its old end, or mark it as unusable."""
        try:
            os.ftruncate(self._handle, self._length)
            write_all(self._handle, self._keys.header(self._file_id, self._frame_count), 0)
            os.fdatasync(self._handle)
        except OSError:
            self._failed = str(error)

    def _replace(self, records: list[bytes]) -> None:
        """Write a new file, sync it, then rename it over the old one. Worker thread only."""
        self._require_usable()
        try:
            made = make(self._directory, self._keys, records)
            handle = os.open(self._directory / NAME, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StoreUnavailable(f"the session ledger cannot be rewritten: {error}") from error
        os.close(self._handle)
        self._handle = handle
        self._file_id, self._frame_count, self._length = made


def prints_key(store_key: bytes) -> bytes:
    """The key that the session ledger's fingerprints are made with."""
    return derived(store_key, b"session log, prints")


def open_session_log(
    state: Path, keys: FrameKeys, scar: bytes, *, is_new: bool = False
) -> OpenedLog:
    """Open or make the session ledger's file below a locked state directory. Blocks.

    If anything is lost, a new file is begun with the readable records and `scar`, a record of the
    loss, so that the next start does not take the new file for a whole one. `is_new`: the store was
    made just now, so that no file means no history.

    Raises:
        StoreUnavailable: The file cannot be opened or made.
    """
    directory = state / DIRECTORY
    try:
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        directory.chmod(DIRECTORY_MODE)
        (directory / UNFINISHED).unlink(missing_ok=True)
        contents = read_contents(directory / NAME, keys)
        if contents is None or not contents.whole:
            records = () if contents is None else contents.records
            whole = contents is None and is_new
            records = records if whole else (*records, scar)
            file_id, frame_count, length = make(directory, keys, list(records))
            contents = ValidFrames(file_id, keys.belongs_to, records, frame_count, length, whole)
        fsync_directory(state)
        log = SealedLog(directory, keys, contents)
    except OSError as error:
        raise StoreUnavailable(f"the session ledger cannot be opened: {error}") from error
    return OpenedLog(log, contents.records, contents.whole)
