"""Answers whose body comes in pieces: written as fast as the peer reads, and never outliving it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.transport.responses import attempt
from proxy.transport.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from proxy.transport.exchange import Departure, Pieces
    from proxy.transport.request import Received


class Streams:
    """The bodies that one listener is sending piece by piece. Event loop only.

    A piece is asked for when the one before it was taken, so a slow reader holds one piece and a
    socket buffer; the connection's own deadline cuts off who stops reading.
    """

    def __init__(self, halt: Callable[[], None]) -> None:
        self._halt = halt
        self._open: set[Stop] = set()

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        """End all of them now, as a listener does that closes."""
        for stop in tuple(self._open):
            stop()

    async def send(
        self, request: Received, response: web.StreamResponse, pieces: Pieces, gone: Departure
    ) -> None:
        """Send head and pieces until they end, or until the peer or the listener goes."""
        whole = False
        stop = Stop()
        self._open.add(stop)
        gone.tell(stop)
        try:
            async with stop:
                whole = await attempt(_write(request, response, pieces), self._halt) is True
        except TimeoutError:
            pass
        finally:
            gone.forget(stop)
            self._open.discard(stop)
            await attempt(pieces.aclose(), self._halt)
        if not whole:
            # Without its last chunk nobody can take the part for the whole.
            request.connection.abort()


async def _write(request: Received, response: web.StreamResponse, pieces: Pieces) -> bool:
    """Whether all of it was written; the peer may have gone."""
    try:
        await request.begin(response)
    except ConnectionError:
        return False
    async for piece in pieces:
        try:
            await response.write(piece)
        except ConnectionError:
            return False
    try:
        await response.write_eof()
    except ConnectionError:
        return False
    return True
