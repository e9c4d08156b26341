"""Vectors that a client sends: checked and brought to unit norm before anything uses them."""

from __future__ import annotations

from typing import Final

import numpy as np

from proxy.embed.embedding import ClientVectors
from proxy.seams.embedder import Embedder
from proxy.seams.faults import MalformedRequest

# At a norm outside this range, the direction is lost to rounding, or squares overflow single
# precision.
NORM_MIN: Final = 1e-6
NORM_MAX: Final = 1e6


def takes_client_vectors(embedder: Embedder) -> bool:
    """Whether the store has no embedding model of its own, so that clients send vectors."""
    return isinstance(embedder, ClientVectors)


def unit_vector(raw: bytes, dimension: int) -> bytes:
    """The same direction at unit norm, float32 little-endian.

    A vector of huge norm would be a hit in every search, and one with NaN in none.

    Raises:
        MalformedRequest: Another dimension, not finite, or of no usable norm.
    """
    if len(raw) != 4 * dimension:
        raise MalformedRequest(f"vector: this store holds {dimension} dimensions")
    vector = np.frombuffer(raw, dtype="<f4").astype(np.float64)
    if not np.isfinite(vector).all():
        raise MalformedRequest("vector: every component must be finite")
    norm = float(np.sqrt(vector @ vector))
    if not NORM_MIN <= norm <= NORM_MAX:
        raise MalformedRequest("vector: its norm must lie between 1e-6 and 1e6")
    return (vector / norm).astype("<f4").tobytes()
