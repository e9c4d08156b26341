"""Vectors of committed rows, searchable by inner product: a cache over LMDB.

The index is a row of sealed segments and one growing tail. FAISS crashes when a search meets an
add, so a reader never sees a part that is being added to: the tail's count is published after its
rows were copied, and a full tail becomes a new sealed segment in one swap of an immutable snapshot.
So growth never copies a sealed segment, and never makes a search wait.

`improve` works beside the writing: it merges neighbouring segments into longer ones and puts a
sketch beside each (`storage.derived.vectors.sketches`), by the same kind of swap. A search uses the
sketches to find where the best rows are likely to be, scores these exactly, and then asks whether
it may have missed any. Where it may, it scans all rows: so neither a flood of quarantined
neighbours nor one of equal texts can hide other rows from it. `exact` scans all rows in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from policy.verdict import InvariantBroken
from storage.derived.vectors.segments import (
    SPARSE,
    Answer,
    BadVector,
    Floats,
    Mask,
    Ordinals,
    SearchedPart,
    Segment,
    Sketch,
    check_each,
    check_vectors,
    gathered,
    merged,
    part_of,
    seal,
)
from storage.derived.vectors.sketches import mergeable, turn, with_sketch

__all__ = [
    "SEGMENT_LEN",
    "BadVector",
    "Floats",
    "Mask",
    "Ordinals",
    "Segment",
    "VectorIndex",
    "check_each",
    "check_vectors",
    "seal",
]

SEGMENT_LEN: Final = 8_192
NARROW_LEN: Final = 2_000
"""Up to so many allowed rows are gathered and scored alone, instead of scanning every segment."""
CROSSOVER_LEN: Final = 32_768
"""Up to so many rows a search scans all of them: it takes no longer (decision 013)."""
SURENESS: Final = 1.75
"""How many standard errors the best row left out must lie below the last one found."""

_LIMIT_MAX: Final = 100
_FIRST_ROWS: Final = 32
# A search first scores one row in so many of each segment, then a larger part of the segments where
# it may still have missed a better row.
_SHORT: Final = 256
_LONG: Final = 32
_SHORT_MIN: Final = 64
# A search also scores at least so many rows of all segments together: in a small index a shorter
# list would often leave it unsure.
LEAST_LEN: Final = 1_024
_EXCLUDED_SHARE: Final = 2


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one search sees of the index, unaffected by the writer."""

    segments: tuple[Segment, ...]
    tail_ordinals: Ordinals
    tail_vectors: Floats
    tail_count: int


