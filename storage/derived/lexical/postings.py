"""Postings: which rows of a segment contain which word, and how often. Immutable when sealed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from storage.derived.lexical.analysis import Hashes

Rows = NDArray[np.int32]
Counts = NDArray[np.uint8]
Lengths = NDArray[np.uint16]
Keep = NDArray[np.bool_]

COUNT_MAX: Final = 255
_FIRST_CAPACITY: Final = 1_024
_STORED_KINDS: Final = {
    "words": "<u8",
    "starts": "<i4",
    "rows": "<i4",
    "counts": "<u1",
    "lengths": "<u2",
}


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each word of each row, in three arrays, and the length of each row in words."""

    words: Hashes
    rows: Rows
    counts: Counts
    lengths: Lengths

    def kept(self, keep: Keep) -> Entries:
        """The entries of the rows that `keep` marks, which are numbered anew."""
        chosen = keep[self.rows]
        numbers = np.cumsum(keep, dtype=np.int32) - 1
        return Entries(
            words=self.words[chosen],
            rows=numbers[self.rows[chosen]],
            counts=self.counts[chosen],
            lengths=self.lengths[keep],
        )


class Holding(NamedTuple):
    """Rows that contain words of a question: for each pair the word's place in the question."""

    places: NDArray[np.int64]
    rows: Rows
    counts: Counts


def _holding(lengths: Sequence[int], rows: Rows, counts: Counts) -> Holding:
    return Holding(np.repeat(np.arange(len(lengths)), lengths), rows, counts)


