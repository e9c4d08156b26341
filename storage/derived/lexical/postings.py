"""Postings: which rows of a segment contain which word, and how often. Immutable when sealed."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
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

_COUNT_BITS: Final = 8
COUNT_MAX: Final = 2**_COUNT_BITS - 1
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


def _places(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(lengths)), lengths)


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
        return Holding(_places([span.stop - span.start for span in spans]), rows, counts)

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
    return empty_tail(len(texts)).extended(texts).entries()


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The words of the rows that are not sealed yet. No reader reads rows from `row_count` on.

    `at` maps each word to its rows and counts, one number for each pair, ascending. It is shared
    like the buffer of lengths.
    """

    buffer: Lengths
    at: defaultdict[int, list[int]]
    row_count: int = 0

    @property
    def lengths(self) -> Lengths:
        """The length of each row in words."""
        return self.buffer[: self.row_count]

    def holding(self, asked: Hashes) -> Holding:
        """The rows that contain one of these words, by word, in the order of the question."""
        known = [self.at.get(word, []) for word in asked.tolist()]
        # The writer appends to these lists meanwhile.
        end = self.row_count << _COUNT_BITS
        pairs = [one[: bisect_left(one, end)] for one in known]
        joint = np.fromiter(chain.from_iterable(pairs), dtype=np.int64)
        rows, counts = (joint >> _COUNT_BITS).astype(np.int32), (joint & COUNT_MAX).astype(np.uint8)
        return Holding(_places([len(one) for one in pairs]), rows, counts)

    def entries(self) -> Entries:
        """The entries of this moment, by word. Writer thread only."""
        words = np.fromiter(self.at, dtype=np.uint64)
        found = self.holding(words)
        return Entries(
            words=words[found.places], rows=found.rows, counts=found.counts, lengths=self.lengths
        )

    def extended(self, texts: Sequence[Sequence[int]]) -> Tail:
        """The tail with more rows, given by the hashes of their words; it shares all else."""
        for row, text in enumerate(texts, self.row_count):
            self.buffer[row] = len(text)
            first = row << _COUNT_BITS
            for word in text:
                pairs = self.at[word]
                if not pairs or pairs[-1] < first:
                    pairs.append(first + 1)
                elif pairs[-1] < first + COUNT_MAX:
                    pairs[-1] += 1
        return msgspec.structs.replace(self, row_count=self.row_count + len(texts))


def empty_tail(row_count_max: int) -> Tail:
    """A tail with room for that many rows."""
    return Tail(buffer=np.empty(row_count_max, dtype=np.uint16), at=defaultdict(list))
