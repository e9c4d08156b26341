"""Vectors of committed rows, searchable by inner product: a cache over LMDB, exact at every size.

The index is a row of sealed segments of fixed size and one growing tail. FAISS crashes when a
search meets an add, so nothing that readers can see is ever added to: the tail's count is published
after its rows were copied, and a full tail becomes a new sealed segment in one swap of an immutable
snapshot. Growth therefore never copies what was sealed, and never makes a search wait.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.verdict import InvariantBroken
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float32]
Ordinals = NDArray[np.int64]
Mask = NDArray[np.bool_]

SEGMENT_LEN: Final = 8_192
NARROW_LEN: Final = 2_000
"""Up to so many allowed rows are gathered and scored alone, instead of scanning every segment."""

_NORM_TOLERANCE: Final = 1e-3
# Far above the rounding error of a float32 inner product of unit vectors of any size used here.
_SCORE_ERROR: Final = 1e-5
_RESCORE_ROWS: Final = 1_024

_faiss: Final[Any] = faiss
_faiss.omp_set_num_threads(1)  # two OpenMP threads showed pauses of 100 ms and more


class BadVector(StorageError):  # noqa: N818 - named for what it says, like its siblings
    """Not a finite unit vector of the index's dimension, or out of order."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed part of the index. `vectors` is a view into `flat`, and lives as long as it."""

    ordinals: Ordinals
    vectors: Floats
    flat: Any


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one search sees, whatever the writer does meanwhile."""

    segments: tuple[Segment, ...]
    tail_ordinals: Ordinals
    tail_vectors: Floats
    tail_count: int


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """One segment, or the tail, with the rows a search may use; `mask` None means all.

    `flat` keeps the memory of `vectors` alive.
    """

    ordinals: Ordinals
    vectors: Floats
    mask: Mask | None
    allowed: int
    flat: Any = None


def check_vectors(joined: bytes, count: int, dimension: int) -> Floats:
    """The `count` vectors in `joined`, checked; read-only where nothing had to be copied.

    Raises:
        BadVector: A length is wrong, or a vector is not finite or not of unit norm. NaN makes a row
            that no search finds, and a huge norm makes one that every search finds.
    """
    if len(joined) != 4 * dimension * count:
        raise BadVector("a vector of another dimension")
    rows: Floats = np.frombuffer(joined, dtype="<f4").astype(np.float32, copy=False)
    rows = rows.reshape(count, dimension)
    # One pass that copies nothing. A sum that is far too large, or not a number, is not close to 1.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    if (np.abs(squares - 1.0) < _NORM_TOLERANCE).all():
        return rows
    if not np.isfinite(rows).all():
        raise BadVector("a vector is not finite")
    # In double precision: the square of 3e38 is infinite in single precision, or wraps to a pass.
    norms = np.sqrt(np.square(rows.astype(np.float64)).sum(axis=1))
    if not (np.abs(norms - 1.0) < _NORM_TOLERANCE).all():
        raise BadVector("a vector is not of unit norm")
    return rows


def check_each(vectors: Sequence[bytes], dimension: int) -> Floats:
    """`check_vectors` of separate vectors, none of which may make up for another's length.

    Raises:
        BadVector: As there.
    """
    if any(len(vector) != 4 * dimension for vector in vectors):
        raise BadVector("a vector of another dimension")
    return check_vectors(b"".join(vectors), len(vectors), dimension)


def seal(ordinals: Ordinals, vectors: Floats) -> Segment:
    """An immutable segment of these rows, which must have been checked; copies both."""
    count, dimension = vectors.shape
    if count == 0 or ordinals.shape != (count,) or (np.diff(ordinals) <= 0).any():
        raise InvariantBroken("a segment has ascending ordinals, one for each vector")
    flat = _faiss.IndexFlatIP(dimension)
    flat.add(np.ascontiguousarray(vectors))
    view: Floats = _faiss.rev_swig_ptr(flat.get_xb(), count * dimension).reshape(count, dimension)
    view.flags.writeable = False
    kept = ordinals.copy()
    kept.flags.writeable = False
    return Segment(ordinals=kept, vectors=view, flat=flat)


class VectorIndex:
    """Exact nearest neighbours among the vectors of one embedder.

    `extend` and `drop` belong to the writer thread; everything else may be called from any thread
    at any time, and sees the rows of one moment.
    """

    def __init__(
        self, dimension: int, segments: Sequence[Segment] = (), segment_len: int = SEGMENT_LEN
    ) -> None:
        if dimension < 1 or segment_len < 1:
            raise InvariantBroken("an index has a dimension and a segment size")
        if any(segment.vectors.shape[1] != dimension for segment in segments):
            raise InvariantBroken("a segment of another dimension")
        self._dimension = dimension
        self._segment_len = segment_len
        self._snapshot = self._with_empty_tail(_disjoint(segments))

    @property
    def dimension(self) -> int:
        """Floats per vector."""
        return self._dimension

    @property
    def count(self) -> int:
        """How many vectors a search can find."""
        snapshot = self._snapshot
        return sum(len(part.ordinals) for part in snapshot.segments) + snapshot.tail_count

    @property
    def last_ordinal(self) -> int:
        """The highest ordinal in the index; -1 for an empty one."""
        return _last_ordinal(self._snapshot)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The sealed segments of this moment, in ascending order."""
        return self._snapshot.segments

    def extend(self, items: Sequence[tuple[int, bytes]]) -> None:
        """Make committed vectors searchable; all of them or, when one is refused, none.

        Ordinals ascend and continue after `last_ordinal`; gaps are fine. Writer thread only.

        Raises:
            BadVector: An ordinal is not above the one before it, or a vector is not a finite unit
                vector of this dimension.
        """
        if not items:
            return
        ordinals = np.array([ordinal for ordinal, _ in items], dtype=np.int64)
        if ordinals[0] <= self.last_ordinal or (np.diff(ordinals) <= 0).any():
            raise BadVector("ordinals must ascend, each used once")
        vectors = check_each([vector for _, vector in items], self._dimension)
        start = 0
        while start < len(items):
            start += self._fill(ordinals[start:], vectors[start:])

    def drop(self, ordinals: Sequence[int]) -> None:
        """Take purged vectors out of memory, whether they are in the index or not.

        A search that began before may still see them, and holds the old memory until it ends.
        Writer thread only.
        """
        gone = np.array(sorted(ordinals), dtype=np.int64)
        before = self._snapshot
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
        self._snapshot = msgspec.structs.replace(after, tail_count=kept)

    def search(self, query: bytes, limit: int, allowed: Mask | None) -> list[tuple[int, float]]:
        """The `limit` best rows as (ordinal, cosine), best first, older first on a tie; exact.

        `allowed` is indexed by ordinal; what it marks False, or does not reach, is never scored,
        so quarantined neighbours cannot push honest rows out of the answer. It must not change
        during the call. Any thread.

        Raises:
            BadVector: The query is not a finite unit vector of this dimension.
        """
        vector = check_vectors(query, 1, self._dimension)[0]
        if limit < 1:
            return []
        parts = _parts(self._snapshot, allowed)
        if allowed is not None and sum(part.allowed for part in parts) <= NARROW_LEN:
            parts = [_gathered(parts, self._dimension)] if parts else []
        answer = _Answer(vector, limit)
        for part in parts:
            answer.add(part)
        return answer.ranked()

    def _fill(self, ordinals: Ordinals, vectors: Floats) -> int:
        """Copy what fits into the tail, publish it, seal the tail when full; rows taken."""
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


