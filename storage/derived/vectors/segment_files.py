"""Sealed segments on disk, so that a start need not read every vector from LMDB.

A file is a digest, the numbers of rows, words and postings, the ordinals (int64), the vectors
(float32) and the postings of the words, all little-endian. These are plain numbers and no
serialised FAISS index, because FAISS loads damaged files without an error, its format changes with
its version, and its parser is C++ that bytes from a disk should not reach. The digest is keyed
under `store.key`, and covers the name, which names the store, the model, the versions and the range
of the file. So a file that matches was written here, and its numbers are not checked once more.

The files are a cache: a file that does not fit the store exactly is removed and rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from storage.derived.lexical.analysis import ANALYSIS_ID
from storage.derived.lexical.postings import entries_of, packed, unpacked
from storage.derived.vectors.faiss_index import (
    SEGMENT_LEN,
    Ordinals,
    Segment,
    VectorIndex,
    check_vectors,
    seal,
)
from storage.ground.state_directory import fsync_directory, write_durably
from storage.tables.codec import Digests

SEGMENT_FORMAT: Final = 3
UNFINISHED: Final = "unfinished"
"""The reason for a file whose writing a kill interrupted."""
_DIGEST_LEN: Final = 32
_NUMBERS: Final = struct.Struct("<QQQ")
_ROWS_AT: Final = _DIGEST_LEN + _NUMBERS.size
_FILE_LEN_MAX: Final = 1 << 30


class IndexIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The store and the embedding model of the vectors in a file; no other file is loaded."""

    incarnation: str
    embedder_id: str
    dimension: int


class RejectedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was not loaded, and was removed; `reason` is a short fixed text."""

    name: str
    reason: str


class LoadedIndex(msgspec.Struct, frozen=True, kw_only=True):
    """An index with exactly the store's vectors, and the work that loading it took."""

    index: VectorIndex
    rejected: tuple[RejectedFile, ...]
    rebuilt: int  # the number of vectors that were in no file, and so were read from LMDB


class _Unfit(Exception):  # noqa: N818 - a finding about one file, caught in this module
    """The error for a segment's file that cannot be loaded; its text is the reason."""


