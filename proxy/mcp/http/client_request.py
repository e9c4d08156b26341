"""One HTTP request of an MCP client, and its answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from proxy.dialects.mcp.message import Era, RequestId
from proxy.dialects.sse import PING, EventFields

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
QUEUE_BYTES_MAX: Final = 1024 * 1024
# Seconds between two pings. Proxies and clients close a connection that is silent for longer, and a
# ping that fails shows that the other end is dead.
PING_SECONDS: Final = 15.0


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer; if `body` is None, the answer's events follow."""

    status: int
    headers: dict[str, str] = {}
    content_type: str = JSON
    body: bytes | None = None


class Exchange:
    """One request and its answer: a body, or events in the order they are put. Event loop only.

    `request_id` is None for a stream that a client opened to listen, and for a message that needs
    no answer.
    """

    def __init__(
        self, request_id: RequestId | None, headers: dict[str, str], era: Era = Era.HANDSHAKE
    ) -> None:
        """`headers` are the client's headers that may be forwarded upstream."""
        self.request_id = request_id
        self.era = era
        self.headers = headers
        self.head: asyncio.Future[AnswerHead] = asyncio.get_running_loop().create_future()
        # The status of the server's answer, and those of its headers that are forwarded.
        self.status = 200
        self.passed: dict[str, str] = {}
        # True if the answer's events had ids, so that a client which lost the stream may ask for
        # the rest on another stream.
        self.resumable = False
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._over = False
        self.left = False  # whether the client left before the end of the answer
        self._told: list[Callable[[], object]] = []

    @property
    def over(self) -> bool:
        """Whether the exchange accepts no further events."""
        return self._over or self.left

    def answer(self, body: bytes, *, status: int | None = None, content_type: str = JSON) -> None:
        """Answer with a body and no events, and end the exchange. Only the first answer counts."""
        self._begin(
            AnswerHead(
                status=self.status if status is None else status,
                headers=self.passed,
                content_type=content_type,
                body=body,
            )
        )
        self.finish()

    def stream(self) -> None:
        """Begin to answer with events, unless an answer has begun already."""
        self._begin(AnswerHead(status=200, headers=self.passed, content_type=EVENT_STREAM))

    @property
    def streams(self) -> bool:
        """Whether the exchange is answered with events."""
        return self.head.done() and not self.head.cancelled() and self.head.result().body is None

    async def put(self, event: EventFields) -> None:
        """Queue an event once there is room; once the exchange is over, events are dropped."""
        self.stream()
        await self._room.wait()
        if self.over:
            return
        encoded = event.encode()
        self._queue.append(encoded)
        self._bytes += len(encoded)
        if self._bytes >= QUEUE_BYTES_MAX:
            self._room.clear()
        self._arrived.set()

    def finish(self) -> None:
        """End the answer; queued events are still sent."""
        if not self.head.done():
            self.stream()
        if not self._over:
            self._over = True
            self._tell()

    def leave(self) -> None:
        """Note that the client has left, and drop the queued events."""
        if not self.over:
            self.left = True
            self._queue.clear()
            self._begin(AnswerHead(status=200, body=b""))
            self._tell()
        self._room.set()

    def when_over(self, told: Callable[[], object]) -> None:
        """Call `told` when the exchange ends, also because the client leaves.

        `told` is called at once if the exchange is over, and must not raise.
        """
        if self.over:
            told()
        else:
            self._told.append(told)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the answer's events as bytes, with a ping after a long silence."""
        while True:
            while self._queue:
                piece = self._queue.popleft()
                self._bytes -= len(piece)
                if self._bytes < QUEUE_BYTES_MAX:
                    self._room.set()
                yield piece
            if self.over:
                return
            self._arrived.clear()
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                yield PING

    async def aclose(self) -> None:
        """Note that the client no longer reads, and drop the queued events."""
        self.leave()
        self._queue.clear()

    def _begin(self, head: AnswerHead) -> None:
        if not self.head.done():
            self.head.set_result(head)

    def _tell(self) -> None:
        self._arrived.set()
        self._room.set()
        told, self._told = self._told, []
        for one in told:
            one()


class ArrivedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange on which a server's message arrived, with the fields of the message's event."""

    exchange: Exchange
    event: EventFields | None = None


def via_of(exchange: Exchange | None, event: EventFields | None = None) -> ArrivedMessage | None:
    """The `via` of a server's message that arrived on an exchange; None if there is none."""
    return None if exchange is None else ArrivedMessage(exchange=exchange, event=event)


def exchange_of(via: object) -> Exchange | None:
    """The exchange that a relay's `via` refers to; None if `via` is None."""
    if isinstance(via, ArrivedMessage):
        return via.exchange
    return via if isinstance(via, Exchange) else None