def _parts(snapshot: _Snapshot, allowed: Mask | None) -> list[_Part]:
    """Every part of the index that has a row the search may use."""
    tail = snapshot.tail_count
    rows = [(part.ordinals, part.vectors, part.flat) for part in snapshot.segments]
    rows.append((snapshot.tail_ordinals[:tail], snapshot.tail_vectors[:tail], None))
    parts: list[_Part] = []
    for ordinals, vectors, flat in rows:
        mask = None if allowed is None else _local(allowed, ordinals)
        count = len(ordinals) if mask is None else int(np.count_nonzero(mask))
        if count == len(ordinals):
            mask = None
        if count:
            parts.append(
                _Part(ordinals=ordinals, vectors=vectors, mask=mask, allowed=count, flat=flat)
            )
    return parts


def _local(allowed: Mask, ordinals: Ordinals) -> Mask:
    """The caller's mask at these ordinals. What lies beyond it came after the caller's read."""
    reached = int(np.searchsorted(ordinals, len(allowed)))
    if reached == len(ordinals) and reached:
        first, last = int(ordinals[0]), int(ordinals[-1])
        if last - first + 1 == reached:  # no gaps, the usual case: a view, not a copy
            return allowed[first : last + 1]
    mask = np.zeros(len(ordinals), dtype=np.bool_)
    mask[:reached] = allowed[ordinals[:reached]]
    return mask


