"""The session ledger's own file: encrypted, only appended to, and checked for losses.

After a loss `whole` is False, and the ledger trusts less. Records that are written together are in
one frame.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage.ground.errors import StoreUnavailable
from storage.ground.state_directory import DIRECTORY_MODE, fsync_directory
from storage.sealed_log.sealed_file import (
    Contents,
    FileKeys,
    Policy,
    Record,
    SealedFile,
    derived,
    read_contents,
    remove_unfinished,
)

DIRECTORY: Final = "sessions"
NAME: Final = "log"
FRAME_LEN_MAX: Final = 64 * 1024 * 1024
RECORD_LEN_MAX: Final = 16 * 1024 * 1024
QUEUE_LEN_MAX: Final = 256 * 1024 * 1024
POLICY: Final = Policy(
    magic=b"MNGSESS\x02",
    purpose=b"session log",
    promises=True,
)
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


class Opened(NamedTuple):
    """A log that was opened, and its records; `whole` is False if a promised record is missing."""

    log: SealedLog
    records: tuple[bytes, ...]
    whole: bool


class _Batch:
    """Records that are written together, and the future that is done when they are durable."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.records: list[bytes] = []
        self.bytes = 0
        self.done: asyncio.Future[None] = loop.create_future()


class SealedLog:
    """Writes the session ledger's records to a file, on a thread that waits.

    Their meaning only the ledger knows. One writer, on the event loop. If a call raises
    StoreUnavailable, records to be added are written with the next ones, and a rewriting changed
    nothing.
    """

    def __init__(self, path: Path, keys: FileKeys, file: SealedFile) -> None:
        self._path = path
        self._keys = keys
        self._file = file
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mnemogate-sessions")
        self._closed = False
        self._open: _Batch | None = None
        self._writing: _Batch | None = None

    @property
    def length(self) -> int:
        """The length of the file in bytes."""
        return self._file.length

    def add(self, records: Iterable[bytes]) -> asyncio.Future[None]:
        """Queue records to be written soon; the returned future is done when they are durable."""
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
            # Records that are queued in the same turn of the event loop are written together.
            asyncio.get_running_loop().call_soon(self._start)
        return batch.done

    async def append(self, records: Iterable[bytes] = ()) -> None:
        """Make records, and all that were queued before, durable."""
        # The waiting caller may be cancelled, but the records are written all the same, for other
        # callers too.
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
        # It may be that no caller waits for this future, so its exception is marked as retrieved.
        batch.done.exception()
        # The failed records are queued first, because later ones must not become durable before
        # them.
        if self._open is None:
            self._open = _Batch(asyncio.get_running_loop())
        else:
            # Callers wait for these, and it may be that no later record starts them.
            asyncio.get_running_loop().call_soon(self._start)
        self._open.records[:0] = batch.records
        self._open.bytes += batch.bytes

    async def rewrite(self, records: Iterable[bytes]) -> None:
        """Replace all records that were added before by the given ones.

        Records that are being written at this moment may be in the new file as well.
        """
        self._require_usable()
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._pool, self._replace, list(records)))

    async def check(self) -> str | None:
        """The defect of the file, in words; None if it is sound."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._check)

    def _check(self) -> str | None:
        """Check the file on the thread that writes it, so that no write happens meanwhile."""
        try:
            contents = read_contents(self._path, self._keys)
        except OSError as error:
            return f"{DIRECTORY}/{NAME} cannot be read: {error.strerror}"
        if contents is None:
            return f"{DIRECTORY}/{NAME} is missing"
        found = (contents.whole, contents.drawn, len(contents.plains))
        if found != (True, self._file.drawn, self._file.frame_count):
            return f"{DIRECTORY}/{NAME} is not what was written"
        return None

    async def close(self) -> None:
        """Write queued records and close the file."""
        if self._closed:
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
            self._file.close()
            self._closed = True

    def _require_usable(self) -> None:
        if self._file.failed is not None or self._closed:
            raise StoreUnavailable(f"the session ledger cannot be written: {self._file.failed}")

    def _write(self, batch: list[bytes]) -> None:
        """Append records in one or more frames. Worker thread only."""
        self._require_usable()
        try:
            self._file.append(frames_of(batch, self._file.frame_count))
        except OSError as error:
            raise StoreUnavailable(f"the session ledger cannot be written: {error}") from error

    def _replace(self, records: list[bytes]) -> None:
        """Replace the file by a new one. Worker thread only."""
        self._require_usable()
        try:
            file = SealedFile.made(self._path, self._keys, frames_of(records))
        except OSError as error:
            raise StoreUnavailable(f"the session ledger cannot be rewritten: {error}") from error
        self._file.close()
        self._file = file


def session_keys(store_key: bytes, incarnation: str) -> FileKeys:
    """The keys of the session ledger's files in one incarnation of a store."""
    return FileKeys(POLICY, store_key, incarnation)


def prints_key(store_key: bytes) -> bytes:
    """The key of the fingerprints of the session ledger."""
    return derived(store_key, b"mnemogate", b"session log, prints")


def open_session_log(state: Path, keys: FileKeys, scar: bytes, *, is_new: bool = False) -> Opened:
    """Open or create the session ledger's file below a locked state directory. Blocks.

    If a part is lost, a new file is begun with the readable records and with `scar`, a record of
    the loss, so that the next start does not take the new file for a complete one. `is_new`: no
    file was ever written, so that a missing file is no loss.

    Raises:
        StoreUnavailable: The file cannot be opened or created.
    """
    directory = state / DIRECTORY
    path = directory / NAME
    try:
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        directory.chmod(DIRECTORY_MODE)
        remove_unfinished(directory)
        contents = read_contents(path, keys)
        records = () if contents is None else records_of(contents)
        whole = is_new if contents is None else contents.whole
        if contents is not None and whole:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            frame_count, length = len(contents.plains), contents.length
            file = SealedFile(handle, keys, contents.drawn, frame_count, length)
        else:
            records = records if whole else (*records, scar)
            file = SealedFile.made(path, keys, frames_of(records))
        fsync_directory(state)
    except OSError as error:
        raise StoreUnavailable(f"the session ledger cannot be opened: {error}") from error
    return Opened(SealedLog(path, keys, file), records, whole)


def write_session_log(path: Path, keys: FileKeys, records: list[bytes]) -> None:
    """Create the session ledger's file of a restored store.

    Raises:
        OSError: The file could not be put in place.
    """
    SealedFile.made(path, keys, frames_of(records)).close()


def records_of(contents: Contents) -> tuple[bytes, ...]:
    """The records in the frames of a file, in order."""
    return tuple(record for plain in contents.plains for record in _DECODE(plain))


def frames_of(records: Iterable[bytes], number: int = 0) -> list[Record]:
    """The records in groups that each fit into one frame, numbered from `number` on."""
    groups: list[list[bytes]] = []
    room = 0
    for record in records:
        if len(record) > room or not groups:
            groups.append([])
            room = FRAME_LEN_MAX
        groups[-1].append(record)
        room -= len(record)
    return [
        Record(0, at, 0, bytes(8), _ENCODE(group)) for at, group in enumerate(groups, start=number)
    ]
