"""Bounds on what an unauthenticated peer may use of a listener: time, memory, connections.

aiohttp parses and answers. The protocol of this module receives the bytes first, and passes one
request at a time to aiohttp. It bounds heads, buffered bytes and the framing of bodies, and each
wait for the peer has a deadline. aiohttp's own error texts, which quote the request, are replaced
by fixed ones. No header is parsed here: a head ends with an empty line, and a body with the length
that aiohttp parsed, or with the last chunk if aiohttp finds the same end.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import web

from proxy.settings.table import Limits, SettingsError
from proxy.transport.auth import Peer
from proxy.transport.crowd import Crowd
from proxy.transport.exchange import Departure
from proxy.transport.fixed_answers import (
    FULL,
    HEAD_TOO_LARGE,
    INTERNAL,
    LATE,
    MALFORMED,
    TARGET_TOO_LONG,
)
from proxy.transport.head import Chunks, Unframed
from proxy.transport.peers import peer_of
from proxy.transport.request import ReceivedRequest

# Answers one request; returns None if the request failed and nothing was sent.
Answers = Callable[[ReceivedRequest], Awaitable[web.StreamResponse | None]]


AIOHTTP_FROM: Final = "3.14.4"
AIOHTTP_BELOW: Final = "3.15"
HEAD_BYTES_MAX: Final = 32 * 1024
"""The most bytes of a request line with its headers, as they were received."""
HELD_BYTES_MAX: Final = 16 * 1024
"""The most received bytes that a connection without a credential buffers, or reads at once."""
READ_BYTES_MAX: Final = 128 * 1024
"""The most received bytes that a connection with a credential buffers, or reads at once."""
FRAMING_BYTES_MAX: Final = 64 * 1024
FRAMING_PER_BYTE: Final = 8
"""A chunked body may have `FRAMING_BYTES_MAX` bytes, and this many per byte of its limit."""
LINGER_S: Final = 1.0
_EMPTY_LINE: Final = b"\r\n\r\n"
_METHODS: Final = (
    *(b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"),
    *(b"CONNECT", b"TRACE"),
)
_REQUEST_LINE: Final = re.compile(rb"[A-Z]+ [!-\xff]+ HTTP/1\.[01]")


def _nowhere() -> logging.Logger:
    # aiohttp logs unparsable requests with their bytes. This logger belongs to no hierarchy, so no
    # configuration can give it a handler.
    silent = logging.Logger("aiohttp", logging.CRITICAL + 1)  # noqa: LOG001 - as said
    silent.disabled = True
    return silent


_SILENT: Final = _nowhere()


def check_aiohttp(installed: str = aiohttp.__version__) -> None:
    """Refuse an aiohttp version that was not tested with the options that this module sets.

    A version that does not know one of the options ignores all of them, including the bounds and
    the silent logger.

    Raises:
        SettingsError: The installed version is not one that the project's metadata requires.
    """
    if not _numbers(AIOHTTP_FROM) <= _numbers(installed) < _numbers(AIOHTTP_BELOW):
        raise SettingsError(
            f"aiohttp {installed} is installed, and this program is not made for it: "
            f"install aiohttp>={AIOHTTP_FROM},<{AIOHTTP_BELOW}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def may_begin(data: bytes) -> bool:
    """Whether the bytes can be the beginning of an HTTP/1 request, by method and request line."""
    line, ended, _ = data.lstrip(b"\r\n").partition(b"\r\n")
    if ended:
        return _REQUEST_LINE.fullmatch(line) is not None
    method, space, _ = line.partition(b" ")
    return method in _METHODS if space else any(one.startswith(method) for one in _METHODS)


class ConnectionTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What all connections of a listener share: request handler, limits, crowd and read buffer."""

    answers: Answers
    limits: Limits
    crowd: Crowd
    # The read buffer that all connections use in turn; each empties it after a read.
    window: memoryview


class _At(Enum):
    """The points within a request at which a connection can be."""

    HEAD = "a head is awaited, or its beginning is there"
    PARSED = "a head is with aiohttp, which will hand the request over"
    HELD = "a request is answered, and nobody has asked for its body"
    BODY = "the body is forwarded as it comes"
    FED = "all of the request is with aiohttp"
    PAST = "what comes belongs to nothing and is dropped"


