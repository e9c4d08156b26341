"""One request with a parsed head, and the responses that answer it, whole or streamed."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, StreamReader, web
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDictProxy

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.auth import Peer
from proxy.transport.exchange import Departure

# Statuses whose answers never have a body (RFC 9110, section 15).
_BODILESS: Final = frozenset({204, 304})
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
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
    def unread_bytes(self) -> int:
        """The number of bytes of answers that the peer has not read."""
        ...

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


class WholeAnswer(web.StreamResponse):
    """An answer as the bytes of head and body. aiohttp takes it for one that is sent already."""

    # aiohttp's own response would make the same bytes with a map of headers and a writer.
    _eof_sent = True

    def __init__(self, raw: bytes, *, stays: bool) -> None:
        """Without `stays` the connection closes after the answer."""
        self.raw = raw
        self._keep_alive = stays


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
        "version",
    )

    def __init__(self, request: web.BaseRequest, connection: Connects) -> None:
        self._request = request
        self.connection = connection
        self.content: StreamReader = request.content
        self.method: str = request.method
        self.version = request.version
        self.raw_path: str = request.raw_path
        self.headers: CIMultiDictProxy[str] = request.headers
        codings = self.headers.getall("Transfer-Encoding", None)
        # The declared length of the body; None for a chunked one.
        self.length = None if codings else request.content_length or 0
        # Whether all parsers find the same end of the body: it has no transfer coding, or only
        # `chunked`, on HTTP/1.1 (RFC 9112, 6.1: on HTTP/1.0 a transfer coding is faulty framing).
        self.framed = not codings or (
            request.version == HttpVersion11 and [*map(str.lower, codings)] == ["chunked"]
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

    async def send(self, answer: WholeAnswer) -> None:
        """Write a whole answer; return when the peer has read enough for another one."""
        self.connection.say(answer.raw)
        if self.connection.unread_bytes:
            try:
                await self._request.writer.drain()
            except ConnectionError:
                self.connection.abort()

    async def begin(self, response: web.StreamResponse) -> None:
        """Write the head of a streamed answer.

        Raises:
            ConnectionError: The peer is gone.
        """
        await response.prepare(self._request)


def response_of(
    reply: HttpReply,
    headers: dict[str, str],
    *,
    stays: bool,
    version: HttpVersion = HttpVersion11,
    method: str = "GET",
) -> WholeAnswer:
    """The answer with a reply's whole body; without `stays` the connection closes after it.

    `version` and `method` are the request's. The headers of the connection and the date are added
    to `headers`.

    Raises:
        InvariantBroken: A header or the phrase contains a line break, which would begin another
            header.
    """
    _check_lines(reply, headers)
    status, body = reply.status, reply.body
    if status in _BODILESS:
        body = b""
    else:
        headers["Content-Length"] = str(len(body))
    headers["Date"] = rfc822_formatted_time()
    # Connections are kept without a header on HTTP/1.1, and closed without one on HTTP/1.0.
    if stays is (version == HttpVersion10):
        headers["Connection"] = "keep-alive" if stays else "close"
    phrase = _PHRASES.get(status, "") if reply.phrase is None else reply.phrase
    head = [f"HTTP/{version.major}.{version.minor} {status} {phrase}"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    # Half a character, which bytes that are no UTF-8 can become, is left out.
    raw = "\r\n".join([*head, "\r\n"]).encode(errors="ignore")
    return WholeAnswer(raw if method == "HEAD" else raw + body, stays=stays)


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
