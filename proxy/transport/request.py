"""One request as the parser accepted it, and the bytes of its answer.

aiohttp parses, and stops a peer that sends faster than it is read. Its own request, response and
writer objects around that took a third of what a small write costs; an answer that is whole needs
none of them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp.helpers import rfc822_formatted_time

from policy.verdict import InvariantBroken

if TYPE_CHECKING:
    import asyncio

    from aiohttp.http_parser import RawRequestMessage
    from aiohttp.streams import StreamReader
    from aiohttp.web_request import BaseRequest
    from multidict import CIMultiDictProxy

    from proxy.seams.operation import HttpReply
    from proxy.transport.auth import Peer
    from proxy.transport.exchange import Departure

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
# RFC 9110, section 15: these never have a body.
_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT.value, HTTPStatus.NOT_MODIFIED.value})
_HTTP_11: Final = (1, 1)
_SPOKEN: Final = frozenset({(1, 0), _HTTP_11})


class Connects(Protocol):
    """The connection that a request came over."""

    departure: Departure
    peer: Peer | None

    @property
    def transport(self) -> asyncio.Transport | None:
        """None once the peer is gone."""
        ...

    def request_of(self, message: RawRequestMessage, content: StreamReader) -> BaseRequest:
        """A request as aiohttp makes it."""
        ...


class Received:
    """A request whose head is parsed; its body may still be on its way. Event loop only."""

    __slots__ = ("_message", "connection", "content", "headers", "method", "raw_path")

    def __init__(
        self, message: RawRequestMessage, content: StreamReader, connection: Connects
    ) -> None:
        self._message = message
        self.content = content
        self.connection = connection
        self.method: str = message.method
        self.raw_path: str = message.path
        self.headers: CIMultiDictProxy[str] = message.headers

    @property
    def framed(self) -> bool:
        """Whether every reader finds the same end of it: HTTP/1.0 or 1.1, and chunks on 1.1 alone.

        RFC 9112, 6.1: a coding on HTTP/1.0 is treated as faulty framing, and the connection ends.
        """
        version = tuple(self._message.version)
        codings = self.headers.getall("Transfer-Encoding", [])
        if version not in _SPOKEN:
            return False
        return not codings or (version == _HTTP_11 and [*map(str.lower, codings)] == ["chunked"])

    @property
    def transport(self) -> asyncio.Transport | None:
        """Where the answer goes; None once the peer is gone."""
        return self.connection.transport

    @property
    def stays(self) -> bool:
        """Whether the peer wants to keep the connection."""
        return self.framed and not self._message.should_close

    def in_pieces(self) -> BaseRequest:
        """The same request as aiohttp's, for an answer that comes in pieces."""
        return self.connection.request_of(self._message, self.content)

    def rendered(self, reply: HttpReply, headers: dict[str, str], *, stays: bool) -> bytes:
        """The answer's bytes. `stays` says whether the connection is kept behind it.

        Raises:
            InvariantBroken: A header or the phrase holds a line break: it would be another header.
        """
        version = tuple(self._message.version)
        version = version if version in _SPOKEN else _HTTP_11
        status = reply.status
        phrase = reply.phrase if reply.phrase is not None else _PHRASES.get(status, "")
        lines = [f"HTTP/{version[0]}.{version[1]} {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append(f"Date: {rfc822_formatted_time()}")
        bodiless = status in _BODILESS
        if not bodiless:
            lines.append(f"Content-Length: {len(reply.body)}")
        if not stays:
            lines.append("Connection: close")
        elif version < _HTTP_11:
            lines.append("Connection: keep-alive")
        head = "\r\n".join(lines)
        breaks = len(lines) - 1
        if head.count("\n") != breaks or head.count("\r") != breaks or "\0" in head:
            raise InvariantBroken("a header of an answer holds a line break")
        if bodiless or self.method == "HEAD":
            return f"{head}\r\n\r\n".encode()
        return b"".join((head.encode(), b"\r\n\r\n", reply.body))
