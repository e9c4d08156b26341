"""Checked vectors, and sealed segments of the index, which never change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.verdict import InvariantBroken
from storage.derived.lexical.postings import Entries, Postings, entries_of, joined, sealed
from storage.derived.lexical.scoring import marks_of
from storage.ground.errors import StorageError

Floats = NDArray[np.float32]
Ordinals = NDArray[np.int64]
# The standard error of one estimate for unit vectors, times the square root of (dimension - 1).
_ERROR: Final = math.sqrt(math.pi / 2 - 1)
Mask = NDArray[np.bool_]

_NORM_TOLERANCE: Final = 1e-3

_faiss: Final[Any] = faiss
# One OpenMP thread, because with two threads pauses of 100 ms and more were measured.
_faiss.omp_set_num_threads(1)


class BadVector(StorageError):  # noqa: N818 - named for what it says, like its siblings
    """The error for a vector that is no finite unit vector of the index's size, or out of order."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed part of the index. `vectors` is a view into the memory of `flat`."""

    ordinals: Ordinals
    vectors: Floats
    flat: Any
    postings: Postings
    # The sketch for approximate search; it is made later, in the background.
    sketch: Sketch | None = None


def check_vectors(joined: bytes, count: int, dimension: int) -> Floats:
    """The `count` vectors in `joined`, checked; read-only unless they had to be copied.

    Raises:
        BadVector: A length is wrong, or a vector is not finite or not of unit norm. A row with NaN
            is found by no search, and a row with a huge norm by every search.
    """
    if len(joined) != 4 * dimension * count:
        raise BadVector("a vector of another dimension")
    rows = rows_of(joined, dimension)
    # A sum of squares that is much too large, or NaN, is not close to 1.
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.abs(np.vecdot(rows, rows) - 1.0) < _NORM_TOLERANCE
    if not near.all():
        raise BadVector("a vector is not a finite unit vector")
    return rows


def rows_of(joined: bytes, dimension: int) -> Floats:
    """The vectors in `joined`, which must be checked already; read-only unless copied."""
    rows: Floats = np.frombuffer(joined, dtype="<f4").astype(np.float32, copy=False)
    return rows.reshape(-1, dimension)


def check_each(vectors: Sequence[bytes], dimension: int) -> Floats:
    """Check separate vectors like `check_vectors`, and the length of each by itself; join them.

    Raises:
        BadVector: A length is wrong, or a vector is not finite or not of unit norm.
    """
    if not {4 * dimension}.issuperset(map(len, vectors)):
        raise BadVector("a vector of another dimension")
    return check_vectors(b"".join(vectors), len(vectors), dimension)


def seal(ordinals: Ordinals, vectors: Floats, entries: Entries | None = None) -> Segment:
    """An immutable segment of the given rows, which must be checked already; copies their data.

    `entries` are the words of the rows; None if the rows have no words.
    """
    count, dimension = vectors.shape
    if count == 0 or ordinals.shape != (count,) or (np.diff(ordinals) <= 0).any():
        raise InvariantBroken("a segment has ascending ordinals, one for each vector")
    flat = _faiss.IndexFlatIP(dimension)
    flat.add(np.ascontiguousarray(vectors))
    view: Floats = _faiss.rev_swig_ptr(flat.get_xb(), count * dimension).reshape(count, dimension)
    view.flags.writeable = False
    kept = ordinals.copy()
    kept.flags.writeable = False
    postings = sealed(entries_of([()] * count) if entries is None else entries)
    if len(postings.lengths) != count:
        raise InvariantBroken("a segment has the words of each of its rows")
    return Segment(ordinals=kept, vectors=view, flat=flat, postings=postings)


def merged(segments: Sequence[Segment]) -> Segment:
    """One segment with the rows of several neighbouring segments, in ascending order."""
    return seal(
        np.concatenate([segment.ordinals for segment in segments]),
        np.concatenate([segment.vectors for segment in segments]),
        joined([segment.postings.entries() for segment in segments]),
    )


class Sketch(msgspec.Struct, frozen=True, kw_only=True):
    """One bit per dimension of each row of a segment: the signs of the rotated vectors."""

    coded: Any
    centre: Floats
    spread: float
    count: int

    def nearest(self, turned: Floats, count: int) -> tuple[Floats, Ordinals]:
        """The highest estimated scores, best first, and the positions of their rows."""
        scores, rows = self.coded.search(turned.reshape(1, -1), min(count, self.count))
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def error(self, turned: Floats) -> float:
        """The standard deviation of one estimate for this query."""
        away = float(np.linalg.norm(turned - self.centre))
        return _ERROR / math.sqrt(max(1, len(turned) - 1)) * self.spread * away


# A bound far above the rounding error of a float32 inner product of unit vectors of any size
# used here.
SCORE_ERROR: Final = 1e-5
_RESCORE_ROWS: Final = 1_024
SPARSE: Final = 8
"""If at most one row in `SPARSE` is allowed, copying these rows is cheaper than a scan."""


class SearchedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One segment, or the tail, with the rows that a search may use: `mask`, or all if None.

    `flat` keeps the memory of `vectors` alive.
    """

    ordinals: Ordinals
    vectors: Floats
    mask: Mask | None
    allowed: int
    flat: Any = None


def part_of(
    ordinals: Ordinals, vectors: Floats, flat: object, allowed: Mask | None
) -> SearchedPart:
    """A segment or the tail as a `SearchedPart`, with the rows that the search may use."""
    mask = None if allowed is None else marks_of(allowed, ordinals)
    count = len(ordinals) if mask is None else int(np.count_nonzero(mask))
    if count == len(ordinals):
        mask = None
    return SearchedPart(ordinals=ordinals, vectors=vectors, mask=mask, allowed=count, flat=flat)


def gathered(parts: Sequence[SearchedPart], dimension: int) -> SearchedPart:
    """The few allowed rows of all parts, copied together into one part."""
    count = sum(part.allowed for part in parts)
    ordinals = np.empty(count, dtype=np.int64)
    vectors = np.empty((count, dimension), dtype=np.float32)
    at = 0
    for part in parts:
        rows = slice(None) if part.mask is None else np.flatnonzero(part.mask)
        ordinals[at : at + part.allowed] = part.ordinals[rows]
        vectors[at : at + part.allowed] = part.vectors[rows]
        at += part.allowed
    return SearchedPart(ordinals=ordinals, vectors=vectors, mask=None, allowed=count)


def exact_products(vectors: Floats, query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The products of a query and each row, which do not depend on a row's place in memory.

    Of two rows nearer than a rounding error to the query, both products may be above 1.
    """
    products: NDArray[np.float64] = np.vecdot(vectors.astype(np.float64), query)
    return products


class Answer:
    """The best `limit` rows of a search, collected part by part."""

    def __init__(self, query: Floats, limit: int) -> None:
        self._query = np.ascontiguousarray(query)
        self._limit = limit
        self._floor = -np.inf
        self._pool: Floats = np.empty(0, dtype=np.float32)
        self._kept: list[tuple[SearchedPart, Ordinals, Floats]] = []

    @property
    def floor(self) -> float:
        """The score that a row must reach to be among the best so far."""
        return self._floor

    def add(self, part: SearchedPart) -> None:
        """Score the allowed rows of a part, and collect those that are among the best so far."""
        if part.allowed == 0:
            return
        if part.mask is not None and part.allowed * SPARSE <= len(part.ordinals):
            self.add_rows(part, np.flatnonzero(part.mask))
            return
        scores = self._products(part.vectors)
        # No top-k is taken per part, because every row that ties with the last one must stay,
        # however many there are.
        chosen = np.flatnonzero(
            scores >= self._floor if part.mask is None else part.mask & (scores >= self._floor)
        )
        self._keep(part, chosen, scores[chosen])

    def add_rows(self, part: SearchedPart, rows: Ordinals) -> None:
        """Score given rows of a part, and collect the best like `add`; each row at most once."""
        if not len(rows):
            return
        scores = self._products(part.vectors.take(rows, axis=0))
        reaching = scores >= self._floor
        self._keep(part, rows[reaching], scores[reaching])

    def _keep(self, part: SearchedPart, chosen: Ordinals, rounded: Floats) -> None:
        self._kept.append((part, chosen, rounded))
        pool = np.concatenate([self._pool, rounded])
        if len(pool) > self._limit:
            pool = np.partition(pool, -self._limit)[-self._limit :]
        if len(pool) == self._limit:
            self._floor = float(pool.min()) - 2 * SCORE_ERROR
        self._pool = pool

    def ranked(self) -> tuple[Ordinals, NDArray[np.float64]]:
        """The best rows, scored again in double precision; best first, the older first on a tie.

        Returns the ordinals and the scores.

        The rounded score of a vector may depend on its place in memory. Equal texts must tie
        exactly, so that the order of an answer reveals nothing about segments and is the same in
        each read.
        """
        ordinals: list[Ordinals] = [np.empty(0, dtype=np.int64)]
        scores: list[NDArray[np.float64]] = [np.empty(0, dtype=np.float64)]
        wide = self._query.astype(np.float64)
        for part, kept, rounded in self._kept:
            chosen = kept[rounded >= self._floor]
            for start in range(0, len(chosen), _RESCORE_ROWS):
                block = chosen[start : start + _RESCORE_ROWS]
                ordinals.append(part.ordinals[block])
                scores.append(exact_products(part.vectors[block], wide))
        names, exact = np.concatenate(ordinals), np.concatenate(scores)
        order = np.lexsort((names, -exact))[: self._limit]
        return names[order], exact[order].clip(-1.0, 1.0)

    def _products(self, vectors: Floats) -> Floats:
        """The inner products of the query with every row.

        FAISS's kernel is used, and not `IndexFlatIP.search` with a selector: on a part of 8,192
        rows the kernel costs the same without a mask and less with one. BLAS is not used, because
        its threads would compete with the event loop for the cores.
        """
        scores: Floats = np.empty(len(vectors), dtype=np.float32)
        _faiss.fvec_inner_products_ny(
            _faiss.swig_ptr(scores),
            _faiss.swig_ptr(self._query),
            _faiss.swig_ptr(vectors),
            len(self._query),
            len(scores),
        )
        return scores