class Connection(asyncio.BufferedProtocol):
    """One connection. Event loop only.

    `peer` is set from the beginning, and `principal` once a front has checked the credential.
    `departure` happens when the connection ends during a request, and `end` closes it.
    """

    def __init__(
        self,
        terms: ConnectionTerms,
        welcome: Callable[[Peer], bool],
        address: str | None = None,
    ) -> None:
        """`welcome` returns whether the peer is served at all.

        `address` is the peer's, where a proxy that is trusted has announced it.
        """
        self.peer = Peer(address="")
        self.principal: str | None = None
        self.departure = Departure()
        # This event happens when a body turns out to have invalid framing, or too much of it.
        self.breakage = Departure()
        self.broken = False
        self._terms = terms
        self._limits = terms.limits
        self._welcome = welcome
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._server: web.Server | None = None
        self._inner: asyncio.Protocol | None = None
        self._inner_paused = False
        self._stopped = False  # whether reading from the peer's socket is paused
        self._at = _At.HEAD
        self._request: ReceivedRequest | None = None
        # Whether the bytes that aiohttp writes now are an answer of a front, not its own error.
        self.speaking = False
        self._held = bytearray()
        # The most unprocessed bytes that may be buffered: with a credential, enough to read a usual
        # request at once.
        self._held_max = HELD_BYTES_MAX
        self._last = b""  # the last bytes of this head, to find its empty line across reads
        # The bytes of this head until its first line is complete.
        self._line = b""
        # Whether the peer has closed its side, and will send nothing more.
        self._said_all = False
        self._raw = 0  # number of bytes of this head, or of this body
        # whether the deadline was extended once, because the loop was too busy for a whole head
        self._excused = False
        self._chunks = Chunks()
        # The time of the loop at which the wait for a head ends; None while no head is awaited.
        self._due: float | None = None
        # One timer for all heads of the connection: it is set again where it runs before `_due`.
        self._deadline: asyncio.TimerHandle | None = None
        # This timer runs while a peer does not read its answer; None while no answer waits so.
        self._unread: asyncio.TimerHandle | None = None

    # ---- methods that the socket calls -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline for the first head, or close the connection of an unwanted peer."""
        if not isinstance(transport, asyncio.Transport):
            transport.close()
            return
        self._transport = transport
        self.peer = peer_of(transport)
        if self._address is not None:
            self.peer = msgspec.structs.replace(self.peer, address=self._address)
        if not self._welcome(self.peer):
            self.end()
        elif not self._terms.crowd.enter(self):
            self.say(FULL)
            self.end()
        else:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers, and report the end."""
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._heed()
        self._terms.crowd.leave(self)
        self.departure.happen()
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes, not larger than what may still be buffered."""
        del sizehint
        return self._terms.window[: max(1, self._held_max - len(self._held))]

    def buffer_updated(self, nbytes: int) -> None:
        """Buffer the bytes that arrived, and pass on as many of them as aiohttp can take."""
        self._held += self._terms.window[:nbytes]
        self._pump()

    def eof_received(self) -> bool:
        """Record that the peer sends no more; the requests that it has sent are still answered.

        Over TLS the connection ends, because asyncio has no half-closed TLS connection.
        """
        if self._transport is None or self._transport.get_extra_info("sslcontext") is not None:
            return False
        self._said_all = True
        self._hear_out()
        return True

    def pause_writing(self) -> None:
        """Start a deadline for the peer, which does not read its answer fast enough."""
        if self._inner is not None:
            self._inner.pause_writing()
        self._unread = self._loop.call_later(self._limits.body_seconds, self.abort)

    def resume_writing(self) -> None:
        """Stop the deadline, because the peer reads again."""
        self._heed()
        if self._inner is not None:
            self._inner.resume_writing()

    # ---- methods that aiohttp calls --------------------------------------------------------------

    def pause(self) -> None:
        """Stop handing bytes of the body to aiohttp, because it cannot take more now."""
        self._inner_paused = True
        self._regulate()

    def resume(self) -> None:
        """Hand bytes of the body to aiohttp again."""
        if self._inner_paused:
            self._inner_paused = False
            self._pump()

    def refuse(self, answer: bytes) -> None:
        """Send a fixed answer, which does not quote the request, and close the connection."""
        self._at = _At.PAST
        self.say(answer)
        self.end()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that aiohttp has parsed, and return the response that was sent.

        When this returns, the answer was sent, or the connection is closing.
        """
        self._due = None
        received = ReceivedRequest(request, self)
        self._request = received
        self._raw, self._last = 0, b""
        if received.length is None:
            self._chunks = Chunks()
        self._excused = False
        self._at = _At.FED if received.content.is_eof() else _At.HELD
        self.speaking = True
        if self._said_all:
            self._hear_out()
        sent: web.StreamResponse | None = None
        try:
            sent = await self._terms.answers(received)
        finally:
            self.speaking = False
            self._settle(sent)
        if sent is None:
            self.say(INTERNAL)
            self.end()
            # aiohttp needs a return value. The connection is closing, so this is never sent.
            return web.Response(status=500)
        return sent

    def _settle(self, sent: web.StreamResponse | None) -> None:
        """After an answer, wait for the next request, or drop the rest of an unread body."""
        self.departure = Departure()
        request = self._request
        whole = self._at is _At.FED and request is not None and request.content.is_eof()
        if sent is not None and sent.keep_alive and whole:
            self._request = None
            self._raw, self._last = 0, b""
            self._at = _At.HEAD
        elif self._at is _At.HELD and request is not None:
            # aiohttp reads the body for a moment more, because the peer could lose the answer if
            # the connection closed at once.
            request.body_bytes_max = self._limits.body_bytes_max
            self._at = _At.BODY
        self._pump()

    # ---- methods that the answering side calls ---------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its peer, to send bytes or to read an answer."""
        return self._at in {_At.HEAD, _At.BODY} or self._unread is not None

    @property
    def idle(self) -> bool:
        """Whether the peer has not begun to send a request."""
        return self._at is _At.HEAD and not self._raw

    @property
    def garbled(self) -> bool:
        """Whether the bytes after a complete request cannot begin another request.

        If so, the sender may have ended the request at another byte (request smuggling), and the
        request is not carried out.
        """
        if not self._held or self._at is not _At.FED or self._request is None:
            return False
        behind = bytes(self._held).lstrip(b"\r\n")
        return bool(behind) and not (self._request.keep_alive and may_begin(behind))

    @property
    def unread_bytes(self) -> int:
        """The number of bytes of answers that the peer has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def enter(self, principal: str) -> None:
        """Count the connection for this principal, whose credential was checked.

        Raises:
            Busy: Requests are being answered on all connections with a credential.
        """
        self._terms.crowd.recognise(self, principal)
        self.principal, self._held_max = principal, READ_BYTES_MAX

    def open_body(self) -> None:
        """Begin to pass the body of the current request to aiohttp."""
        if self._at is _At.HELD:
            self._at = _At.BODY
            self._pump()

    def say(self, raw: bytes) -> None:
        """Write bytes that do not come from a front, such as a fixed refusal."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(raw)

    def end(self) -> None:
        """Close the connection after the bytes that are already written were sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    async def shutdown(self, drain_s: float) -> None:
        """Let the current request finish within this time, then close the connection."""
        if self._at in {_At.HEAD, _At.PARSED}:
            self.end()
        if self._server is not None:
            await self._server.shutdown(drain_s)
        self.end()

    # ---- passing bytes between the socket and aiohttp --------------------------------------------

    def _pump(self) -> None:
        """Pass the buffered bytes to aiohttp as far as it can take them, and keep the rest.

        Close the connection if they were the last ones.
        """
        while self._held and not self._inner_paused:
            if self._at is _At.HEAD:
                self._feed_head()
            elif self._at is _At.BODY and self._request is not None:
                self._feed_body(self._request)
            elif self._at is _At.PAST:
                self._held.clear()
            else:
                break
        if self._held or self._stopped:
            self._regulate()
        if self._said_all:
            self._hear_out()

    def _feed_head(self) -> None:
        if self._due is None:
            self._start_clock()
        if not self._raw:
            while self._held.startswith(b"\r\n"):
                del self._held[:2]
        before = len(self._last)
        end = (self._last + self._held[: len(_EMPTY_LINE)]).find(_EMPTY_LINE) if before else -1
        if end < 0:
            end = self._held.find(_EMPTY_LINE)
            end += before if end >= 0 else 0
        ended = end >= 0
        part = self._take(end + len(_EMPTY_LINE) - before if ended else len(self._held))
        self._last = (self._last + part)[-len(_EMPTY_LINE) + 1 :]
        if not self._raw or b"\r\n" not in self._line:
            self._line = self._line + part if self._raw else part
        self._raw += len(part)
        if self._raw > HEAD_BYTES_MAX:
            self.refuse(HEAD_TOO_LARGE if b"\r\n" in self._line else TARGET_TOO_LONG)
            return
        # aiohttp's parser accepts other protocols of this form (RTSP, ICE), and waits silently
        # after the preface of HTTP/2.
        if not may_begin(self._line):
            self.refuse(MALFORMED)
            return
        if ended:
            self._at = _At.PARSED
        self._feed(part)

    def _feed_body(self, request: ReceivedRequest) -> None:
        try:
            if request.length is None:
                taken, part = self._chunks.through(bytes(self._held))
                self._raw += len(self._take(taken))
                ended = self._chunks.ended
            else:
                part = self._take(request.length - self._raw)
                self._raw += len(part)
                ended = self._raw == request.length
        except Unframed:
            self._break()
            return
        if self._raw > FRAMING_BYTES_MAX + FRAMING_PER_BYTE * request.body_bytes_max:
            self._break()
            return
        if ended:
            self._at = _At.FED
        self._feed(part)
        if self._at is _At.BODY and request.content.is_eof():
            # aiohttp and this code found different ends of the body, so the body counts as broken.
            self._break()

    def _break(self) -> None:
        self._at = _At.PAST
        self.broken = True
        self.breakage.happen()

    def _take(self, count: int) -> bytes:
        if count >= len(self._held):
            part = bytes(self._held)
            self._held.clear()
            return part
        part = bytes(self._held[:count])
        del self._held[:count]
        return part

    def _feed(self, part: bytes) -> None:
        if self._inner is None and self._transport is not None:
            # aiohttp's parser and task are created with the first bytes, so that a peer that
            # connects and sends nothing costs neither.
            self._server = _server(self._handle, self._limits)
            self._inner = self._server()
            self._inner.connection_made(ResponseWriter(self._transport, self))
        if self._inner is not None:
            self._inner.data_received(part)

    def _hear_out(self) -> None:
        """Close the connection of a peer that sends no more, once its requests are answered.

        A peer that left looks the same from here, so `departure` happens, which ends a stream.
        """
        if self._at is _At.PARSED or (self._inner_paused and self._held):
            return
        if self._at is _At.FED:
            # The departure is reported in the next turn of the event loop, after the reader of the
            # body has run.
            self._loop.call_soon(self.departure.happen)
        elif self._at is not _At.HELD and not self.broken:
            self.end()

    def _regulate(self) -> None:
        """Pause reading from the socket while the buffer is full or aiohttp takes no bytes."""
        ahead = self._inner_paused or (bool(self._held) and len(self._held) >= self._held_max)
        transport = self._transport
        if ahead is self._stopped or transport is None or transport.is_closing() or self._said_all:
            return
        self._stopped = ahead
        if ahead:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _start_clock(self) -> None:
        self._due = self._loop.time() + self._limits.header_seconds
        if self._deadline is None:
            self._deadline = self._loop.call_at(self._due, self._late)

    def _late(self) -> None:
        timer, self._deadline = self._deadline, None
        if self._due is None or timer is None:
            return  # no head is awaited
        if timer.when() < self._due:
            # The head that the timer was set for is answered, and another one is awaited.
            self._deadline = self._loop.call_at(self._due, self._late)
        elif self._at is _At.PARSED and not self._excused:
            # The whole head is here, but the loop was too busy to answer it, so the deadline is
            # extended once.
            self._excused = True
            self._start_clock()
        else:
            self.say(LATE)
            self.end()

    def _heed(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _server(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: Limits
) -> web.Server:
    return web.Server(
        handle,
        logger=_SILENT,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=limits.idle_seconds,
        # Only the whole head is limited before it is parsed: a smaller limit here would be answered
        # with 400. Fields and their number are limited by `head_of`.
        max_line_size=HEAD_BYTES_MAX,
        max_field_size=HEAD_BYTES_MAX,
        max_headers=HEAD_BYTES_MAX,
        lingering_time=LINGER_S,
    )


class ResponseWriter(asyncio.Transport):
    """Passes the answers of fronts to the socket. Event loop only.

    Bytes that aiohttp writes between two answers are its own error text for an unparsable request,
    which quotes the request. The connection writes a fixed answer instead.
    """

    def __init__(self, real: asyncio.Transport, connection: Connection) -> None:
        """`real` is the transport of the socket."""
        super().__init__()
        self._real = real
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass an answer's bytes to the socket; replace aiohttp's own error by a fixed answer."""
        if self._connection.speaking:
            self._real.write(data)
        elif not self._real.is_closing():
            self._connection.refuse(MALFORMED)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write several pieces as `write` writes one."""
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        """The socket transport's extra information of this name."""
        return self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closing."""
        return self._real.is_closing()

    def is_reading(self) -> bool:
        """Whether bytes are being read from the socket."""
        return self._real.is_reading()

    def pause_reading(self) -> None:
        """Stop handing bytes of the body to aiohttp, because it cannot take more now."""
        self._connection.pause()

    def resume_reading(self) -> None:
        """Hand bytes of the body to aiohttp again."""
        self._connection.resume()

    def get_write_buffer_size(self) -> int:
        """The number of written bytes that the peer has not read."""
        return self._real.get_write_buffer_size()

    def close(self) -> None:
        """Close the socket after the bytes that are already written were sent."""
        self._real.close()

    def abort(self) -> None:
        """Close the socket at once; unsent bytes are lost."""
        self._real.abort()