class VectorIndex:
    """Nearest neighbours among the vectors of one embedder.

    `extend` and `drop` belong to the writer thread, `improve` to one other; everything else may be
    called from any thread at any time, and sees the rows of one moment.
    """

    def __init__(
        self, dimension: int, segments: Sequence[Segment] = (), segment_len: int = SEGMENT_LEN
    ) -> None:
        if dimension < 1 or segment_len < 1:
            raise InvariantBroken("an index has a dimension and a segment size")
        self._dimension = dimension
        self._segment_len = segment_len
        # A lock that is held for each swap: the writer extends the snapshot from which `improve`
        # takes segments.
        self._swapping = threading.Lock()
        self._snapshot = self._with_empty_tail(())
        self.begin(segments)

    def begin(self, segments: Sequence[Segment]) -> None:
        """Fill an empty index with these segments, before anybody else uses the index."""
        if self.count or any(one.vectors.shape[1] != self._dimension for one in segments):
            raise InvariantBroken("an index begins empty, with segments of its own dimension")
        self._snapshot = self._with_empty_tail(_disjoint(segments))

    @property
    def dimension(self) -> int:
        """How many numbers each vector has."""
        return self._dimension

    @property
    def count(self) -> int:
        """How many vectors a search can find."""
        snapshot = self._snapshot
        return sum(len(part.ordinals) for part in snapshot.segments) + snapshot.tail_count

    @property
    def last_ordinal(self) -> int:
        """The highest ordinal in the index; -1 if the index is empty."""
        return _last_ordinal(self._snapshot)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The sealed segments of this moment, in ascending order."""
        return self._snapshot.segments

    def extend(self, items: Sequence[tuple[int, bytes]]) -> None:
        """Make committed vectors searchable: all of them, or none if one is refused.

        Ordinals ascend and continue after `last_ordinal`; gaps are fine. Writer thread only.

        Raises:
            BadVector: An ordinal is not above the one before it, or a vector is not a finite unit
                vector of this dimension.
        """
        if not items:
            return
        ordinals = np.array([ordinal for ordinal, _ in items], dtype=np.int64)
        if ordinals[0] <= self.last_ordinal or (ordinals[1:] <= ordinals[:-1]).any():
            raise BadVector("ordinals must ascend, each used once")
        vectors = check_each([vector for _, vector in items], self._dimension)
        start = 0
        while start < len(items):
            with self._swapping:
                start += self._fill(ordinals[start:], vectors[start:])

    def drop(self, ordinals: Sequence[int]) -> None:
        """Take purged vectors out of memory, whether they are in the index or not.

        A search that began before may still see them, and holds the old memory until it ends.
        Writer thread only.
        """
        gone = np.array(sorted(ordinals), dtype=np.int64)
        with self._swapping:
            self._snapshot = self._without(self._snapshot, gone)

    def _without(self, before: _Snapshot, gone: Ordinals) -> _Snapshot:
        segments: list[Segment] = []
        for segment in before.segments:
            keep = ~np.isin(segment.ordinals, gone)
            if keep.all():
                segments.append(segment)
            elif keep.any():
                segments.append(seal(segment.ordinals[keep], segment.vectors[keep]))
        after = self._with_empty_tail(tuple(segments))
        keep = ~np.isin(before.tail_ordinals[: before.tail_count], gone)
        kept = int(keep.sum())
        after.tail_ordinals[:kept] = before.tail_ordinals[: before.tail_count][keep]
        after.tail_vectors[:kept] = before.tail_vectors[: before.tail_count][keep]
        return msgspec.structs.replace(after, tail_count=kept)

    @property
    def scans_all(self) -> bool:
        """Whether each search scores every row, so that more rows of it cost next to nothing."""
        return self.count <= CROSSOVER_LEN

    def search(
        self, query: bytes, limit: int, allowed: Mask | None, *, exact: bool = False
    ) -> list[tuple[int, float]]:
        """The `limit` best rows as (ordinal, cosine), best first, older first on a tie.

        Scores are exact; so is the choice of rows where `exact` is asked for, where there are no
        more than `CROSSOVER_LEN` of them, and where few are allowed. `allowed` is indexed by
        ordinal; what it marks False, or does not reach, is never scored, so quarantined neighbours
        cannot push honest rows out of the answer. It must not change during the call. Any thread.

        Raises:
            BadVector: The query is not a finite unit vector of this dimension.
        """
        vector = check_vectors(query, 1, self._dimension)[0]
        if limit < 1:
            return []
        answer = Answer(vector, limit)
        parts = _parts(self._snapshot, allowed)
        usable = sum(part.allowed for part, _ in parts)
        if allowed is not None and usable <= NARROW_LEN:
            answer.add(gathered([part for part, _ in parts], self._dimension))
            return answer.ranked()
        if exact or limit > _LIMIT_MAX or usable <= max(CROSSOVER_LEN, self.count // SPARSE):
            parts = [(part, None) for part, _ in parts]
        _search(answer, parts, turn(vector), max(_SHORT_MIN, 4 * limit))
        return answer.ranked()

    def improve(self) -> bool:
        """Merge neighbouring segments, or put a sketch beside one.

        Returns whether anything was done.

        Not on the writer thread, and on one thread at a time: it takes up to a second or two. The
        segments it began with stay searchable until the swap. A result that was built from a
        segment which a purge has changed meanwhile is thrown away.
        """
        before = self._snapshot.segments
        start, end = self._due(before)
        if start == end:
            return False
        run = before[start:end]
        first = before[start]
        better = merged(run) if end - start > 1 else first
        if _rows(before) > CROSSOVER_LEN:
            better = with_sketch(better)
        with self._swapping:
            now = self._snapshot
            at = next((i for i, one in enumerate(now.segments) if one is first), None)
            if at is None or not _same(now.segments[at : at + len(run)], run):
                return True
            segments = (*now.segments[:at], better, *now.segments[at + len(run) :])
            self._snapshot = msgspec.structs.replace(now, segments=segments)
        return True

    def _due(self, segments: Sequence[Segment]) -> tuple[int, int]:
        """Start and end of the segments to be merged, or of one to be sketched.

        The two are equal if nothing is due.
        """
        due = mergeable(segments, self._segment_len)
        if due is None and _rows(segments) > CROSSOVER_LEN:
            bare = [at for at, segment in enumerate(segments) if segment.sketch is None]
            due = (bare[0], bare[0] + 1) if bare else None
        return due or (0, 0)

    def _fill(self, ordinals: Ordinals, vectors: Floats) -> int:
        """Copy the rows that fit into the tail, publish them, seal a full tail.

        Returns how many fitted.
        """
        now = self._snapshot
        count = min(self._segment_len - now.tail_count, len(ordinals))
        stop = now.tail_count + count
        # No reader looks at rows from `tail_count` on before the new count is published.
        now.tail_ordinals[now.tail_count : stop] = ordinals[:count]
        now.tail_vectors[now.tail_count : stop] = vectors[:count]
        if stop < self._segment_len:
            self._snapshot = msgspec.structs.replace(now, tail_count=stop)
        else:
            sealed = seal(now.tail_ordinals, now.tail_vectors)
            self._snapshot = self._with_empty_tail((*now.segments, sealed))
        return count

    def _with_empty_tail(self, segments: tuple[Segment, ...]) -> _Snapshot:
        return _Snapshot(
            segments=segments,
            tail_ordinals=np.empty(self._segment_len, dtype=np.int64),
            tail_vectors=np.empty((self._segment_len, self._dimension), dtype=np.float32),
            tail_count=0,
        )


def _disjoint(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    ordered = tuple(sorted(segments, key=lambda segment: int(segment.ordinals[0])))
    for one, other in pairwise(ordered):
        if one.ordinals[-1] >= other.ordinals[0]:
            raise InvariantBroken("two segments share ordinals")
    return ordered


def _last_ordinal(snapshot: _Snapshot) -> int:
    if snapshot.tail_count:
        return int(snapshot.tail_ordinals[snapshot.tail_count - 1])
    return int(snapshot.segments[-1].ordinals[-1]) if snapshot.segments else -1


def _rows(segments: Sequence[Segment]) -> int:
    return sum(len(segment.ordinals) for segment in segments)


def _same(some: Sequence[Segment], others: Sequence[Segment]) -> bool:
    return len(some) == len(others) and all(
        one is other for one, other in zip(some, others, strict=True)
    )


def _parts(snapshot: _Snapshot, allowed: Mask | None) -> list[tuple[SearchedPart, Sketch | None]]:
    """Every part of the index that has a row which the search may use, with the part's sketch."""
    parts: list[tuple[SearchedPart, Sketch | None]] = []
    for segment in snapshot.segments:
        part = part_of(segment.ordinals, segment.vectors, segment.flat, allowed)
        parts.append((part, segment.sketch))
    tail = snapshot.tail_count
    last = part_of(snapshot.tail_ordinals[:tail], snapshot.tail_vectors[:tail], None, allowed)
    return [pair for pair in (*parts, (last, None)) if pair[0].allowed]


