"""The interface to an embedding model."""

from __future__ import annotations

from typing import Protocol


class Embedder(Protocol):
    """Turns text into a vector. Two embedders' vectors never mix in one search."""

    embedder_id: str
    dimension: int

    def embed(self, texts: list[str]) -> list[bytes]:
        """Unit-norm float32 little-endian vectors, one per text; safe from any thread."""
        ...
