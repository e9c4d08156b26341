"""Vectors that lie as real ones do: in clusters, at unit norm, from a fixed seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DIMENSION = 256
_CLUSTERS = 200
_SPREAD = 0.6


class Corpus:
    """Rows around a fixed set of centres, and queries near rows."""

    def __init__(self, seed: int = 7, rows_seed: int | None = None) -> None:
        """`rows_seed` gives other rows around the same centres."""
        self._rng = np.random.default_rng(seed)
        self._centres = _unit(self._rng.standard_normal((_CLUSTERS, DIMENSION)))
        if rows_seed is not None:
            self._rng = np.random.default_rng(rows_seed)

    def rows(self, count: int) -> Floats:
        near = self._centres[self._rng.integers(0, _CLUSTERS, count)]
        noise = self._rng.standard_normal((count, DIMENSION)) / np.sqrt(DIMENSION)
        return _unit(near + _SPREAD * noise)


def _unit(rows: NDArray[np.float64] | Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray((rows / norms).astype("<f4"))
