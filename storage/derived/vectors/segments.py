"""Checked vectors, and sealed pieces of the index that nobody changes any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.verdict import InvariantBroken
from storage.ground.errors import StorageError

Floats = NDArray[np.float32]
Ordinals = NDArray[np.int64]
# The standard error of one estimate for unit vectors, times the square root of (dimension - 1).
_ERROR: Final = math.sqrt(math.pi / 2 - 1)
Mask = NDArray[np.bool_]

_NORM_TOLERANCE: Final = 1e-3
# The number of rows up to which rows are scored one by one: the start of a pass over all rows costs
# as much as eight rows.
_FEW: Final = 8

_faiss: Final[Any] = faiss
# One OpenMP thread: with two, pauses of 100 ms and more were measured.
_faiss.omp_set_num_threads(1)


class BadVector(StorageError):  # noqa: N818 - named for what it says, like its siblings
    """The error for a vector that is no finite unit vector of the index's size, or out of order."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed part of the index. `vectors` is a view into `flat`, and lives as long as `flat`."""

    ordinals: Ordinals
    vectors: Floats
    flat: Any
    # The sketch for approximate search; it is made later, in the background.
    sketch: Sketch | None = None


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
    # A sum of squares that is much too large, or NaN, is not close to 1.
    with np.errstate(over="ignore", invalid="ignore"):
        if count <= _FEW:
            near = all(abs(float(np.dot(row, row)) - 1.0) < _NORM_TOLERANCE for row in rows)
        else:
            # `einsum` sums the squares in one pass over the vectors and copies nothing.
            squares = np.einsum("ij,ij->i", rows, rows)
            near = bool((np.abs(squares - 1.0) < _NORM_TOLERANCE).all())
    if near:
        return rows
    if not np.isfinite(rows).all():
        raise BadVector("a vector is not finite")
    # Norms are computed in double precision: in single precision the square of 3e38 is infinite, or
    # wraps to a valid value.
    norms = np.sqrt(np.square(rows.astype(np.float64)).sum(axis=1))
    if not (np.abs(norms - 1.0) < _NORM_TOLERANCE).all():
        raise BadVector("a vector is not of unit norm")
    return rows


def check_each(vectors: Sequence[bytes], dimension: int) -> Floats:
    """Check separate vectors as `check_vectors` does; one's length cannot make up for another's.

    Raises:
        BadVector: A length is wrong, or a vector is not finite or not of unit norm.
    """
    if any(len(vector) != 4 * dimension for vector in vectors):
        raise BadVector("a vector of another dimension")
    return check_vectors(b"".join(vectors), len(vectors), dimension)


def seal(ordinals: Ordinals, vectors: Floats) -> Segment:
    """An immutable segment of the given rows, which must be checked already; copies their data."""
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


def merged(segments: Sequence[Segment]) -> Segment:
    """One segment with the rows of several neighbouring segments, in ascending order."""
    return seal(
        np.concatenate([segment.ordinals for segment in segments]),
        np.concatenate([segment.vectors for segment in segments]),
    )


class Sketch(msgspec.Struct, frozen=True, kw_only=True):
    """One bit per dimension of each row of a segment: the signs of the rotated vectors."""

    coded: Any
    centre: Floats
    spread: float
    count: int

    def nearest(self, turned: Floats, count: int) -> tuple[Floats, Ordinals]:
        """The highest estimated scores, best first, and the rows they belong to."""
        scores, rows = self.coded.search(turned.reshape(1, -1), min(count, self.count))
        found = rows[0] >= 0
        return scores[0][found], rows[0][found]

    def error(self, turned: Floats) -> float:
        """The standard deviation of one estimate for this query."""
        away = float(np.linalg.norm(turned - self.centre))
        return _ERROR / math.sqrt(max(1, len(turned) - 1)) * self.spread * away
