"""A journal in a directory: one file for each row, and one for the lease and the epochs.

The reference for the journal in PostgreSQL: what a journal promises is tested on both, and the
suites of the store run on this one without a database. The lease ends by the machine's own clock.
Each call holds `flock` on the directory. A row is written beside and
then renamed to its number, so that it is whole or not there. Rows that change together are moved
from a directory whose name, once durable, is the change.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from storage.ground.errors import (
    LeaseLost,
    StoreCorrupt,
    StoreUnavailable,
    TransactionFailed,
    UnknownFormat,
)
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import DIRECTORY_MODE, FILE_MODE, fsync_directory, write_durably
from storage.journal.lease import LeaseDeadline, boot_id, boot_s
from storage.journal.protocol import Journal, JournalRow, LeaseRecord, Stream, StreamStatus

_STATE: Final = "state"
_UNFINISHED: Final = "unfinished"
_CHANGED: Final = "changed"
"""The directory of rows that replace others or follow them, once all of them are durable."""


class _State(msgspec.Struct, array_like=True):
    """The lease, and of each stream the epoch and the number of its first row."""

    epochs: dict[Stream, int]
    begins: dict[Stream, int]
    holder: str = ""
    address: str = ""
    format: int = 0
    boot: str = ""
    until_s: float = 0.0

    def remaining_s(self) -> float:
        """The seconds until the lease is over; a lease of an earlier boot is over."""
        return self.until_s - boot_s() if self.boot == boot_id() else 0.0


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_state: Final = msgspec.msgpack.Decoder(_State).decode
_decode_row: Final = msgspec.msgpack.Decoder(JournalRow).decode


class FilesJournal(Journal):
    """The journal in one directory, for one process (`Journal`). Any thread."""

    def __init__(self, directory: Path, *, address: str, store_format: int, lease_s: float) -> None:
        self._directory = directory
        self._holder = random_bytes(16).hex()
        self._address = address
        self._format = store_format
        self._deadline = LeaseDeadline(lease_s)
        self._epochs: dict[Stream, int] = {}
        for stream in Stream:
            (directory / stream).mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)

    def acquire(self) -> bool:
        """Take the lease, and raise the epochs of all streams; return whether it could be taken."""
        asked_s = boot_s()
        with self._locked() as state:
            if state.holder != self._holder and state.remaining_s() > 0:
                return False
            if state.format > self._format:
                raise UnknownFormat(
                    f"the journal's last holder wrote stores of format {state.format}, and this "
                    f"version writes format {self._format}: start that version"
                )
            state.holder, state.address, state.format = self._holder, self._address, self._format
            state.epochs = {stream: state.epochs.get(stream, 0) + 1 for stream in Stream}
            self._extend(state)
            self._epochs = dict(state.epochs)
        self._deadline.extend(asked_s)
        return True

    def renew(self) -> None:
        """Extend the lease."""
        asked_s = boot_s()
        with self._locked() as state:
            self._refuse_unless(held=state.holder == self._holder)
            self._extend(state)
        self._deadline.extend(asked_s)

    def holds(self) -> bool:
        """Whether the lease of this process is not over."""
        return self._deadline.holds()

    def release(self) -> None:
        """End the lease, if this process has it."""
        self._deadline.end()
        with self._locked() as state:
            if state.holder.lstrip("-") == self._holder:
                state.until_s = 0.0
                self._write(state)

    def step_down(self) -> bool:
        """Let the holder's lease not be renewed."""
        with self._locked() as state:
            if state.remaining_s() <= 0:
                return False
            # The holder ends the lease by this name; it has no other right by it.
            state.holder = "-" + state.holder.lstrip("-")
            self._write(state)
        return True

    def lease(self) -> LeaseRecord | None:
        """The last lease of the store; None if there was none."""
        with self._locked() as state:
            if not state.holder:
                return None
            return LeaseRecord(
                holder=state.holder,
                address=state.address,
                format=state.format,
                remaining_s=state.remaining_s(),
            )

    def streams(self) -> tuple[StreamStatus, ...]:
        """What is stored of each stream, the store's first."""
        with self._locked() as state:
            return tuple(self._status(state, stream) for stream in Stream)

    def _status(self, state: _State, stream: Stream) -> StreamStatus:
        begins, last = self._before(state, stream) + 1, self._last(state, stream)
        numbered = [self._path(stream, seq) for seq in range(begins, last + 1)]
        bodies = [_decode_row(path.read_bytes()).body for path in numbered if path.exists()]
        return StreamStatus(
            stream=stream,
            epoch=state.epochs.get(stream, 0),
            begins=begins,
            seq=last,
            rows=len(bodies),
            missing=len(numbered) - len(bodies),
            bytes=sum(map(len, bodies)),
        )

    def append(self, stream: Stream, row: JournalRow) -> None:
        """Store a row as the next one of a stream."""
        with self._locked() as state:
            self._refuse_unless(held=self._fenced(state, stream))
            path, before = self._path(stream, row.seq), row.seq - 1
            first = before == self._before(state, stream)
            follows = first or self._path(stream, before).exists()
            self._refuse_unless(held=follows and not path.exists())
            beside = self._directory / stream / _UNFINISHED
            try:
                beside.unlink(missing_ok=True)
                _write_new(beside, row)
                beside.replace(path)
                fsync_directory(beside.parent)
            except OSError as error:
                raise TransactionFailed(f"the journal: {error.strerror}") from error

    def settle(self, stream: Stream) -> int:
        """Make the name of the last row durable; return its number.

        No append is under way, because each one holds the directory, so no epoch is raised. Nothing
        is written: a full disk is no reason to give the lease up.
        """
        with self._locked() as state:
            self._refuse_unless(held=self._fenced(state, stream))
            fsync_directory(self._directory / stream)
            return self._last(state, stream)

    def begins(self, stream: Stream) -> int:
        """The number of the first row that the stream still has."""
        with self._locked() as state:
            return self._before(state, stream) + 1

    def since(self, stream: Stream, seq: int) -> Iterator[JournalRow]:
        """The rows after the row `seq`, in order; that the last one was removed is not noticed."""
        with self._locked() as state:
            last = self._last(state, stream)
        if last < seq:
            raise StoreCorrupt(f"the journal ends at row {last}, and row {seq} was read before")
        return (self._read_row(stream, number) for number in range(seq + 1, last + 1))

    def exchange(self, stream: Stream, rows: Sequence[JournalRow]) -> None:
        """Replace stored rows by rows with the same numbers, all of them or none."""
        with self._locked() as state:
            self._refuse_unless(held=self._fenced(state, stream))
            for row in rows:
                self._read_row(stream, row.seq)
            self._change(state, stream, rows, self._before(state, stream) + 1)

    def rebase(self, stream: Stream, rows: Iterable[JournalRow]) -> None:
        """Append rows that contain the whole state, and drop all rows before; all or none."""
        with self._locked() as state:
            self._refuse_unless(held=self._fenced(state, stream))
            begins = self._last(state, stream) + 1
            self._change(state, stream, rows, begins)

    def close(self) -> None:
        """End the use of the directory."""
        self._deadline.end()

    # ---- the files -------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Generator[_State]:
        """The state of the journal, while no other process uses the directory."""
        try:
            lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                path = self._directory / _STATE
                state = _decode_state(path.read_bytes()) if path.exists() else _State({}, {})
                self._finish(state)
                yield state
            finally:
                os.close(lock)
        except OSError as error:
            raise StoreUnavailable(f"the journal cannot be used: {error.strerror}") from error

    def _write(self, state: _State) -> None:
        write_durably(self._directory / _STATE, _encode(state))

    def _extend(self, state: _State) -> None:
        state.boot, state.until_s = boot_id(), boot_s() + self._deadline.length_s
        self._write(state)

    def _fenced(self, state: _State, stream: Stream) -> bool:
        """Whether no other holder has raised the epoch of the stream."""
        return state.epochs.get(stream) == self._epochs.get(stream, -1)

    def _refuse_unless(self, *, held: bool) -> None:
        if not held:
            self._deadline.end()
            raise LeaseLost("another process holds the journal; nothing was written")

    def _path(self, stream: Stream, seq: int) -> Path:
        return self._directory / stream / f"{seq:020d}"

    def _before(self, state: _State, stream: Stream) -> int:
        return state.begins.get(stream, 1) - 1

    def _last(self, state: _State, stream: Stream) -> int:
        names = (path.name for path in (self._directory / stream).iterdir())
        numbers = (int(name) for name in names if name.isdigit())
        return max(numbers, default=self._before(state, stream))

    def _read_row(self, stream: Stream, seq: int) -> JournalRow:
        try:
            return _decode_row(self._path(stream, seq).read_bytes())
        except FileNotFoundError:
            raise StoreCorrupt(f"row {seq} of the journal is missing") from None
        except OSError as error:
            raise StoreUnavailable(f"the journal cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StoreCorrupt(f"row {seq} of the journal is damaged") from error

    def _change(
        self, state: _State, stream: Stream, rows: Iterable[JournalRow], begins: int
    ) -> None:
        unfinished = self._directory / _UNFINISHED
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=DIRECTORY_MODE)
            for row in rows:
                _write_new(unfinished / self._path(stream, row.seq).name, row)
            write_durably(unfinished / _STATE, _encode((stream, begins)))
            unfinished.rename(self._directory / _CHANGED)
            fsync_directory(self._directory)
            self._finish(state)
        except OSError as error:
            raise TransactionFailed(f"the journal: {error.strerror}") from error

    def _finish(self, state: _State) -> None:
        """Carry out a change of several rows that a process began and did not end."""
        changed = self._directory / _CHANGED
        if not changed.exists():
            return
        stream, begins = _decode_change((changed / _STATE).read_bytes())
        for path in sorted(changed.iterdir()):
            if path.name.isdigit():
                path.replace(self._directory / stream / path.name)
        state.begins[stream] = begins
        self._write(state)
        for path in (self._directory / stream).iterdir():
            if path.name.isdigit() and int(path.name) < begins:
                path.unlink()
        fsync_directory(self._directory / stream)
        # The name ends in one step: a kill amid a removal would leave a change without its stream.
        changed.rename(self._directory / _UNFINISHED)
        fsync_directory(self._directory)
        shutil.rmtree(self._directory / _UNFINISHED)


_decode_change: Final = msgspec.msgpack.Decoder(tuple[Stream, int]).decode


def _write_new(path: Path, row: JournalRow) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(_encode(row))
        file.flush()
        os.fsync(file.fileno())
