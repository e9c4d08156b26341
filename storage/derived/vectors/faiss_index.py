"""Vectors of committed rows, searchable by inner product: a cache over LMDB.

The index consists of sealed segments and one tail that grows. FAISS crashes if a search and an
addition run at the same time, so a reader never sees a part to which rows are being added: the
count of the tail is published after its rows were copied, and a full tail becomes a new sealed
segment in one swap of an immutable snapshot. So growth never copies a sealed segment, and never
makes a search wait.
`improve` runs on another thread than the writer's. It merges neighbouring segments into longer ones
and adds a sketch to each (`storage.derived.vectors.sketches`), by the same kind of swap. A search
uses the sketches to find where the best rows are likely to be, scores these rows exactly, and then
estimates whether it may have missed a better row. If so, it scans all rows, so that neither many
quarantined neighbours nor many equal texts can hide other rows. `exact` scans all rows in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from policy.verdict import InvariantBroken
from storage.derived.lexical.postings import Tail, empty_tail
from storage.derived.lexical.scoring import Floats64, RowWords
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
    exact_products,
    gathered,
    merged,
    part_of,
    rows_of,
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
"""The most allowed rows that are gathered and scored alone, without a scan of the segments."""
CROSSOVER_LEN: Final = 32_768
"""The most rows of which a search scans all, because that takes no longer (decision 013)."""
SURENESS: Final = 1.75
"""How many standard errors the best unscored row must be below the worst row of the answer."""

SKETCHED_MAX: Final = 100
"""The most rows that a search finds by the sketches; for more rows it scans all."""
_FIRST_ROWS: Final = 32
# A search first scores one row in `_SHORT` of each segment, then one in `_LONG` of the segments in
# which it may have missed a better row.
_SHORT: Final = 256
_LONG: Final = 32
_SHORT_MIN: Final = 64
# A search also scores at least this many rows of all segments together, because in a small index a
# shorter list would often be too short to be sure.
LEAST_LEN: Final = 1_024
_EXCLUDED_SHARE: Final = 2


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The index as one search sees it, whatever the writer does meanwhile."""

    segments: tuple[Segment, ...]
    tail_ordinals: Ordinals
    tail_vectors: Floats
    tail_count: int
    tail_words: Tail