def _gathered(parts: Sequence[_Part], dimension: int) -> _Part:
    """The few allowed rows of all parts as one part of their own."""
    count = sum(part.allowed for part in parts)
    ordinals = np.empty(count, dtype=np.int64)
    vectors = np.empty((count, dimension), dtype=np.float32)
    at = 0
    for part in parts:
        rows = slice(None) if part.mask is None else np.flatnonzero(part.mask)
        ordinals[at : at + part.allowed] = part.ordinals[rows]
        vectors[at : at + part.allowed] = part.vectors[rows]
        at += part.allowed
    return _Part(ordinals=ordinals, vectors=vectors, mask=None, allowed=count)


class _Answer:
    """Rows that may belong to the best `limit`, part after part, against a rising floor."""

    def __init__(self, query: Floats, limit: int) -> None:
        self._query = np.ascontiguousarray(query)
        self._limit = limit
        self._floor = -np.inf
        self._pool: Floats = np.empty(0, dtype=np.float32)
        self._kept: list[tuple[_Part, Ordinals, Floats]] = []

    def add(self, part: _Part) -> None:
        """Score a part's allowed rows and keep those that reach the floor so far."""
        scores = self._products(part)
        # Not a top-k per part: every row that ties with the last one must stay, however many.
        chosen = np.flatnonzero(
            scores >= self._floor if part.mask is None else part.mask & (scores >= self._floor)
        )
        rounded = scores[chosen]
        self._kept.append((part, chosen, rounded))
        pool = np.concatenate([self._pool, rounded])
        if len(pool) > self._limit:
            pool = np.partition(pool, -self._limit)[-self._limit :]
        if len(pool) == self._limit:
            self._floor = float(pool.min()) - 2 * _SCORE_ERROR
        self._pool = pool

    def ranked(self) -> list[tuple[int, float]]:
        """The best rows, scored again in double precision, best and oldest first.

        The rounded score of one vector may depend on where it lies; equal texts must tie exactly,
        so that the order of an answer says nothing of segments and never changes between reads.
        """
        ordinals: list[Ordinals] = [np.empty(0, dtype=np.int64)]
        scores: list[NDArray[np.float64]] = [np.empty(0, dtype=np.float64)]
        wide = self._query.astype(np.float64)
        for part, kept, rounded in self._kept:
            chosen = kept[rounded >= self._floor]
            for start in range(0, len(chosen), _RESCORE_ROWS):
                block = chosen[start : start + _RESCORE_ROWS]
                ordinals.append(part.ordinals[block])
                scores.append((part.vectors[block].astype(np.float64) * wide).sum(axis=1))
        names, exact = np.concatenate(ordinals), np.concatenate(scores)
        order = np.lexsort((names, -exact))[: self._limit]
        return [(int(names[at]), float(exact[at].clip(-1.0, 1.0))) for at in order]

    def _products(self, part: _Part) -> Floats:
        """Inner products with every row of a part.

        FAISS's kernel rather than `IndexFlatIP.search` with a selector: on a part of 8,192 rows it
        costs the same without a mask and less with one. And rather than BLAS, whose threads would
        fight the event loop over the cores.
        """
        scores: Floats = np.empty(len(part.vectors), dtype=np.float32)
        _faiss.fvec_inner_products_ny(
            _faiss.swig_ptr(scores),
            _faiss.swig_ptr(self._query),
            _faiss.swig_ptr(part.vectors),
            len(self._query),
            len(scores),
        )
        return scores