class SegmentFiles:
    """The sealed segments of one index in one directory, which contains no other files.

    Every method may be called from any thread. The methods exclude each other, so that a slow save
    in the background cannot write again what a purge has just removed.
    """

    def __init__(
        self,
        directory: Path,
        identity: IndexIdentity,
        digests: Digests,
        written: Callable[[str], None] | None = None,
        segment_len: int = SEGMENT_LEN,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._digests = digests
        self._written = written
        self._segment_len = segment_len
        self._lock = threading.Lock()
        self._on_disk: dict[str, int] = {}
        self._removed = False

    def load(
        self,
        stored: Ordinals,
        fetch: Callable[[int], bytes | None],
        words: Callable[[int], Sequence[int]],
        into: VectorIndex | None = None,
    ) -> LoadedIndex:
        """The index of all `stored` ordinals (ascending), from files if they fit the store.

        `into` is an empty index to fill; no other thread may use it meanwhile. A file fits if its
        digest is right and it has exactly the ordinals that the store has in its range. So a file
        from before a purge, from another store or from a later state does not fit. All other
        vectors are read with `fetch`, which returns the stored vector of an ordinal, or None to
        leave the ordinal out; `words` returns the hashes of the words of its text.

        Raises:
            BadVector: The store itself has a vector that is not a finite unit vector.
            OSError: The directory cannot be read or written.
        """
        with self._lock:
            segments, rejected = self._read_all(stored)
            for finding in rejected:
                self._remove(finding.name)
            self._sync_directory()
        covered = sum(len(segment.ordinals) for segment in segments)
        inside, after = _uncovered(stored, segments)
        for run in inside:
            for start in range(0, len(run), self._segment_len):
                rows = _fetched(run[start : start + self._segment_len], fetch)
                if rows:
                    segments.append(self._rebuilt(rows, words))
        index = into or VectorIndex(self._identity.dimension, segment_len=self._segment_len)
        index.begin(segments)
        for start in range(0, len(after), self._segment_len):
            rows = _fetched(after[start : start + self._segment_len], fetch)
            index.extend(rows, [words(ordinal) for ordinal, _ in rows])
        return LoadedIndex(index=index, rejected=tuple(rejected), rebuilt=len(stored) - covered)

    def save(self, index: VectorIndex) -> int:
        """Write each sealed segment that is not on disk yet; return how many were written.

        Files of segments that are no longer in the index are removed. The tail is not written,
        because it is at most one segment, and the store has its vectors.

        Raises:
            OSError: A file could not be written; the earlier files are still there.
        """
        with self._lock:
            # The segments are listed under the lock, because after a `drop` no thread may write a
            # list from before it.
            segments = {self._name(segment): segment for segment in index.segments}
            written = 0
            for name, segment in segments.items():
                if self._on_disk.get(name) != len(segment.ordinals):
                    self._write(name, segment)
                    written += 1
            for name in self._names():
                if name not in segments:
                    self._remove(name)
            if written or self._removed:
                self._sync_directory()
            return written

    def drop(self, index: VectorIndex, ordinals: Sequence[int]) -> None:
        """Remove purged vectors from the index and from every file. Writer thread only.

        Raises:
            OSError: A file could not be rewritten, so vectors may be left in it; call `drop` again,
                or load the index anew.
        """
        index.drop(ordinals)
        self.save(index)

    def _read_all(self, stored: Ordinals) -> tuple[list[Segment], list[RejectedFile]]:
        self._on_disk.clear()
        segments: list[Segment] = []
        rejected: list[RejectedFile] = []
        end = -1
        for name in self._names():
            try:
                segment = self._read(name, stored, end)
            except _Unfit as finding:
                rejected.append(RejectedFile(name=name, reason=str(finding)))
            else:
                end = int(segment.ordinals[-1])
                segments.append(segment)
                self._on_disk[name] = len(segment.ordinals)
        return segments, rejected

    def _read(self, name: str, stored: Ordinals, end: int) -> Segment:
        """The segment in one file; each byte is under the digest or compared with the store."""
        if not name.endswith(".seg"):
            raise _Unfit(UNFINISHED)
        if not name.startswith(self._made_of()):
            raise _Unfit("store, model or version")
        data = self._read_bytes(name)
        digest = self._digests.of(name.encode(), data[_DIGEST_LEN:])
        if not compare_digest(digest, data[:_DIGEST_LEN]):
            raise _Unfit("digest")
        numbers = _NUMBERS.unpack_from(data, _DIGEST_LEN)
        vectors_at = _ROWS_AT + 8 * numbers[0]
        words_at = vectors_at + 4 * numbers[0] * self._identity.dimension
        ordinals = np.frombuffer(data[_ROWS_AT:vectors_at], dtype="<i8").astype(np.int64)
        if int(ordinals[0]) <= end:
            raise _Unfit("overlap")
        _check_stored(ordinals, stored)
        vectors = np.frombuffer(data[vectors_at:words_at], dtype="<f4")
        entries = unpacked(data[words_at:], *numbers).entries()
        return seal(ordinals, vectors.reshape(-1, self._identity.dimension), entries)

    def _made_of(self) -> str:
        """The beginning of the names of files of this store and model, in these versions."""
        made_of = msgspec.json.encode((SEGMENT_FORMAT, ANALYSIS_ID.hex(), self._identity))
        return hashlib.sha256(made_of).hexdigest()[:16]

    def _read_bytes(self, name: str) -> memoryview:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(self._directory / name, flags), "rb") as file:  # noqa: PTH123 - fd
                if os.fstat(file.fileno()).st_size > _FILE_LEN_MAX:
                    raise _Unfit("length")
                return memoryview(file.read())
        except OSError as error:
            raise _Unfit("unreadable") from error

    def _rebuilt(
        self, rows: list[tuple[int, bytes]], words: Callable[[int], Sequence[int]]
    ) -> Segment:
        ordinals = np.array([ordinal for ordinal, _ in rows], dtype=np.int64)
        joined = b"".join(vector for _, vector in rows)
        vectors = check_vectors(joined, len(rows), self._identity.dimension)
        return seal(ordinals, vectors, entries_of([words(ordinal) for ordinal, _ in rows]))

    def _write(self, name: str, segment: Segment) -> None:
        """Write one file, as a whole or not at all: temporary name, fsync, rename."""
        postings = segment.postings
        body = b"".join(
            (
                _NUMBERS.pack(len(segment.ordinals), len(postings.words), len(postings.rows)),
                segment.ordinals.astype("<i8").tobytes(),
                segment.vectors.astype("<f4").tobytes(),
                *packed(postings),
            )
        )
        data = self._digests.of(name.encode(), body) + body
        write_durably(self._directory / name, data)
        self._on_disk[name] = len(segment.ordinals)
        if self._written is not None:
            self._written("snapshot_written")

    def _names(self) -> list[str]:
        """The names of the files, sorted by first ordinal, because the names are zero-padded."""
        found = (entry.name for entry in os.scandir(self._directory))
        return sorted(name for name in found if name.endswith((".seg", f".{UNFINISHED}")))

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._directory / name).unlink()
        self._on_disk.pop(name, None)
        self._removed = True

    def _sync_directory(self) -> None:
        fsync_directory(self._directory)
        self._removed = False

    def _name(self, segment: Segment) -> str:
        first, last = int(segment.ordinals[0]), int(segment.ordinals[-1])
        return f"{self._made_of()}-{first:020d}-{last:020d}.seg"


def _check_stored(ordinals: Ordinals, stored: Ordinals) -> None:
    """Check that a file has exactly the rows that the store has in the file's range.

    Otherwise an older copy, put back after a purge, would make purged vectors searchable again.
    """
    first, last = int(ordinals[0]), int(ordinals[-1])
    low, high = int(np.searchsorted(stored, first)), int(np.searchsorted(stored, last + 1))
    if not np.array_equal(ordinals, stored[low:high]):
        raise _Unfit("stale")


def _fetched(run: Ordinals, fetch: Callable[[int], bytes | None]) -> list[tuple[int, bytes]]:
    rows = ((ordinal, fetch(ordinal)) for ordinal in run.tolist())
    return [(ordinal, vector) for ordinal, vector in rows if vector is not None]


def _uncovered(stored: Ordinals, segments: Sequence[Segment]) -> tuple[list[Ordinals], Ordinals]:
    """The runs of stored ordinals between the segments, and the ordinals after the last one."""
    runs: list[Ordinals] = []
    at = 0
    for segment in segments:
        low = int(np.searchsorted(stored, int(segment.ordinals[0])))
        if low > at:
            runs.append(stored[at:low])
        at = low + len(segment.ordinals)
    return runs, stored[at:]
