"""Streamed answers: sent as fast as the peer reads them, and ended when the peer leaves."""

from __future__ import annotations

from collections.abc import Callable

from proxy.seams.environment import Serving
from proxy.transport.exchange import Departure, Pieces
from proxy.transport.request import LAST_CHUNK, ReceivedRequest, chunk_of
from proxy.transport.responses import attempt
from proxy.transport.stop import Stop


class StreamedAnswers:
    """The streamed answers of one listener. Event loop only.

    A piece is fetched when the previous one was written, so that a slow reader costs the memory of
    one piece and a socket buffer. A peer that stops reading meets the connection's deadline.
    """

    def __init__(self, halt: Callable[[], None], serving: Serving) -> None:
        """While `serving` does not hold the store, no piece is sent."""
        self._halt = halt
        self._serving = serving
        self._open: set[Stop] = set()

    def end(self) -> None:
        """End all streamed answers now, because the listener closes."""
        for stop in tuple(self._open):
            stop()

    async def send(
        self,
        request: ReceivedRequest,
        head: bytes,
        pieces: Pieces,
        gone: Departure,
    ) -> None:
        """Send head and pieces up to the last one, or until the peer leaves or the listener closes.

        The pieces are always closed; after an incomplete answer, so is the connection.
        """
        whole = False
        stop = Stop()
        self._open.add(stop)
        gone.tell(stop)
        try:
            async with stop:
                whole = await attempt(self._write(request, head, pieces), self._halt) is True
        except TimeoutError:
            pass
        finally:
            gone.forget(stop)
            self._open.discard(stop)
            await attempt(pieces.aclose(), self._halt)
        if not whole:
            # The last chunk is not sent, so that an incomplete answer does not look complete.
            request.connection.abort()

    async def _write(self, request: ReceivedRequest, head: bytes, pieces: Pieces) -> bool:
        """Write the pieces; False if the peer left, or the lease ended, before all were written."""
        send = request.connection.send
        if not await send(head):
            return False
        if request.bodiless:
            return True
        async for piece in pieces:
            if not self._serving.holds():
                return False
            if not await send(chunk_of(piece) if request.http_11 else piece):
                return False
        return not request.http_11 or await send(LAST_CHUNK)