def _search(
    answer: Answer, parts: Sequence[tuple[SearchedPart, Sketch | None]], turned: Floats, least: int
) -> None:
    """Scan the parts without a sketch, score the likely rows of the others, and scan where unsure.

    Sure means: the worst row of the answer lies so far above the best estimate of an unscored row
    that the estimate would have to err by `SURENESS` standard errors to hide a better one. Excluded
    rows take places on the list of likely rows and raise no score. So the more of them lie near the
    query, the less sure the search is of the rest, without counting them.
    """
    for part, sketch in parts:
        if sketch is None:
            answer.add(part)
    unsure = [Shortlist(part, sketch, turned) for part, sketch in parts if sketch is not None]
    rows = sum(len(one.part.ordinals) for one in unsure)
    scanned: list[Shortlist] = []
    for divisor in (_SHORT, _LONG):
        for one in unsure:
            length = len(one.part.ordinals)
            one.lengthen(max(least, length // divisor, LEAST_LEN * length // rows), answer)
        # Segments are examined only after all were searched, because the worst row of the answer is
        # the worst one over all segments.
        unsure = [one for one in unsure if not one.sure(answer.floor)]
        # If most of the likeliest rows are excluded, most rows of a longer list would be excluded
        # too.
        scanned += [one for one in unsure if one.crowded]
        unsure = [one for one in unsure if not one.crowded]
    for one in (*scanned, *unsure):
        answer.add(one.rest())


class Shortlist:
    """The rows of one segment that a search has scored, chosen by the segment's sketch."""

    def __init__(self, part: SearchedPart, sketch: Sketch, turned: Floats) -> None:
        self.part = part
        self._sketch = sketch
        self._turned = turned
        self._margin = SURENESS * sketch.error(turned)
        self._seen: Ordinals = np.empty(0, dtype=np.int64)
        self._cut = np.inf
        # Whether most rows of the list are excluded from the search.
        self.crowded = False

    def lengthen(self, count: int, answer: Answer) -> None:
        """Score the `count` likeliest rows, except those whose estimate is surely too low."""
        estimates, rows = self._sketch.nearest(self._turned, count)
        whole = len(rows) == len(self.part.ordinals)
        self._cut = -np.inf if whole else float(estimates.min())
        mask = self.part.mask
        if mask is not None:
            self.crowded = int(np.count_nonzero(mask[rows])) * _EXCLUDED_SHARE < len(rows)
        order = np.argsort(-estimates, kind="stable")
        estimates, rows = estimates[order], rows[order]
        if len(self._seen):
            new = ~np.isin(rows, self._seen)
            estimates, rows = estimates[new], rows[new]
        # The first few rows raise the score that a row must reach, so most others need no scoring.
        self._look(rows[:_FIRST_ROWS], answer)
        likely = estimates[_FIRST_ROWS:] >= answer.floor - self._margin
        self._look(rows[_FIRST_ROWS:][likely], answer)

    def _look(self, rows: Ordinals, answer: Answer) -> None:
        self._seen = np.concatenate([self._seen, rows])
        mask = self.part.mask
        answer.add_rows(self.part, rows if mask is None else rows[mask[rows]])

    def sure(self, floor: float) -> bool:
        """Whether no unscored row is likely to have a score above `floor`."""
        return self._cut + self._margin <= floor

    def rest(self) -> SearchedPart:
        """The rows of the segment that were not scored yet."""
        mask = self.part.mask
        left = np.ones(len(self.part.ordinals), dtype=np.bool_) if mask is None else mask.copy()
        left[self._seen] = False
        return msgspec.structs.replace(self.part, mask=left, allowed=int(np.count_nonzero(left)))
