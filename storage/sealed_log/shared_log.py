"""The session ledger's log of a shared store: each write is appended to the journal first.

The file on this machine is a copy, made anew when the log is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from storage.ground.errors import StorageError, StoreUnavailable, TransactionFailed
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import DIRECTORY_MODE
from storage.journal.protocol import Journal, Stream
from storage.journal.sealing import TERM_LEN, Position, Sealing, Write
from storage.sealed_log.sealed_file import FileKeys, SealedFile
from storage.sealed_log.session_log import DIRECTORY, NAME, SealedLog, frames_of

_TABLE = b"sessions"


class SharedRecords:
    """The records of the session ledger in a journal. One thread at a time."""

    def __init__(self, journal: Journal, sealing: Sealing) -> None:
        self._journal = journal
        self._sealing = sealing.of(Stream.SESSIONS)
        self._term = random_bytes(TERM_LEN)
        self._last = Position()

    def read(self) -> tuple[bytes, ...]:
        """All records, in order; call it before `write`.

        Raises:
            StoreCorrupt: A row is missing, was changed, or is of another history.
            StoreUnavailable: The journal does not answer.
        """
        # The first row after a replacement names no earlier one, as the first row of all.
        self._last = Position(self._journal.begins(Stream.SESSIONS) - 1)
        found: list[bytes] = []
        for row in self._journal.since(Stream.SESSIONS, self._last.seq):
            batch, self._last = self._sealing.open(row, self._last)
            found.extend(one.value or b"" for one in batch.writes)
        return tuple(found)

    def write(self, records: Sequence[bytes], *, replace: bool = False) -> None:
        """Append records durably, or put them in place of all earlier ones.

        Raises:
            StoreUnavailable: The records were not stored, or it could not be found out; they may be
                written again.
        """
        last = Position(self._last.seq) if replace else self._last
        writes = [Write(_TABLE, b"", one) for one in records]
        row = self._sealing.seal(writes, last, self._term, range(0))
        try:
            if replace:
                self._journal.rebase(Stream.SESSIONS, [row])
            else:
                self._journal.append(Stream.SESSIONS, row)
        except TransactionFailed as error:
            if self._journal.settle(Stream.SESSIONS) < row.seq:
                raise StoreUnavailable(f"the session ledger cannot be written: {error}") from error
        self._last = Position(row.seq, self._term)


class SharedLog(SealedLog):
    """The session ledger's log (`SealedLog`), durable in the journal and copied to a file."""

    def __init__(self, path: Path, keys: FileKeys, file: SealedFile, shared: SharedRecords) -> None:
        super().__init__(path, keys, file)
        self._shared = shared

    async def close(self) -> None:
        """Write queued records if the journal takes them, and close the file.

        If another process holds the store, these are records whose writing failed, and whose
        callers know it.
        """
        with suppress(StorageError):
            await super().close()

    def _write(self, batch: list[bytes]) -> None:
        self._require_usable()
        self._shared.write(batch)
        super()._write(batch)

    def _replace(self, records: list[bytes]) -> None:
        self._require_usable()
        self._shared.write(records, replace=True)
        super()._replace(records)


def open_shared_log(
    state: Path, keys: FileKeys, shared: SharedRecords
) -> tuple[SharedLog, tuple[bytes, ...]]:
    """The log and its records, read from the journal into a new file. Blocks.

    Raises:
        StoreCorrupt: As for `SharedRecords.read`.
        StoreUnavailable: The journal does not answer, or the file cannot be created.
    """
    records = shared.read()
    path = state / DIRECTORY / NAME
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        file = SealedFile.made(path, keys, frames_of(records))
    except OSError as error:
        raise StoreUnavailable(f"the session ledger cannot be opened: {error}") from error
    return SharedLog(path, keys, file, shared), records
