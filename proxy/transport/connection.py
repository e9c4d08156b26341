"""What a peer may take of a listener before it has said who it is: time, memory, connections.

aiohttp keeps a connection whose headers never end open for as long as its keep-alive time, answers
a broken request line by quoting it, and waits without end for a peer that does not read. The
subclass here puts a deadline or a fixed text around each, and answers the requests of a connection
one after the other with as little around each as can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import StreamWriter
from aiohttp.web_protocol import RequestHandler

from policy.verdict import InvariantBroken
from proxy.settings.load import SettingsError
from proxy.transport.exchange import Departure
from proxy.transport.request import Received
from proxy.transport.responses import PROBLEM_TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.streams import StreamReader
    from aiohttp.web_request import BaseRequest

    from proxy.settings.load import Limits
    from proxy.transport.auth import Peer

    # Answers one request: the bytes to send, b"" where they were sent already, and whether the
    # connection is kept behind it. None: it failed.
    Answers = Callable[[Received], Awaitable[tuple[bytes, bool] | None]]

AIOHTTP_FROM: Final = "3.14.4"
AIOHTTP_BELOW: Final = "3.15"
HEADER_LINE_BYTES_MAX: Final = 8_190
HEADERS_MAX: Final = 64
LINGER_S: Final = 1.0


def check_aiohttp(installed: str = aiohttp.__version__) -> None:
    """Refuse an aiohttp whose connections `GuardedConnection` does not know from inside.

    With an older one every connection ends without an answer, while the start says ready.

    Raises:
        SettingsError: Another version than the project's metadata ask for is installed.
    """
    if not _numbers(AIOHTTP_FROM) <= _numbers(installed) < _numbers(AIOHTTP_BELOW):
        raise SettingsError(
            f"aiohttp {installed} is installed, and this program is not made for it: "
            f"install aiohttp>={AIOHTTP_FROM},<{AIOHTTP_BELOW}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _fixed(status: str, body: bytes) -> bytes:
    """A whole answer that ends the connection.

    aiohttp's own would quote the request, and name every version to whoever sends a broken line.
    """
    head = (
        f"HTTP/1.0 {status}\r\nContent-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
        "Server: mnemogate\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_MALFORMED: Final = _fixed(
    "400 Bad Request",
    b'{"type":"urn:mnemogate:problem:bad_request","title":"Bad Request","status":400,'
    b'"detail":"not a well-formed HTTP/1.1 request"}',
)
_INTERNAL: Final = _fixed(
    "500 Internal Server Error",
    b'{"type":"urn:mnemogate:problem:internal_server_error","title":"Internal Server Error",'
    b'"status":500,"detail":"cannot_decide: an internal failure; nothing was admitted"}',
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
        # The body of the request that is being answered, where it did not come with its head.
        self._arriving: StreamReader | None = None

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
        if self._arriving is not None:
            self._arriving.set_exception(ConnectionResetError("the peer went"))
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

    async def start(self) -> None:
        """Answer the requests of this connection, in their order, until it ends.

        In the place of aiohttp's own, and under its rules: one task for the connection, which
        `shutdown` waits for and then cancels.
        """
        try:
            while not self._force_close and await self._next():
                pass
        finally:
            if not self._force_close:
                self._task_handler = None
                if self.transport is not None:
                    self.transport.close()

    async def _next(self) -> bool:
        """Answer the next request; False where the connection ends behind it."""
        if not self._messages:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message, content = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        if not isinstance(message, RawRequestMessage):
            self._say(_MALFORMED)
            return False
        self._request_in_progress = True
        try:
            stays = await self._converse(Received(message, content, self))
        finally:
            self._arriving = None
            self._request_in_progress = False
            if self._handler_waiter is not None:
                self._handler_waiter.set_result(None)
        if not stays or self._close:
            return False
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(
                self._next_keepalive_close_time, self._process_keepalive
            )
        return True

    async def _converse(self, received: Received) -> bool:
        content = received.content
        if not content.is_eof():
            self._arriving = content
        answer = await self._server.answers(received)
        if answer is None:
            self._say(_INTERNAL)
            return False
        data, stays = answer
        if data:
            self._say(data)
        if self._paused:
            try:
                await self._drain_helper()
            except ConnectionError:
                return False
        if not content.is_eof():
            await self._let_it_end(content)
            return False
        return stays

    async def _let_it_end(self, content: StreamReader) -> None:
        """Read past a body that nobody wants: closed at once, the answer before it may be lost."""
        with contextlib.suppress(TimeoutError, web.RequestPayloadError, ConnectionError):
            async with asyncio.timeout(LINGER_S):
                while not content.is_eof():
                    await content.readany()

    def request_of(self, message: RawRequestMessage, content: StreamReader) -> BaseRequest:
        """A request as aiohttp makes it, for an answer that comes in pieces.

        Raises:
            ConnectionError: The peer is gone.
        """
        factory, task = self._request_factory, self._task_handler
        if factory is None or task is None:
            raise ConnectionResetError("the peer went")
        return factory(message, content, self, StreamWriter(self, self._loop), task)

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
        if self._request_in_progress or self._messages:
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
        answers: Answers,
        *,
        limits: Limits,
        welcome: Callable[[asyncio.BaseTransport], bool],
    ) -> None:
        super().__init__(_never)
        self.answers = answers
        self._guard = limits
        self._may_enter = welcome

    def __call__(self) -> RequestHandler:
        """The protocol of one new connection."""
        return GuardedConnection(self, loop=self._loop, limits=self._guard, welcome=self._may_enter)


async def _never(request: BaseRequest) -> web.StreamResponse:
    raise InvariantBroken(f"aiohttp handled a {type(request).__name__} by itself")
