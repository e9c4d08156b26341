"""One request with a parsed head, and the responses that answer it, whole or streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol

from aiohttp import StreamReader, web
from multidict import CIMultiDictProxy

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.auth import Peer
from proxy.transport.exchange import Departure
from proxy.transport.fixed_answers import MALFORMED

_HTTP_11: Final = (1, 1)
# Statuses whose answers never have a body (RFC 9110, section 15).
_BODILESS: Final = frozenset({204, 304})
_BREAKS: Final = "\r\n\0"


class Connects(Protocol):
    """The connection of a request, as the answering code uses it."""

    departure: Departure
    # `breakage` happens when the body turns out to be broken; `broken` is True from then on.
    breakage: Departure
    broken: bool
    peer: Peer
    principal: str | None

    @property
    def garbled(self) -> bool:
        """Whether the bytes after a complete request cannot begin another request."""
        ...

    def enter(self, principal: str) -> None:
        """Count the connection for this principal, whose credential was checked."""
        ...

    def open_body(self) -> None:
        """Begin to receive the request's body, which is held back until then."""
        ...

    def say(self, raw: bytes) -> None:
        """Write bytes that do not come from a front, such as a fixed refusal."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class ReceivedRequest:
    """A request with a parsed head; its body is read on demand. Event loop only."""

    __slots__ = (
        "_request",
        "body_bytes_max",
        "connection",
        "content",
        "framed",
        "headers",
        "length",
        "method",
        "raw_path",
    )

    def __init__(self, request: web.BaseRequest, connection: Connects) -> None:
        self._request = request
        self.connection = connection
        self.content: StreamReader = request.content
        self.method: str = request.method
        self.raw_path: str = request.raw_path
        self.headers: CIMultiDictProxy[str] = request.headers
        codings = self.headers.getall("Transfer-Encoding", None)
        # The declared length of the body; None for a chunked one.
        self.length = None if codings else request.content_length or 0
        # Whether all parsers find the same end of the body: it has no transfer coding, or only
        # `chunked`, on HTTP/1.1 (RFC 9112, 6.1: on HTTP/1.0 a transfer coding is faulty framing).
        self.framed = not codings or (
            tuple(request.version) == _HTTP_11 and [*map(str.lower, codings)] == ["chunked"]
        )
        # The largest body that is accepted; chunk framing is limited in proportion to it.
        self.body_bytes_max = 0

    @property
    def keep_alive(self) -> bool:
        """Whether the peer wants to keep the connection."""
        return self._request.keep_alive

    @property
    def stays(self) -> bool:
        """Whether the connection can be kept after this request, as no later byte is ambiguous."""
        return self.framed and self.keep_alive and not self.connection.garbled

    async def send(self, response: web.StreamResponse) -> None:
        """Write a whole answer; if the peer has left, close the connection."""
        try:
            await response.prepare(self._request)
            await response.write_eof()
        except ConnectionError:
            self.connection.abort()

    async def begin(self, response: web.StreamResponse) -> None:
        """Write the head of a streamed answer.

        Raises:
            ConnectionError: The peer is gone.
        """
        await response.prepare(self._request)


def response_of(reply: HttpReply, headers: dict[str, str], *, stays: bool) -> web.Response:
    """The response with a reply's whole body; without `stays` the connection closes after it.

    Raises:
        InvariantBroken: A header or the phrase contains a line break, which would begin another
            header.
    """
    _check_lines(reply, headers)
    body = b"" if reply.status in _BODILESS else reply.body
    response = web.Response(body=body, status=reply.status, reason=reply.phrase, headers=headers)
    if not stays:
        response.force_close()
    return response


def stream_of(reply: HttpReply, headers: dict[str, str], *, stays: bool) -> web.StreamResponse:
    """The head of a streamed response; without `stays` the connection closes after it.

    Raises:
        InvariantBroken: A header or the phrase contains a line break.
    """
    _check_lines(reply, headers)
    response = web.StreamResponse(status=reply.status, reason=reply.phrase, headers=headers)
    if not stays:
        response.force_close()
    return response


def _check_lines(reply: HttpReply, headers: dict[str, str]) -> None:
    text = "".join((reply.phrase or "", *headers, *headers.values()))
    if any(one in text for one in _BREAKS):
        raise InvariantBroken("a header of an answer holds a line break")


class ResponseConnection(Protocol):
    """The connection that a `ResponseWriter` writes to."""

    @property
    def speaking(self) -> bool:
        """Whether the bytes that aiohttp writes now are an answer of a front, not its own error."""
        ...

    def refuse(self, answer: bytes) -> None:
        """Send a fixed answer, and close the connection."""
        ...

    def pause(self) -> None:
        """Stop handing bytes of the body to aiohttp for now, because it cannot take more."""
        ...

    def resume(self) -> None:
        """Hand bytes of the body to aiohttp again."""
        ...


class ResponseWriter(asyncio.Transport):
    """Passes the answers of fronts to the socket. Event loop only.

    Bytes that aiohttp writes between two answers are its own error text for an unparsable request,
    which quotes the request. The connection writes a fixed answer instead.
    """

    def __init__(self, real: asyncio.Transport, connection: ResponseConnection) -> None:
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
