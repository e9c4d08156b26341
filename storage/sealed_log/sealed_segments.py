"""The recall ledger's sealed files, of which the oldest are removed first.

A *segment* is two files: `NUMBER.log` with the records, and `NUMBER.idx` with the position of each
record in the log, so that a look-up reads one record and not all of them. Records that are missing
in an index, after a crash for example, are read from the log.
Segments are not synced. After a power cut the end of a segment may be missing or torn, which ends
that segment and affects no other. Each start begins a new segment, so nothing is appended to a torn
end.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from storage.ground.state_directory import DIRECTORY_MODE, FILE_MODE, destroy_file
from storage.sealed_log.sealed_file import (
    HEAD_LEN,
    SECTOR_LEN,
    FileKey,
    FileKeys,
    Frame,
    Policy,
    Record,
    SealedFile,
    first_ms,
    frames,
    remove_unfinished,
    write_all,
)

_Rows = NDArray[np.void]
# A function that selects rows of an index: it returns their positions, ascending.
_Pick = Callable[[_Rows], NDArray[np.intp]]


SEGMENT_LEN: Final = 16_384
"""The most records in one segment; fewer if `count_max` is less than eight such segments."""
SEGMENT_MS: Final = 24 * 3_600_000
POLICY: Final = Policy(magic=b"MNGRECA\x02", purpose=b"recall ledger", promises=False)

# One row of an index: the record's number, the position in the log where it ends, and its tag.
_ROW: Final = struct.Struct(">QQ8s")
_ROWS: Final = np.dtype([("number", ">u8"), ("end", ">u8"), ("tag", ">u8")])
_PARTS: Final = ("log", "idx")
_SEGMENTS_MIN: Final = 8
_NAME: Final = re.compile(r"[0-9a-f]{16}")


class Segments:
    """The segments of one directory. `append` and `forget` on one thread, reads on any.

    `owner` names the incarnation of the store: in another incarnation ordinals name other rows, so
    the segments of another owner are removed. `count_max` is the number of records that are kept; 0
    means that none are written.
    """

    def __init__(self, directory: Path, store_key: bytes, owner: str, count_max: int) -> None:
        self._directory = directory
        self._keys = FileKeys(POLICY, store_key, owner)
        self._count_max = count_max
        self._length = max(1, min(SEGMENT_LEN, count_max // _SEGMENTS_MIN))
        self._file: SealedFile | None = None
        self._index_handle = -1
        self._number = 0
        self._began_ms = 0
        self.next_number = self._reopened()

    def _reopened(self) -> int:
        """Remove segments of other owners; return the number after the last one that was used."""
        last = 0
        remove_unfinished(self._directory)
        for number in self._numbers():
            with self._opened(number, "log") as log:
                if self._key(log) is None:
                    self._remove(number)
                    continue
            last = number
        used: list[int] = []
        if last:
            with self._opened(last, "log") as log:
                used = self._index(last, log)["number"].tolist()
        return max([last, *used]) + 1

    def key(self, number: int, now_ms: int) -> FileKey:
        """The key with which records from `number` on are to be encrypted.

        A new segment is begun if the current one is full or a day old.

        Raises:
            OSError: A new segment cannot be begun.
        """
        file = self._file
        if file is None or self._full(file, now_ms):
            file = self._begun(number, now_ms)
        return file.key

    def append(self, records: Sequence[Record]) -> None:
        """Append records to the segment of the last `key`.

        Raises:
            OSError: Not all records were written; the next `key` is that of a new segment. If the
                segment had no other records, its files are removed.
        """
        file = self._file
        if file is None:
            raise OSError(errno.EBADF, "no segment was begun")
        before = file.frame_count
        try:
            ends = file.append(records)
            rows = zip(records, ends, strict=True)
            index = b"".join(_ROW.pack(one.number, end, one.tag) for one, end in rows)
            write_all(self._index_handle, index, before * _ROW.size)
            # The time of the last record, by the store's clock, is the file's time for `forget`.
            ended_ns = records[-1].at_ms * 1_000_000
            os.utime(self._path(self._number, "log"), ns=(ended_ns, ended_ns))
        except OSError:
            self._abandon(keep=before > 0)
            raise

    def _full(self, file: SealedFile, now_ms: int) -> bool:
        return file.frame_count >= self._length or now_ms - self._began_ms >= SEGMENT_MS

    def _begun(self, number: int, now_ms: int) -> SealedFile:
        self.close()
        self._directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        self._directory.chmod(DIRECTORY_MODE)
        self._number, self._began_ms = number, now_ms
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = file = SealedFile.made(self._path(number, "log"), self._keys)
            self._index_handle = os.open(self._path(number, "idx"), flags, FILE_MODE)
        except OSError:
            self._abandon(keep=False)
            raise
        return file

    def _abandon(self, *, keep: bool) -> None:
        """Close the segment after a refused write, and remove its files unless `keep`."""
        self.close()
        if keep:
            return
        try:
            self._remove(self._number)
        except OSError:
            # A disk may refuse to write zeros over the header, and still let the file be unlinked.
            for part in _PARTS:
                with suppress(OSError):
                    self._path(self._number, part).unlink(missing_ok=True)

    def forget(self, before_ms: int, next_number: int) -> None:
        """Remove segments that ended before a time, and the oldest ones beyond `count_max`.

        Raises:
            OSError: A segment could not be removed.
        """
        numbers = self._numbers()
        for number, following in pairwise(numbers):
            beyond = next_number - following >= self._count_max
            if beyond or self._ended_ms(number) < before_ms:
                self._remove(number)
        if numbers and self._file is None and self._ended_ms(numbers[-1]) < before_ms:
            self._remove(numbers[-1])

    def drop(self, drops: Callable[[Frame, bytes], bool], *, dry_run: bool) -> int:
        """Write each segment anew without the records that `drops` names; return their number.

        With `dry_run` they are only counted. On the thread of `append`.

        Raises:
            OSError: A segment could not be written; it is as it was.
        """
        count = 0
        self.close()
        for number in self._numbers():
            with self._opened(number, "log") as log:
                head = self._keys.read_header(log.read(SECTOR_LEN))
                found = [] if head is None else [*frames(log.read(), self._keys.of(head[0]))]
            plains = [(one, plain) for one in found if (plain := one.plain()) is not None]
            left = [Record(*one[:4], plain) for one, plain in plains if not drops(one, plain)]
            count += len(plains) - len(left)
            if head is not None and len(left) < len(plains) and not dry_run:
                # A segment without an index is read from its log.
                self._path(number, "idx").unlink(missing_ok=True)
                path = self._path(number, "log")
                SealedFile.made(path, self._keys, left, head[0], durable=True).close()
        return count

    def newest_first(self, since_ms: int = 0) -> Iterator[Frame]:
        """Every readable record from a time on, newest first; `Frame.plain` decrypts each."""
        return self._where(lambda rows: np.arange(len(rows)), since_ms)

    def tagged(self, tag: bytes, since_ms: int = 0) -> Iterator[Frame]:
        """Every readable record with a tag from a time on, newest first."""
        wanted = int.from_bytes(tag, "big")
        return self._where(lambda rows: np.flatnonzero(rows["tag"] == wanted), since_ms)

    def _where(self, pick: _Pick, since_ms: int) -> Iterator[Frame]:
        for number in reversed(self._numbers()):
            if self._ended_ms(number) < since_ms:
                return
            for frame in self._picked(number, pick):
                if frame.at_ms >= since_ms:
                    yield frame

    def of(self, numbers: Collection[int]) -> Iterator[Frame]:
        """The readable records among those with the given numbers, newest first in a segment."""
        begun, wanted = self._numbers(), np.array(sorted(numbers), dtype=np.uint64)
        for segment in sorted({bisect_right(begun, one) - 1 for one in numbers} - {-1}):
            yield from self._picked(
                begun[segment], lambda rows: np.flatnonzero(np.isin(rows["number"], wanted))
            )

    def oldest_ms(self) -> int | None:
        """The time of the oldest record; None if there is none."""
        for number in self._numbers():
            with self._opened(number, "log") as log:
                key = self._key(log)
                at_ms = first_ms(log.read(HEAD_LEN))
            if key is not None and at_ms is not None:
                return at_ms
        return None

    def close(self) -> None:
        """Close the current segment; the next `key` begins another one."""
        if self._file is not None:
            self._file.close()
        if self._index_handle >= 0:
            os.close(self._index_handle)
        self._file, self._index_handle = None, -1

    def _key(self, log: BinaryIO) -> FileKey | None:
        """The key of an opened segment, from its header; None if it is not of this owner."""
        head = self._keys.read_header(log.read(SECTOR_LEN))
        return None if head is None else self._keys.of(head[0])

    def _picked(self, number: int, pick: _Pick) -> Iterator[Frame]:
        """The records of a segment whose rows in its index `pick` selects, newest first."""
        with self._opened(number, "log") as log:
            key = self._key(log)
            if key is None:
                return
            rows = self._index(number, log)
            ends = rows["end"]
            for at in pick(rows)[::-1].tolist():
                start = int(ends[at - 1]) if at else SECTOR_LEN
                length = int(ends[at]) - start
                log.seek(start)
                for frame in frames(log.read(length), key):
                    # A row of an index that was changed must not show a record under another
                    # number.
                    if frame.end == length and frame.number == int(rows["number"][at]):
                        yield frame
                    break

    def _index(self, number: int, log: BinaryIO) -> _Rows:
        """The positions of a segment's records, oldest first, as rows of `_ROWS`.

        A row whose record is incomplete in the log is left out.
        """
        size = log.seek(0, os.SEEK_END)
        with self._opened(number, "idx") as index:
            data = index.read()
        rows = np.frombuffer(data[: len(data) // _ROW.size * _ROW.size], _ROWS)
        ends = rows["end"].astype(np.int64)
        if not np.all(np.diff(ends, prepend=SECTOR_LEN) > HEAD_LEN):
            rows, ends = rows[:0], ends[:0]  # not an index that this class wrote
        rows = rows[ends <= size]
        end = int(rows["end"][-1]) if len(rows) else SECTOR_LEN
        if end == size:
            return rows
        rest = b"".join(self._scanned(number, end))
        return np.concatenate((rows, np.frombuffer(rest, _ROWS)))

    def _scanned(self, number: int, start: int) -> Iterator[bytes]:
        """The index rows of the records in a log from a position on, read from the log."""
        with self._opened(number, "log") as log:
            key = self._key(log)
            log.seek(start)
            data = log.read()
        for frame in frames(data, key) if key is not None else ():
            yield _ROW.pack(frame.number, start + frame.end, frame.tag)

    def _opened(self, number: int, part: str) -> BinaryIO:
        """A file of a segment, opened for reading; an empty one if it is gone."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return open(os.open(self._path(number, part), flags), "rb")  # noqa: PTH123 - fd
        except OSError:
            # The file was removed a moment ago, or this user may not read it, so its records count
            # as removed.
            return BytesIO()

    def _ended_ms(self, number: int) -> int:
        try:
            return self._path(number, "log").stat().st_mtime_ns // 1_000_000
        except OSError:
            return 0

    def _numbers(self) -> list[int]:
        """The number of the first record of each segment, ascending."""
        if not self._directory.is_dir():
            return []
        suffixes = {f".{part}" for part in _PARTS}
        stems = {one.stem for one in self._directory.iterdir() if one.suffix in suffixes}
        return sorted(int(stem, 16) for stem in stems if _NAME.fullmatch(stem))

    def _remove(self, number: int) -> None:
        """Erase the log first, because without its header no record can be read; then the index."""
        # Without its header no frame of the file can be read.
        destroy_file(self._path(number, "log"), SECTOR_LEN)
        self._path(number, "idx").unlink(missing_ok=True)

    def _path(self, number: int, part: str) -> Path:
        return self._directory / f"{number:016x}.{part}"
