"""A limit on the memory for the bodies of model requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from proxy.transport.exchange import Pieces

BYTES_MAX: Final = 512 * 1024 * 1024


class NoRoom(Exception):  # noqa: N818 - a state of the sidecar, not a fault
    """The error where too many large bodies are in memory. A later request may find room."""


class Room:
    """Counts the bytes that bodies in memory take. Event loop only."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._left = bytes_max

    def take(self, size: int) -> Callable[[], None]:
        """Reserve room for a body; returns the function that releases it, to be called once.

        Raises:
            NoRoom: There is no room at present.
        """
        if size > self._left:
            raise NoRoom
        self._left -= size

        def release() -> None:
            self._left += size

        return release


class RoomHolder:
    """A stream of pieces that keeps its reserved room until it is closed. Implements `Pieces`."""

    def __init__(self, pieces: Pieces, release: Callable[[], None]) -> None:
        self._pieces = pieces
        self._release = release

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the stream, leaving out empty ones."""
        return aiter(self._pieces)

    async def aclose(self) -> None:
        """Close the inner stream, and release the room."""
        try:
            await self._pieces.aclose()
        finally:
            self._release()
