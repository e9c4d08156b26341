"""Encrypted records in files that are only appended to; the oldest files are removed first.

A *segment* is three files: `NUMBER.log` with the records, `NUMBER.key` with 32 random bytes,
without which the records cannot be read, and `NUMBER.idx`, which says where each record stands in
the log, so that a look-up reads one record and not all of them. To remove a segment, its key is
overwritten and the files are unlinked. What an index lacks, after a crash for example, is read from
the log.

Nothing here is synced: after a power cut the end of a segment may be missing or torn, which ends
that segment and harms no other. Each start begins a new segment, so nothing is appended to a torn
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
from hashlib import blake2b, sha256
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from storage.ground.randomness import random_bytes
from storage.ground.state_directory import DIRECTORY_MODE, FILE_MODE

_Rows = NDArray[np.void]
# Which rows of an index are looked for: their places, ascending.
_Pick = Callable[[_Rows], NDArray[np.intp]]


SEGMENT_LEN: Final = 16_384
"""Records in one segment, at most; fewer where fewer than eight such segments are kept."""
SEGMENT_MS: Final = 24 * 3_600_000
FRAME_LEN_MAX: Final = 1024 * 1024
"""The longest sealed part of one record, in bytes."""

_MAGIC: Final = b"MNGRECA\x01"
_KEY_LEN: Final = 32
_TAG_LEN: Final = 16  # the number of bytes that AES-GCM adds to a text
_OWNER_LEN: Final = 16
_START: Final = len(_MAGIC) + _OWNER_LEN
# The fields: length of the sealed part, kind, number, time in ms, tag.
_HEAD: Final = struct.Struct(">IBQQ8s")
_NONCE: Final = struct.Struct(">IQ")
# One row of an index: the record's number, where the record ends in the log, and its tag.
_ROW: Final = struct.Struct(">QQ8s")
_ROWS: Final = np.dtype([("number", ">u8"), ("end", ">u8"), ("tag", ">u8")])
_PARTS: Final = ("log", "key", "idx")
_SEGMENTS_MIN: Final = 8
_NAME: Final = re.compile(r"[0-9a-f]{16}")


class StoredRecord(NamedTuple):
    """One record.

    `tag` has 8 bytes by which the record can be looked up; `number` rises over all segments.
    """

    kind: int
    number: int
    at_ms: int
    tag: bytes
    plain: bytes


class Frame(NamedTuple):
    """One stored record, which is decrypted when its contents are asked for."""

    kind: int
    number: int
    at_ms: int
    tag: bytes
    segment: SegmentKey
    sealed: bytes

    def plain(self) -> bytes | None:
        """The decrypted contents; None if the stored bytes were changed."""
        head = _HEAD.pack(len(self.sealed), self.kind, self.number, self.at_ms, self.tag)
        return self.segment.unseal(self.number, self.sealed, head)


class SegmentKey:
    """The keys of one segment: for its records, and for parts sealed once more inside records."""

    def __init__(self, store_key: bytes, drawn: bytes) -> None:
        # The store's own key is needed too: without it a copy of this directory tells only when
        # something was read.
        self._cipher = AESGCM(_derived(store_key, drawn, b"recall frames"))
        self._inner = _derived(store_key, drawn, b"recall inner")

    def seal(self, number: int, plain: bytes, bound: bytes) -> bytes:
        """Encrypt a record. A number must be used only once under one key."""
        return self._cipher.encrypt(_NONCE.pack(0, number), plain, bound)

    def unseal(self, number: int, sealed: bytes, bound: bytes) -> bytes | None:
        """Decrypt a record; None if one of its bytes or its number was changed."""
        try:
            return self._cipher.decrypt(_NONCE.pack(0, number), sealed, bound)
        except (InvalidTag, ValueError):
            return None

    def seal_inner(self, number: int, salts: Sequence[bytes], plain: bytes) -> bytes:
        """Encrypt a part of a record, which opens only while all the given salts are there."""
        return self._under(salts).encrypt(_NONCE.pack(0, number), plain, None)

    def unseal_inner(self, number: int, salts: Sequence[bytes], sealed: bytes) -> bytes | None:
        """Decrypt what `seal_inner` encrypted; None if one of the salts is wrong or gone."""
        try:
            return self._under(salts).decrypt(_NONCE.pack(0, number), sealed, None)
        except (InvalidTag, ValueError):
            return None

    def _under(self, salts: Sequence[bytes]) -> AESGCM:
        joined = b"".join(salts)
        return AESGCM(blake2b(joined, digest_size=32, key=self._inner).digest())


class Segments:
    """The segments of one directory. `append` and `forget` on one thread, reads on any.

    `owner` names the incarnation of the store: in another incarnation the ordinals stand for other
    rows, so its segments are removed. `count_max` is how many records are kept; 0: none are
    written.
    """

    def __init__(self, directory: Path, store_key: bytes, owner: str, count_max: int) -> None:
        self._directory = directory
        self._store_key = store_key
        self._owner = sha256(owner.encode()).digest()[:_OWNER_LEN]
        self._count_max = count_max
        self._length = max(1, min(SEGMENT_LEN, count_max // _SEGMENTS_MIN))
        self._handle = self._index_handle = -1
        self._key: SegmentKey | None = None
        self._number = 0
        self._count = 0
        self._end = 0
        self._began_ms = 0
        self.next_number = self._reopened()

    def _reopened(self) -> int:
        """Remove segments of other stores; returns the number after the last one that was used."""
        last = 0
        for number in self._numbers():
            head = self._read(number, _START)
            if head != _MAGIC + self._owner:
                self._remove(number)
                continue
            last = number
        used: list[int] = self._index(last)["number"].tolist() if last else []
        return max([last, *used]) + 1

    def key(self, number: int, now_ms: int) -> SegmentKey:
        """The key under which records from this number on are to be encrypted.

        A new segment is begun if it is time for one.

        Raises:
            OSError: The segment cannot be begun.
        """
        if self._key is None or self._full(now_ms):
            self._key = self._begun(number, now_ms)
        return self._key

    def append(self, key: SegmentKey, entries: Sequence[StoredRecord]) -> None:
        """Write records behind the earlier ones, under the key that was given for them.

        Raises:
            OSError: Not all records were written; the next key will be that of a new segment. A
                segment that these records began is gone, with its files.
        """
        whole = False
        try:
            framed = [_framed(key, entry) for entry in entries]
            _written_whole(self._handle, b"".join(framed))
            ends = [*accumulate(map(len, framed), initial=self._end)][1:]
            rows = zip(entries, ends, strict=True)
            index = [_ROW.pack(entry.number, end, entry.tag) for entry, end in rows]
            _written_whole(self._index_handle, b"".join(index))
            self._end = ends[-1]
            # The time of the last record, by the store's clock, by which `forget` decides.
            ended_ns = entries[-1].at_ms * 1_000_000
            os.utime(self._handle, ns=(ended_ns, ended_ns))
            self._count += len(entries)
            whole = True
        finally:
            if not whole:
                self._abandon()

    def _full(self, now_ms: int) -> bool:
        return self._count >= self._length or now_ms - self._began_ms >= SEGMENT_MS

    def _begun(self, number: int, now_ms: int) -> SegmentKey:
        self.close()
        self._directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        self._directory.chmod(DIRECTORY_MODE)
        drawn = random_bytes(_KEY_LEN)
        handle = _made(self._path(number, "key"))
        self._number, self._count, self._began_ms, self._end = number, 0, now_ms, _START
        whole = False
        try:
            try:
                _written(handle, drawn)
            finally:
                os.close(handle)
            self._handle = _made(self._path(number, "log"))
            _written(self._handle, _MAGIC + self._owner)
            self._index_handle = _made(self._path(number, "idx"))
            whole = True
        finally:
            if not whole:
                self._abandon()
        return SegmentKey(self._store_key, drawn)

    def _abandon(self) -> None:
        """End the segment after a refused write, and remove its files if no record is in them."""
        self.close()
        if self._count:
            return
        try:
            self._remove(self._number)
        except OSError:
            # A disk may refuse to write zeros over the key, and still let the file be unlinked.
            for part in _PARTS:
                with suppress(OSError):
                    self._path(self._number, part).unlink(missing_ok=True)

    def forget(self, before_ms: int, next_number: int) -> None:
        """Remove segments that ended before a time, and the oldest ones beyond the count.

        Raises:
            OSError: A segment could not be removed.
        """
        numbers = self._numbers()
        for number, following in pairwise(numbers):
            beyond = next_number - following >= self._count_max
            if beyond or self._ended_ms(number) < before_ms:
                self._remove(number)
        if numbers and self._handle < 0 and self._ended_ms(numbers[-1]) < before_ms:
            self._remove(numbers[-1])

    def newest_first(self, since_ms: int = 0) -> Iterator[Frame]:
        """Every readable record from a time on, newest first; each is decrypted when asked for."""
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
        """The time of the oldest record; None where there is none."""
        for number in self._numbers():
            head = self._read(number, _START + _HEAD.size)[_START:]
            if len(head) == _HEAD.size:
                return int(_HEAD.unpack(head)[3])
        return None

    def close(self) -> None:
        """End the segment; a later `append` begins another one."""
        for handle in (self._handle, self._index_handle):
            if handle >= 0:
                os.close(handle)
        self._handle, self._index_handle, self._key = -1, -1, None

    def _picked(self, number: int, pick: _Pick) -> Iterator[Frame]:
        """The records of a segment whose rows in its index are picked, newest first."""
        rows = self._index(number)
        picked = pick(rows)[::-1].tolist()
        drawn = self._read(number, _KEY_LEN, "key") if picked else b""
        if len(drawn) != _KEY_LEN:
            return
        key, ends = SegmentKey(self._store_key, drawn), rows["end"]
        with self._opened(number, "log") as log:
            for at in picked:
                start = int(ends[at - 1]) if at else _START
                length = int(ends[at]) - start
                log.seek(start)
                data = log.read(length) if length <= _HEAD.size + FRAME_LEN_MAX else b""
                if len(data) < max(length, _HEAD.size):
                    continue
                sealed_len, kind, record, at_ms, tag = _HEAD.unpack_from(data)
                # An index that was changed shows no record as another one.
                if sealed_len == length - _HEAD.size and record == int(rows["number"][at]):
                    yield Frame(kind, record, at_ms, tag, key, data[_HEAD.size :])

    def _index(self, number: int) -> _Rows:
        """Where the records of a segment stand, oldest first: rows of `_ROWS`.

        A row whose record is not whole in the log is left out.
        """
        if self._read(number, _START) != _MAGIC + self._owner:
            return np.empty(0, _ROWS)
        with self._opened(number, "log") as log:
            size = log.seek(0, os.SEEK_END)
        data = self._read(number, -1, "idx")
        rows = np.frombuffer(data[: len(data) // _ROW.size * _ROW.size], _ROWS)
        ends = rows["end"].astype(np.int64)
        if not np.all(np.diff(ends, prepend=_START) > _HEAD.size):
            rows, ends = rows[:0], ends[:0]  # no index of ours
        rows = rows[ends <= size]
        end = int(rows["end"][-1]) if len(rows) else _START
        if end == size:
            return rows
        rest = b"".join(self._scanned(number, end))
        return np.concatenate((rows, np.frombuffer(rest, _ROWS)))

    def _scanned(self, number: int, start: int) -> Iterator[bytes]:
        """The rows of the records that stand in a log from a place on, read from the log."""
        data, at = self._read(number, -1, start=start), 0
        while at + _HEAD.size <= len(data):
            length, _, record, _, tag = _HEAD.unpack_from(data, at)
            at += _HEAD.size + length
            if length > FRAME_LEN_MAX or at > len(data):
                return  # the rest of the segment is torn (half written), so reading ends here
            yield _ROW.pack(record, start + at, tag)

    def _read(self, number: int, length: int, part: str = "log", *, start: int = 0) -> bytes:
        """So many bytes of a file from a place on (all for -1); b"" if the file is gone."""
        with self._opened(number, part) as file:
            file.seek(start)
            return file.read(length)

    def _opened(self, number: int, part: str) -> BinaryIO:
        """A file of a segment; an empty one if it is gone."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return open(os.open(self._path(number, part), flags), "rb")  # noqa: PTH123 - fd
        except OSError:
            # The file was removed a moment ago, or this user may not read it, so its records count
            # as gone.
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
        """The key is overwritten first: without the key the rest of a segment cannot be read."""
        key = self._path(number, "key")
        try:
            handle = os.open(key, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            pass
        else:
            try:
                os.write(handle, bytes(_KEY_LEN))
                os.fdatasync(handle)
            finally:
                os.close(handle)
        for part in ("log", "idx"):
            self._path(number, part).unlink(missing_ok=True)
        key.unlink(missing_ok=True)

    def _path(self, number: int, part: str) -> Path:
        return self._directory / f"{_name(number)}.{part}"


def _framed(key: SegmentKey, entry: StoredRecord) -> bytes:
    length = len(entry.plain) + _TAG_LEN
    head = _HEAD.pack(length, entry.kind, entry.number, entry.at_ms, entry.tag)
    return head + key.seal(entry.number, entry.plain, head)


def _written(handle: int, data: bytes) -> None:
    if os.write(handle, data) != len(data):
        raise OSError(errno.ENOSPC, "the disk took a part")


def _written_whole(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _name(number: int) -> str:
    return f"{number:016x}"


def _made(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, FILE_MODE)


def _derived(store_key: bytes, drawn: bytes, purpose: bytes) -> bytes:
    return blake2b(drawn, digest_size=32, key=store_key, person=purpose).digest()
