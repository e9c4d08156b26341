"""Exact scoring of the rows that a search may use, part after part of the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import msgspec
import numpy as np
from numpy.typing import NDArray

from storage.derived.vectors.segments import Floats, Mask, Ordinals

# A bound far above the rounding error of a float32 inner product of unit vectors of any size
# used here.
SCORE_ERROR: Final = 1e-5
_RESCORE_ROWS: Final = 1_024
SPARSE: Final = 8
"""Where no more than one row in so many is allowed, gathering them is cheaper than a scan."""

_faiss: Final[Any] = faiss


class SearchedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One segment, or the tail, with the rows that a search may use.

    With a `mask` of None it may use all of them.

    `flat` is there to keep the memory of `vectors` alive.
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
    mask = None if allowed is None else _local(allowed, ordinals)
    count = len(ordinals) if mask is None else int(np.count_nonzero(mask))
    if count == len(ordinals):
        mask = None
    return SearchedPart(ordinals=ordinals, vectors=vectors, mask=mask, allowed=count, flat=flat)


def _local(allowed: Mask, ordinals: Ordinals) -> Mask:
    """The part of the caller's mask (which rows a search may use) for the given ordinals.

    Ordinals beyond the mask are newer than the caller's read.
    """
    reached = int(np.searchsorted(ordinals, len(allowed)))
    if reached == len(ordinals) and reached:
        first, last = int(ordinals[0]), int(ordinals[-1])
        # The usual case has no gaps; then the mask is a view and no copy.
        if last - first + 1 == reached:
            return allowed[first : last + 1]
    mask = np.zeros(len(ordinals), dtype=np.bool_)
    mask[:reached] = allowed[ordinals[:reached]]
    return mask


def gathered(parts: Sequence[SearchedPart], dimension: int) -> SearchedPart:
    """The few allowed rows of all parts of the index, copied together into one part."""
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


class Answer:
    """The best `limit` rows of a search, filled part by part."""

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
        """Score the allowed rows of a part and keep those that are among the best so far."""
        if part.allowed == 0:
            return
        if part.mask is not None and part.allowed * SPARSE <= len(part.ordinals):
            self.add_rows(part, np.flatnonzero(part.mask))
            return
        scores = self._products(part.vectors)
        # No top-k is taken per part: every row that ties with the last one must stay, however many
        # there are.
        chosen = np.flatnonzero(
            scores >= self._floor if part.mask is None else part.mask & (scores >= self._floor)
        )
        self._keep(part, chosen, scores[chosen])

    def add_rows(self, part: SearchedPart, rows: Ordinals) -> None:
        """Score given rows of a part, and keep the best as `add` does; each row at most once."""
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

    def ranked(self) -> list[tuple[int, float]]:
        """The best rows, scored again in double precision; best first, the older first on a tie.

        The rounded score of a vector may depend on its place in memory. Equal texts must tie
        exactly, so that the order of an answer says nothing of segments and never changes between
        reads.
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

    def _products(self, vectors: Floats) -> Floats:
        """Inner products of the query with every row.

        This uses FAISS's kernel rather than `IndexFlatIP.search` with a selector: on a part of
        8,192 rows the kernel costs the same without a mask and less with one. BLAS is not used
        either: its threads would compete with the event loop for the cores.
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