class VectorIndex:
    """Nearest neighbours among the vectors of one embedder.

    Only the writer thread calls `extend` and `drop`, and only one other thread `improve`. Any
    thread may call the other methods at any time, and sees the rows of one moment.
    """

    def __init__(
        self, dimension: int, segments: Sequence[Segment] = (), segment_len: int = SEGMENT_LEN
    ) -> None:
        if dimension < 1 or segment_len < 1:
            raise InvariantBroken("an index has a dimension and a segment size")
        self._dimension = dimension
        self._segment_len = segment_len
        # Held for each swap, because the writer extends the same snapshot from which `improve`
        # takes segments.
        self._swapping = threading.Lock()
        self._snapshot = self._with_empty_tail(())
        self.begin(segments)

    def begin(self, segments: Sequence[Segment]) -> None:
        """Fill an empty index with these segments, before another thread uses the index."""
        if self.count or any(one.vectors.shape[1] != self._dimension for one in segments):
            raise InvariantBroken("an index begins empty, with segments of its own dimension")
        self._snapshot = self._with_empty_tail(_disjoint(segments))

    @property
    def count(self) -> int:
        """The number of vectors that a search can find."""
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

    def extend(
        self,
        items: Sequence[tuple[int, bytes]],
        texts: Sequence[Sequence[int]] = (),
        *,
        checked: bool = False,
    ) -> None:
        """Make committed vectors searchable: all of them, or none if one is refused.

        Ordinals ascend and continue after `last_ordinal`; gaps are fine. `texts` are the hashes of
        the words of each item's text; () if no item has words. With `checked` the vectors have
        passed `check_each` before. Writer thread only.

        Raises:
            BadVector: An ordinal is not above the one before it, or a vector is not a finite unit
                vector of this dimension.
        """
        if not items:
            return
        ordinals = np.array([ordinal for ordinal, _ in items], dtype=np.int64)
        if ordinals[0] <= self.last_ordinal or (ordinals[1:] <= ordinals[:-1]).any():
            raise BadVector("ordinals must ascend, each used once")
        parts = [vector for _, vector in items]
        vectors = (
            rows_of(b"".join(parts), self._dimension)
            if checked
            else check_each(parts, self._dimension)
        )
        texts = texts or [()] * len(items)
        start = 0
        while start < len(items):
            with self._swapping:
                start += self._fill(ordinals[start:], vectors[start:], texts[start:])

    def drop(self, ordinals: Sequence[int]) -> None:
        """Remove purged vectors from memory; ordinals that are not in the index are ignored.

        The tail is sealed, because a segment is what rows can be cut out of.
        A search that began before may still read them, and holds the old memory until it ends.
        Writer thread only.
        """
        gone = np.array(sorted(ordinals), dtype=np.int64)
        with self._swapping:
            self._snapshot = self._without(self._snapshot, gone)

    def _without(self, before: _Snapshot, gone: Ordinals) -> _Snapshot:
        segments: list[Segment] = []
        for segment in _sealed(before):
            keep = ~np.isin(segment.ordinals, gone)
            if keep.all():
                segments.append(segment)
            elif keep.any():
                entries = segment.postings.entries().kept(keep)
                segments.append(seal(segment.ordinals[keep], segment.vectors[keep], entries))
        return self._with_empty_tail(tuple(segments))

    @property
    def scans_all(self) -> bool:
        """Whether each search scores every row, so that a larger `limit` costs next to nothing."""
        return self.count <= CROSSOVER_LEN

    def nearest(
        self, query: bytes, limit: int, allowed: Mask | None, *, exact: bool = False
    ) -> tuple[Ordinals, Floats64]:
        """The ordinals and cosines of the `limit` best rows, best first, older first on a tie.

        Scores are exact. The choice of rows is exact if `exact` is True, if the index has at most
        `CROSSOVER_LEN` rows, or if few rows are allowed. `allowed` is indexed by ordinal. A row
        that it marks False, or that is beyond its end, is never scored, so that quarantined
        neighbours cannot displace other rows. `allowed` must not change during the call. Any
        thread.

        Raises:
            BadVector: The query is not a finite unit vector of this dimension.
        """
        vector = check_vectors(query, 1, self._dimension)[0]
        if limit < 1:
            return np.empty(0, dtype=np.int64), np.empty(0)
        answer = Answer(vector, limit)
        parts = _parts(self._snapshot, allowed)
        usable = sum(part.allowed for part, _ in parts)
        if allowed is not None and usable <= NARROW_LEN:
            answer.add(gathered([part for part, _ in parts], self._dimension))
            return answer.ranked()
        if exact or limit > SKETCHED_MAX or usable <= max(CROSSOVER_LEN, self.count // SPARSE):
            parts = [(part, None) for part, _ in parts]
        _search(answer, parts, turn(vector), max(_SHORT_MIN, 4 * limit))
        return answer.ranked()

    def cosines(self, query: bytes, ordinals: Ordinals) -> Floats64:
        """The exact cosine of each row; NaN for a row that is not in the index. Any thread.

        `query` is one that `nearest` has taken.
        """
        wide = np.frombuffer(query, dtype="<f4").astype(np.float64)
        found = np.full(len(ordinals), np.nan)
        now = self._snapshot
        tail = now.tail_ordinals[: now.tail_count], now.tail_vectors
        for names, vectors in (*((one.ordinals, one.vectors) for one in now.segments), tail):
            at = names.searchsorted(ordinals)
            at[at == len(names)] = 0
            here = names[at] == ordinals if len(names) else np.zeros(len(at), dtype=np.bool_)
            found[here] = exact_products(vectors[at[here]], wide)
        return found.clip(-1.0, 1.0)

    def row_words(self) -> list[RowWords]:
        """The words of all rows of one moment, in parts, in ascending order. Any thread."""
        now = self._snapshot
        tail = RowWords(now.tail_ordinals[: now.tail_count], now.tail_words)
        return [*(RowWords(one.ordinals, one.postings) for one in now.segments), tail]

    def improve(self) -> bool:
        """Merge neighbouring segments, or add a sketch to one; return whether there was work.

        Call it on one thread at a time, and not on the writer's, because it takes up to two
        seconds. The old segments stay searchable until the swap. If a purge has changed one of them
        meanwhile, the result is thrown away.
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
        """The range of segments to be merged, or of one to be sketched; empty if there is none."""
        due = mergeable(segments, self._segment_len)
        if due is None and _rows(segments) > CROSSOVER_LEN:
            bare = [at for at, segment in enumerate(segments) if segment.sketch is None]
            due = (bare[0], bare[0] + 1) if bare else None
        return due or (0, 0)

    def _fill(self, ordinals: Ordinals, vectors: Floats, texts: Sequence[Sequence[int]]) -> int:
        """Copy the rows that fit into the tail, publish them, and seal a full tail.

        Returns the number of rows that fitted.
        """
        now = self._snapshot
        count = min(self._segment_len - now.tail_count, len(ordinals))
        stop = now.tail_count + count
        # No reader reads rows from `tail_count` on before the new count is published.
        now.tail_ordinals[now.tail_count : stop] = ordinals[:count]
        now.tail_vectors[now.tail_count : stop] = vectors[:count]
        words = now.tail_words.extended(texts[:count])
        now = msgspec.structs.replace(now, tail_count=stop, tail_words=words)
        is_full = stop == self._segment_len
        self._snapshot = self._with_empty_tail(_sealed(now)) if is_full else now
        return count

    def _with_empty_tail(self, segments: tuple[Segment, ...]) -> _Snapshot:
        return _Snapshot(
            segments=segments,
            tail_ordinals=np.empty(self._segment_len, dtype=np.int64),
            tail_vectors=np.empty((self._segment_len, self._dimension), dtype=np.float32),
            tail_count=0,
            tail_words=empty_tail(self._segment_len),
        )


def _sealed(snapshot: _Snapshot) -> tuple[Segment, ...]:
    """The segments of a snapshot, of which the last has the rows of the tail if there are any."""
    if not snapshot.tail_count:
        return snapshot.segments
    tail = slice(snapshot.tail_count)
    return (
        *snapshot.segments,
        seal(
            snapshot.tail_ordinals[tail],
            snapshot.tail_vectors[tail],
            snapshot.tail_words.entries(),
        ),
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
    """Every part of the index with a row that the search may use, and the part's sketch if any."""
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
    """Scan parts without a sketch, score the likely rows of the others, and scan those not sure.

    A segment is sure if the worst row of the answer is so far above the best estimate of an
    unscored row that only an error of `SURENESS` standard errors could hide a better row. Excluded
    rows take places on the list of likely rows and raise no score. So the more of them are near
    the query, the less sure the search is of the other rows.
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
        # If most of the likeliest rows are excluded, most rows of a longer list would be too.
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
        """Score the `count` likeliest rows, except those whose estimate is certainly too low."""
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
        # The first rows raise the score that a row must reach, so that most others are not scored.
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
