"""The error of a missing model, apart from the reader of weights, which imports numpy."""

from __future__ import annotations

from storage.ground.errors import StorageError


class EmbedderUnavailable(StorageError):
    """The error for an embedding model that is not installed, or not of the pinned version."""
