"""The rows that an index finds, as pairs that tests compare."""

from __future__ import annotations

from storage.derived.vectors.faiss_index import Mask, VectorIndex


def found_pairs(
    index: VectorIndex, query: bytes, limit: int, allowed: Mask | None, *, exact: bool = False
) -> list[tuple[int, float]]:
    """The best rows of an index, each as its ordinal and its cosine."""
    ordinals, cosines = index.nearest(query, limit, allowed, exact=exact)
    return list(zip(ordinals.tolist(), cosines.tolist(), strict=True))