class Postings(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one sealed segment, sorted by word.

    The rows of `words[i]` are `rows[starts[i] : starts[i + 1]]`.
    """

    words: Hashes
    starts: Rows
    rows: Rows
    counts: Counts
    lengths: Lengths

    def holding(self, asked: Hashes) -> Holding:
        """The rows that contain one of these words, by word, in the order of the question."""
        at = self.words.searchsorted(asked)
        after = at + (self.words.take(at, mode="clip") == asked) if len(self.words) else at
        starts, ends = self.starts[at].tolist(), self.starts[after].tolist()
        spans = [slice(*span) for span in zip(starts, ends, strict=True)]
        rows = np.concatenate([self.rows[span] for span in spans])
        counts = np.concatenate([self.counts[span] for span in spans])
        lengths = [end - start for start, end in zip(starts, ends, strict=True)]
        return _holding(lengths, rows, counts)

    def entries(self) -> Entries:
        """The same postings, with the word repeated in each entry."""
        words = np.repeat(self.words, np.diff(self.starts))
        return Entries(words=words, rows=self.rows, counts=self.counts, lengths=self.lengths)


def sealed(entries: Entries) -> Postings:
    """Immutable postings with copies of the entries, sorted by word and then by row."""
    # Rows of the entries ascend, and a stable sort leaves them so.
    order = np.argsort(entries.words, kind="stable")
    words, starts = np.unique(entries.words[order], return_index=True)
    postings = Postings(
        words=words,
        starts=np.append(starts, len(order)).astype(np.int32),
        rows=entries.rows[order],
        counts=entries.counts[order],
        lengths=entries.lengths.copy(),
    )
    for name in _STORED_KINDS:
        getattr(postings, name).flags.writeable = False
    return postings


def packed(postings: Postings) -> tuple[bytes, ...]:
    """The arrays as little-endian bytes, in the order in which `unpacked` reads them."""
    return tuple(
        getattr(postings, name).astype(kind).tobytes() for name, kind in _STORED_KINDS.items()
    )


def unpacked(
    data: bytes | memoryview, row_count: int, word_count: int, entry_count: int
) -> Postings:
    """The postings in the bytes that `packed` joined; they must have been authenticated."""
    counts = {
        "words": word_count,
        "starts": word_count + 1,
        "rows": entry_count,
        "counts": entry_count,
        "lengths": row_count,
    }
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for name, kind in _STORED_KINDS.items():
        arrays[name] = np.frombuffer(data, dtype=kind, count=counts[name], offset=at)
        at += arrays[name].nbytes
    return Postings(**arrays)


def joined(parts: Sequence[Entries]) -> Entries:
    """The entries of neighbouring segments, with the rows of each after those before it."""
    ends = np.cumsum([0, *(len(part.lengths) for part in parts)], dtype=np.int32)
    return Entries(
        words=np.concatenate([part.words for part in parts]),
        rows=np.concatenate([part.rows + end for part, end in zip(parts, ends, strict=False)]),
        counts=np.concatenate([part.counts for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
    )


def entries_of(texts: Sequence[Sequence[int]]) -> Entries:
    """The entries of texts, given by the hashes of their words; each text is one row."""
    counted = [Counter(text) for text in texts]
    words = [word for one in counted for word in one]
    counts = np.array([count for one in counted for count in one.values()], dtype=np.int64)
    return Entries(
        words=np.array(words, dtype=np.uint64),
        rows=np.repeat(np.arange(len(texts), dtype=np.int32), [len(one) for one in counted]),
        counts=np.minimum(counts, COUNT_MAX).astype(np.uint8),
        lengths=np.array([len(text) for text in texts], dtype=np.uint16),
    )


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of the rows that are not sealed yet. No reader reads beyond the two counts.

    `at` maps each word to the places of its entries, ascending, and is shared like the buffer.
    """

    buffer: Entries
    at: defaultdict[int, list[int]]
    entry_count: int = 0
    row_count: int = 0

    @property
    def lengths(self) -> Lengths:
        """The length of each row in words."""
        return self.buffer.lengths[: self.row_count]

    def holding(self, asked: Hashes) -> Holding:
        """The rows that contain one of these words, by word, in the order of the question."""
        known = [self.at.get(word, []) for word in asked.tolist()]
        # The writer appends to these lists meanwhile.
        places = [one[: bisect_left(one, self.entry_count)] for one in known]
        entries = np.fromiter(chain.from_iterable(places), dtype=np.int64)
        return _holding(
            [len(one) for one in places], self.buffer.rows[entries], self.buffer.counts[entries]
        )

    def entries(self) -> Entries:
        """The entries of this moment, as views."""
        buffer, end = self.buffer, self.entry_count
        return Entries(
            words=buffer.words[:end],
            rows=buffer.rows[:end],
            counts=buffer.counts[:end],
            lengths=self.lengths,
        )

    def extended(self, added: Entries) -> Tail:
        """The tail with more rows; its buffer is shared, unless it had to grow."""
        buffer, start, first = self.buffer, self.entry_count, self.row_count
        end, last = start + len(added.words), first + len(added.lengths)
        if end > len(buffer.words):
            buffer = self._grown(2 * end)
        buffer.words[start:end] = added.words
        buffer.rows[start:end] = added.rows + np.int32(first)
        buffer.counts[start:end] = added.counts
        buffer.lengths[first:last] = added.lengths
        for place, word in enumerate(added.words.tolist(), start):
            self.at[word].append(place)
        return Tail(buffer=buffer, at=self.at, entry_count=end, row_count=last)

    def _grown(self, capacity: int) -> Entries:
        grown, now = _buffer(capacity, len(self.buffer.lengths)), self.entries()
        grown.words[: self.entry_count] = now.words
        grown.rows[: self.entry_count] = now.rows
        grown.counts[: self.entry_count] = now.counts
        grown.lengths[: self.row_count] = now.lengths
        return grown


def empty_tail(row_count_max: int) -> Tail:
    """A tail with room for that many rows."""
    return Tail(buffer=_buffer(_FIRST_CAPACITY, row_count_max), at=defaultdict(list))


def _buffer(capacity: int, row_count_max: int) -> Entries:
    return Entries(
        words=np.empty(capacity, dtype=np.uint64),
        rows=np.empty(capacity, dtype=np.int32),
        counts=np.empty(capacity, dtype=np.uint8),
        lengths=np.empty(row_count_max, dtype=np.uint16),
    )
