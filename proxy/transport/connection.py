"""Bounds on what an unauthenticated peer may use of a listener: time, memory, connections.

aiohttp's parser reads each head, and a new parser the next one. The protocol of this module finds
where a head ends, with an empty line, and where a body does, by its length or its chunks; it has
one request at a time answered. It bounds heads, buffered bytes and the framing of bodies, and each
wait for the peer has a deadline. An unparsable request is refused with a fixed text.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage

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

# Answers one request; returns whether the connection may be kept, or None if the request failed and
# nothing was sent.
Answers = Callable[[ReceivedRequest], Awaitable[bool | None]]


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


class _NoFlow:
    """The protocol of the bodies that a parser reads, which has no flow to control.

    A parser is given heads alone; one without a body is all of its message.
    """

    def resume_reading(self, *, resume_parser: bool) -> None:
        pass


_NO_FLOW: Final[Any] = _NoFlow()


def _parser(loop: asyncio.AbstractEventLoop) -> HttpRequestParser:
    return HttpRequestParser(
        _NO_FLOW,
        loop,
        HEAD_BYTES_MAX,
        # Only the whole head is limited before it is parsed: a smaller limit here would be answered
        # with 400. Fields and their number are limited by `head_of`.
        max_line_size=HEAD_BYTES_MAX,
        max_field_size=HEAD_BYTES_MAX,
        max_headers=HEAD_BYTES_MAX,
        auto_decompress=False,
    )


def check_aiohttp(installed: str = aiohttp.__version__) -> None:
    """Refuse an aiohttp version whose parser was not tested with this module.

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
    HELD = "a request is answered, and nobody has asked for its body"
    BODY = "the body is received as it comes"
    FED = "all of the request is there"
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
        self.broken = False
        self._terms = terms
        self._limits = terms.limits
        self._welcome = welcome
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._stopped = False  # whether reading from the peer's socket is paused
        self._at = _At.HEAD
        self._parser: HttpRequestParser | None = None  # the parser of the present head
        self._request: ReceivedRequest | None = None
        self._answering: asyncio.Task[None] | None = None
        self._answered = False  # whether the request, and what may follow it, is wanted no more
        self._held = bytearray()
        # The most unprocessed bytes that may be buffered: with a credential, enough to read a usual
        # request at once.
        self._held_max = HELD_BYTES_MAX
        self._last = b""  # the last bytes of this head, to find its empty line across reads
        # The bytes of this head until its first line is complete, less empty lines before it.
        self._line = b""
        # Whether the peer has closed its side, and will send nothing more.
        self._said_all = False
        self._raw = 0  # number of bytes of this head, or of this body
        self._chunks = Chunks()
        # Whether no byte of the next head has come since an answer.
        self._rests = False
        # The time of the loop at which the wait for a head ends; None while no head is awaited.
        self._due: float | None = None
        # One timer for all heads of the connection: it is set again where it runs before `_due`.
        self._deadline: asyncio.TimerHandle | None = None
        # This timer runs while a peer does not read its answer; None while no answer waits so.
        self._unread: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None

    # ---- methods that the socket calls -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline for the first head, or close the connection of an unwanted peer."""
        if not isinstance(transport, asyncio.Transport):
            transport.close()
            return
        self._transport = transport
        opened: socket.socket | None = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.peer = peer_of(transport)
        if self._address is not None:
            self.peer = msgspec.structs.replace(self.peer, address=self._address)
        if not self._welcome(self.peer):
            self.end()
        elif not self._terms.crowd.enter(self):
            self.say(FULL)
            self.end()
        else:
            self._start_clock(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers, and report the end."""
        del exc
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._heed()
        self._terms.crowd.leave(self)
        self.departure.happen()
        if self._request is not None:
            self._request.wake()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes, not larger than what may still be buffered."""
        del sizehint
        return self._terms.window[: self._held_max - len(self._held) or 1]

    def buffer_updated(self, nbytes: int) -> None:
        """Buffer the bytes that arrived, and use as many of them as are wanted now."""
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
        self._unread = self._loop.call_later(self._limits.body_seconds, self.abort)

    def resume_writing(self) -> None:
        """Stop the deadline, because the peer reads again."""
        self._heed()

    # ---- one request -----------------------------------------------------------------------------

    def _refuse(self, answer: bytes) -> None:
        """Send a fixed answer, which does not quote the request, and close the connection."""
        self._at = _At.PAST
        self.say(answer)
        self.end()

    def _receive(self, message: RawRequestMessage) -> None:
        """Have a request answered whose head was parsed."""
        self._due, self._rests = None, False
        self._raw, self._last, self._parser = 0, b"", None
        request = self._request = ReceivedRequest(message, self)
        self._at = _At.FED if request.whole else _At.HELD
        if request.length is None:
            self._chunks = Chunks()
        self._answering = self._loop.create_task(self._answer(request))

    async def _answer(self, request: ReceivedRequest) -> None:
        """Answer a request. When this ends, the answer was sent, or the connection is closing."""
        kept: bool | None = False
        try:
            kept = await self._terms.answers(request)
            if kept is None:
                self.say(INTERNAL)
        finally:
            self._settle(request, kept=bool(kept))

    def _settle(self, request: ReceivedRequest, *, kept: bool) -> None:
        """After an answer, wait for the next request, or drop the rest of an unread body."""
        self.departure = Departure()
        self._answering = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if kept and self._at is _At.FED:
            self._request, self._at, self._rests, self._raw = None, _At.HEAD, True, 0
            self._start_clock(self._limits.idle_seconds)
        elif self._at is _At.FED:
            self.end()
            return
        else:
            # The body is read for a moment more, because the peer could lose the answer if the
            # connection closed at once.
            self._answered = True
            if self._at is _At.HELD:
                request.body_bytes_max = self._limits.body_bytes_max
                self._at = _At.BODY
            self._loop.call_later(LINGER_S, self.end)
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
        if principal != self.principal:
            self._terms.crowd.recognise(self, principal)
            self.principal, self._held_max = principal, READ_BYTES_MAX

    def open_body(self) -> None:
        """Begin to receive the body of the current request."""
        if self._at is _At.HELD:
            self._at = _At.BODY
            self._pump()

    def say(self, raw: bytes) -> None:
        """Write bytes, unless the connection is closing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(raw)

    async def send(self, raw: bytes) -> bool:
        """Write bytes of an answer, and wait while the peer reads too slowly; False if it left."""
        self.say(raw)
        if self._unread is not None:
            self._drained = self._loop.create_future()
            await self._drained
        return self._transport is not None

    def end(self) -> None:
        """Close the connection after the bytes that are already written were sent.

        A peer that does not read them within the time of a body loses them.
        """
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            if self.unread_bytes:
                self._loop.call_later(self._limits.body_seconds, self.abort)

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    async def shutdown(self, drain_s: float) -> None:
        """Let the current request finish within this time, then close the connection."""
        if self._answering is not None:
            _, late = await asyncio.wait((self._answering,), timeout=drain_s)
            for one in late:
                one.cancel()
                await asyncio.wait((one,), timeout=drain_s)
        self.end()

    # ---- bytes of a request ----------------------------------------------------------------------

    def _pump(self) -> None:
        """Use the buffered bytes as far as they are wanted now, and keep the rest.

        Close the connection if they were the last ones.
        """
        while self._held:
            if self._at is _At.HEAD:
                self._feed_head()
            elif self._at is _At.BODY and self._request is not None:
                self._feed_body(self._request)
            elif self._at is _At.PAST:
                self._held.clear()
            else:
                break
        if self._stopped or len(self._held) >= self._held_max:
            self._regulate()
        if self._said_all:
            self._hear_out()

    def _feed_head(self) -> None:
        if not self._raw:
            while self._held.startswith(b"\r\n"):
                del self._held[:2]
            if not self._held:
                return
        known = len(self._last)
        end = (self._last + self._held).find(_EMPTY_LINE)
        ended = end >= 0
        part = self._take(end + len(_EMPTY_LINE) - known if ended else len(self._held))
        self._last = (self._last + part)[-len(_EMPTY_LINE) + 1 :]
        if not self._raw or b"\r\n" not in self._line:
            self._line = (self._line + part if self._raw else part).lstrip(b"\r\n")
        self._raw += len(part)
        if self._raw > HEAD_BYTES_MAX:
            self._refuse(HEAD_TOO_LARGE if b"\r\n" in self._line else TARGET_TOO_LONG)
            return
        # aiohttp's parser accepts other protocols of this form (RTSP, ICE), and waits silently
        # after the preface of HTTP/2.
        messages = self._parsed(part) if may_begin(self._line) else None
        if messages is None or len(messages) != ended:
            # It is no head, or aiohttp finds another end of it.
            self._refuse(MALFORMED)
        elif ended:
            self._receive(messages[0][0])
        elif self._rests:
            self._rests = False
            self._start_clock(self._limits.header_seconds)

    def _parsed(self, part: bytes) -> Sequence[tuple[RawRequestMessage, object]] | None:
        """What aiohttp's parser finds in the next bytes of a head; None for an error."""
        if self._parser is None:
            self._parser = _parser(self._loop)
        try:
            return self._parser.feed_data(part)[0]
        except HttpProcessingError:
            return None

    def _feed_body(self, request: ReceivedRequest) -> None:
        if request.length is None:
            try:
                taken, part = self._chunks.through(bytes(self._held))
            except Unframed:
                self._break(request)
                return
            self._raw += len(self._take(taken))
            whole = self._chunks.ended
        else:
            part = self._take(request.length - self._raw)
            self._raw += len(part)
            whole = self._raw == request.length
        if self._raw > FRAMING_BYTES_MAX + FRAMING_PER_BYTE * request.body_bytes_max:
            self._break(request)
            return
        if whole:
            self._at = _At.FED
        if not self._answered:
            request.receive(part, whole=whole)
        elif whole:
            self.end()

    def _break(self, request: ReceivedRequest) -> None:
        self._at = _At.PAST
        self.broken = True
        request.wake()

    def _take(self, count: int) -> bytes:
        if count >= len(self._held):
            part = bytes(self._held)
            self._held.clear()
            return part
        part = bytes(self._held[:count])
        del self._held[:count]
        return part

    def _hear_out(self) -> None:
        """Close the connection of a peer that sends no more, once its requests are answered.

        A peer that left looks the same from here, so `departure` happens, which ends a stream.
        """
        if self._at is _At.FED:
            # The departure is reported in the next turn of the event loop, after the reader of the
            # body has run.
            self._loop.call_soon(self.departure.happen)
        elif self._at is not _At.HELD and not self.broken:
            self.end()

    def _regulate(self) -> None:
        """Pause reading from the socket while the buffer is full."""
        ahead = len(self._held) >= self._held_max
        transport = self._transport
        if ahead is self._stopped or transport is None or transport.is_closing() or self._said_all:
            return
        self._stopped = ahead
        if ahead:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _start_clock(self, seconds: float) -> None:
        """Give the peer this time for its next head, or to begin one."""
        due = self._due = self._loop.time() + seconds
        if self._deadline is not None and self._deadline.when() > due:
            self._deadline.cancel()
            self._deadline = None
        if self._deadline is None:
            self._deadline = self._loop.call_at(due, self._late)

    def _late(self) -> None:
        timer, self._deadline = self._deadline, None
        if self._due is None or timer is None:
            return  # no head is awaited
        if timer.when() < self._due:
            # The head that the timer was set for is answered, and another one is awaited.
            self._deadline = self._loop.call_at(self._due, self._late)
            return
        if not self._rests:
            self.say(LATE)
        self.end()

    def _heed(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
