"""One request with a parsed head, and the responses that answer it, whole or streamed."""

from __future__ import annotations

import re
from typing import Final, Protocol

from aiohttp import StreamReader, web
from multidict import CIMultiDictProxy

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.auth import Peer
from proxy.transport.exchange import Departure

_HTTP_11: Final = (1, 1)
# Statuses whose answers never have a body (RFC 9110, section 15).
_BODILESS: Final = frozenset({204, 304})
_BREAK: Final = re.compile("[\r\n\0]")


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
    if _BREAK.search("".join((reply.phrase or "", *headers, *headers.values()))):
        raise InvariantBroken("a header of an answer holds a line break")
