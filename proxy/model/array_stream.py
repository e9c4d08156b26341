"""A stream of the Gemini API as one JSON array, for a client that did not ask for events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from proxy.dialects.sse import RawReader
from proxy.transport.exchange import Pieces

KIND: Final = "application/json; charset=UTF-8"


class ArrayPieces:
    """The data of a stream's events as elements of one array, each as soon as it came (`Pieces`).

    The model is asked for events, because their limits show without parsing.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the array's text piece by piece."""
        reader, before = RawReader(), b"["
        async for piece in self._pieces:
            for event in reader.feed(piece):
                if event.data is not None:
                    yield before + event.data.encode("utf-8", "surrogatepass")
                    before = b",\r\n"
        yield b"[]" if before == b"[" else b"]"

    async def aclose(self) -> None:
        """Close the inner stream."""
        await self._pieces.aclose()
