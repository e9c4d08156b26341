"""One request with a parsed head, and the bytes that answer it, whole or streamed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp.http import RawRequestMessage
from multidict import CIMultiDictProxy

from policy.verdict import InvariantBroken
from proxy.seams.operation import HttpReply
from proxy.transport.auth import Peer
from proxy.transport.exchange import Departure

_HTTP_11: Final = (1, 1)
# Statuses whose answers never have a body (RFC 9110, section 15).
_BODILESS: Final = frozenset({204, 304})
_BREAK: Final = re.compile("[\r\n\0]")
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
LAST_CHUNK: Final = b"0\r\n\r\n"


class Connects(Protocol):
    """The connection of a request, as the answering code uses it."""

    departure: Departure
    # Whether the body turned out to be broken.
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
        """Write bytes, unless the connection is closing."""
        ...

    def send(self, raw: bytes) -> Awaitable[bool]:
        """Write bytes of an answer, and wait while the peer reads too slowly; False if it left."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class ReceivedRequest:
    """A request with a parsed head; its body is received on demand. Event loop only."""

    __slots__ = (
        "_arriving",
        "_message",
        "_over",
        "_pieces",
        "bodiless",
        "body_bytes_max",
        "connection",
        "framed",
        "headers",
        "http_11",
        "length",
        "method",
        "raw_path",
        "size",
        "whole",
    )

    def __init__(self, message: RawRequestMessage, connection: Connects) -> None:
        self._message = message
        self.connection = connection
        self.method: str = message.method
        self.raw_path: str = message.path
        self.headers: CIMultiDictProxy[str] = message.headers
        codings = self.headers.getall("Transfer-Encoding", None)
        # The declared length of the body; None for a chunked one.
        self.length = None if codings else int(self.headers.get("Content-Length", 0))
        # Whether all parsers find the same end of the body: it has no transfer coding, or only
        # `chunked`, on HTTP/1.1 (RFC 9112, 6.1: on HTTP/1.0 a transfer coding is faulty framing).
        self.http_11 = message.version == _HTTP_11
        self.framed = not codings or (self.http_11 and [*map(str.lower, codings)] == ["chunked"])
        # The largest body that is accepted; chunk framing is limited in proportion to it.
        self.body_bytes_max = 0
        self.whole = self.length == 0
        self.size = 0  # the number of bytes of the body so far
        self._pieces: list[bytes] = []
        self._over = False
        self.bodiless = False  # whether no piece of a streamed answer is sent
        self._arriving: asyncio.Future[None] | None = None

    @property
    def keep_alive(self) -> bool:
        """Whether the peer wants to keep the connection."""
        return not self._message.should_close

    @property
    def stays(self) -> bool:
        """Whether the connection can be kept after this request, as no later byte is ambiguous."""
        return self.framed and self.keep_alive and not self.connection.garbled

    def receive(self, piece: bytes, *, whole: bool) -> None:
        """Take the next bytes of the body; with `whole`, the last ones."""
        self._pieces.append(piece)
        self.size += len(piece)
        self.whole = whole
        if whole or self.size > self.body_bytes_max:
            self.wake()

    def wake(self) -> None:
        """End the wait in `arrival`: the body is whole or too large, or no more of it comes."""
        self._over = True
        if self._arriving is not None and not self._arriving.done():
            self._arriving.set_result(None)

    async def arrival(self) -> None:
        """Wait until the body is whole or too large, or until no more of it comes."""
        if not self._over:
            self._arriving = asyncio.get_running_loop().create_future()
            await self._arriving

    def body(self) -> bytes:
        """The bytes of the body that have arrived; each is returned once."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def answer(
        self, reply: HttpReply, headers: dict[str, str], now_ms: int, *, stays: bool
    ) -> bytes:
        """A whole answer; without `stays` it announces that the connection closes.

        Raises:
            InvariantBroken: A header or the phrase contains a line break, which would begin another
                header.
        """
        # The length of a body that a relayed HEAD asks about is unknown, and not 0.
        if reply.status in _BODILESS or (self.method == "HEAD" and not reply.body):
            return self._head(reply, headers, now_ms, stays=stays)
        headers["Content-Length"] = str(len(reply.body))
        head = self._head(reply, headers, now_ms, stays=stays)
        return head if self.method == "HEAD" else head + reply.body

    def stream_head(
        self, reply: HttpReply, headers: dict[str, str], now_ms: int, *, stays: bool
    ) -> bytes:
        """The head of an answer in pieces; without `stays` it announces that the connection closes.

        Raises what `answer` raises.
        """
        self.bodiless = self.method == "HEAD" or reply.status in _BODILESS
        if self.http_11 and not self.bodiless:
            headers["Transfer-Encoding"] = "chunked"
        return self._head(reply, headers, now_ms, stays=stays)

    def _head(
        self, reply: HttpReply, headers: dict[str, str], now_ms: int, *, stays: bool
    ) -> bytes:
        phrase = _PHRASES.get(reply.status, "") if reply.phrase is None else reply.phrase
        headers["Date"] = _date(now_ms // 1_000)
        if not stays:
            headers["Connection"] = "close"
        elif not self.http_11:
            headers["Connection"] = "keep-alive"
        lines = [f"HTTP/1.{int(self.http_11)} {reply.status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if _BREAK.search("".join(lines)):
            raise InvariantBroken("a header of an answer holds a line break")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk_of(piece: bytes) -> bytes:
    """One piece of an answer, framed as a chunk; nothing for an empty one.

    A chunk without bytes would end the answer, and what follows would be read as another answer.
    """
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


@lru_cache(maxsize=4)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)
