"""What a peer may take of a listener before it has said who it is: time, memory, connections.

aiohttp keeps a connection whose headers never end open for as long as its keep-alive time, answers
a broken request line by quoting it, and waits without end for a peer that does not read. The
subclass here puts a deadline or a fixed text around each.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from proxy.exchange import Departure
from proxy.responses import PROBLEM_TYPE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.streams import StreamReader
    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

    from proxy.auth import Peer
    from proxy.settings import Limits

_LOG: Final = logging.getLogger("mnemogate.http")
HEADER_LINE_BYTES_MAX: Final = 8_190
HEADERS_MAX: Final = 64
LINGER_S: Final = 1.0

_MALFORMED: Final = (
    b'{"type":"urn:mnemogate:problem:bad_request","title":"Bad Request","status":400,'
    b'"detail":"not a well-formed HTTP/1.1 request"}'
)
_INTERNAL: Final = (
    b'{"type":"urn:mnemogate:problem:internal_server_error","title":"Internal Server Error",'
    b'"status":500,"detail":"cannot_decide: an internal failure; nothing was admitted"}'
)
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


class GuardedConnection(RequestHandler):
    """One connection with a deadline on its headers and on its reading of answers."""

    def __init__(
        self,
        server: GuardedServer,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        welcome: Callable[[asyncio.BaseTransport], bool],
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None turns it off; aiohttp types it not
            logger=_LOG,
            auto_decompress=False,
            keepalive_timeout=limits.idle_seconds,
            max_line_size=HEADER_LINE_BYTES_MAX,
            max_field_size=HEADER_LINE_BYTES_MAX,
            max_headers=HEADERS_MAX,
            lingering_time=LINGER_S,
        )
        # What the listener found out about the other end; it stays the same for the connection.
        self.peer: Peer | None = None
        self.departure = Departure()
        self._server = server
        self._limits = limits
        self._welcome = welcome
        self._deadline: asyncio.TimerHandle | None = None
        # Runs while an answer waits for its peer to read; no answer that is read costs a timer.
        self._unread: asyncio.TimerHandle | None = None
        self._newest: StreamReader | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock, or turn the peer away."""
        super().connection_made(transport)
        if not self._welcome(transport):
            self.force_close()
        elif len(self._server.connections) > self._limits.connections_max:
            self._say(_FULL)
            self.force_close()
        else:
            self._start_clock()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop both clocks, and tell who waits for this."""
        self._stop_clock()
        self._heed()
        self.departure.happen()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and keep the clock running while headers are incomplete."""
        in_body = self._newest is not None and not self._newest.is_eof()
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._stop_clock()
            self._newest = self._messages[-1][1] if self._messages else None
        elif data and not in_body:
            # Bytes that completed no request and belong to no body: the start of a next one.
            self._start_clock()

    def pause_writing(self) -> None:
        """The peer does not read its answer: it has so long to do so, or loses the connection."""
        super().pause_writing()
        self._unread = self._loop.call_later(self._limits.body_seconds, self._abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self._heed()
        super().resume_writing()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """A fixed text: the parser's own message quotes the request."""
        del message
        if exc is not None and status >= 500:  # noqa: PLR2004 - ours, not the peer's
            _LOG.error("connection failed", extra={"error_type": type(exc).__name__})
        if request.writer.output_size > 0:
            raise ConnectionError("the answer is under way already")
        body = _MALFORMED if status < 500 else _INTERNAL  # noqa: PLR2004
        # aiohttp's own Server header tells every version to whoever sends one broken line.
        response = web.Response(
            status=status, body=body, content_type=PROBLEM_TYPE, headers={"Server": "mnemogate"}
        )
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as overridden
        """The type alone: a traceback would carry what the peer sent into the log."""
        del args
        error = kwargs.get("exc_info")
        _LOG.error("connection failed", extra={"error_type": type(error).__name__})

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self._loop.call_later(self._limits.header_seconds, self._late)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _heed(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _abort(self) -> None:
        self._unread = None
        if self.transport is not None:
            self.transport.abort()

    def _late(self) -> None:
        self._deadline = None
        if self._current_request is not None or self._messages:
            # An answer is under way: it may not be torn, so close behind it.
            self.close()
            return
        self._say(_LATE)
        self.force_close()

    def _say(self, raw: bytes) -> None:
        if self.transport is not None:
            self.transport.write(raw)


class GuardedServer(web.Server):
    """Makes a `GuardedConnection` for each peer."""

    def __init__(
        self,
        handler: Any,  # noqa: ANN401 - aiohttp keeps the handler's type to itself
        *,
        limits: Limits,
        welcome: Callable[[asyncio.BaseTransport], bool],
    ) -> None:
        super().__init__(handler)
        self._guard = limits
        self._may_enter = welcome

    def __call__(self) -> RequestHandler:
        """The protocol of one new connection."""
        return GuardedConnection(self, loop=self._loop, limits=self._guard, welcome=self._may_enter)
