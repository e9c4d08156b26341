"""One relay with its two ends: the client's HTTP exchanges, and a server behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Protocol

import msgspec

from proxy.dialects.mcp.heads import status_of_error
from proxy.dialects.mcp.message import (
    CANCELLED,
    Era,
    Message,
    MessageKind,
    Object,
    RequestId,
    encode,
)
from proxy.dialects.sse import EventFields
from proxy.mcp.http.client_request import ArrivedMessage, Exchange, exchange_of
from proxy.mcp.relay import Deliver, Relay, Side
from proxy.transport.responses import attempt

PASS_ON_SECONDS: Final = 10.0
# A call with its stream ends after so many seconds, so that a silent server does not hold it for
# ever.
CALL_SECONDS: Final = 900.0
# The one method whose stream stays open after the answer began: the server's notifications come on
# it.
LISTEN: Final = "subscriptions/listen"


class OpenRelay(Protocol):
    """Makes the relay that a line (a relay with its connections) runs."""

    def __call__(self, deliver: Deliver) -> Relay:
        """Make a relay that is not started yet."""
        ...


class LineParts(msgspec.Struct, frozen=True, kw_only=True):
    """What every relay over HTTP needs, whatever kind of server is behind it."""

    open_relay: OpenRelay
    halt: Callable[[], None]
    now_s: Callable[[], float]
    call_seconds: float = CALL_SECONDS


class RelayLine:
    """One relay together with its connections to client and server. Event loop only.

    In the handshake era it is one MCP session. In the stateless era it serves one exchange at a
    time, because there an id says nothing outside of its own exchange.
    """

    def __init__(self, parts: LineParts) -> None:
        self._parts = parts
        self.relay: Relay = parts.open_relay(self.deliver)
        self.session_id: str | None = None
        self.used_s = parts.now_s()
        self._closing = asyncio.Event()
        self._started = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._asked: dict[RequestId, Exchange] = {}
        self._listening: list[Exchange] = []

    async def run(self) -> None:
        """Serve until `close`; each request that still waits is then answered with an error."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                async with self.relay:
                    self._started.set()
                    await self._closing.wait()
                    await self._hang_up()
                    await self.relay.lost()
        finally:
            self._tasks = None
            self._closing.set()
            self._started.set()
            for exchange in (*self._asked.values(), *self._listening):
                exchange.finish()

    async def started(self) -> None:
        """Wait until the line is ready to pass messages on."""
        await self._started.wait()

    def close(self) -> None:
        """Make `run` end."""
        self._closing.set()

    @property
    def closed(self) -> bool:
        """Whether the line accepts no more messages."""
        return self._closing.is_set()

    @property
    def busy(self) -> bool:
        """Whether a client waits for an answer on this line, or keeps a stream open to listen."""
        return any(not one.over for one in (*self._asked.values(), *self._listening))

    @property
    def listeners(self) -> int:
        """The number of clients' streams that stay open to hear the server."""
        return len(self._listening)

    async def take(self, raw: bytes, message: Message, exchange: Exchange) -> None:
        """Take one message of the client, and pass it to the relay."""
        self.used_s = self._parts.now_s()
        if message.kind is MessageKind.REQUEST and message.request_id is not None:
            self._keep(message.request_id, exchange, lasts=message.method == LISTEN)
        taken_back = self._asked.get(message.cancels) if message.cancels is not None else None
        await self.relay.from_client(raw, exchange)
        if message.kind is not MessageKind.REQUEST:
            await self._passed_on()
        if taken_back is not None:
            # A cancelled request gets no answer.
            taken_back.finish()

    async def _passed_on(self) -> None:
        """Wait until a message that needs no answer was sent on.

        Only then is it called accepted.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PASS_ON_SECONDS):
                await self.relay.flushed(Side.CLIENT)

    async def take_back(self, request_id: RequestId, exchange: Exchange) -> None:
        """Cancel the call of an exchange that its client closed, as the stateless era does it."""
        body: Object = {
            "jsonrpc": "2.0",
            "method": CANCELLED,
            "params": {"requestId": request_id, "reason": "the client closed the stream"},
        }
        await self.relay.from_client(encode(body), exchange)
        await self._passed_on()

    def listen(self, exchange: Exchange) -> None:
        """Use this exchange for messages that belong to no call."""
        self._listening.append(exchange)
        exchange.when_over(lambda: self._listening.remove(exchange))

    async def deliver(self, side: Side, raw: bytes, message: Message, via: object) -> None:
        """Send one message to a side, for the relay."""
        if side is Side.SERVER:
            await self.to_server(raw, message, via)
            return
        exchange = exchange_of(via) or self._somewhere()
        if exchange is None or exchange.over:
            return
        event = via.event if isinstance(via, ArrivedMessage) else None
        last = _is_last(message, exchange)
        if last and not exchange.streams:
            _answer(exchange, raw, message)
            return
        await exchange.put(
            EventFields(data=raw)
            if event is None
            else EventFields(data=raw, event_id=event.event_id, retry=event.retry)
        )
        if last:
            exchange.finish()

    async def to_server(self, raw: bytes, message: Message, via: object) -> None:
        """Send one message to the server behind; each kind of line does so in its own way."""
        raise NotImplementedError

    async def _hang_up(self) -> None:
        """Disconnect from the server; nothing more is read from it."""
        raise NotImplementedError

    def spawn(self, work: Coroutine[None, None, object]) -> None:
        """Run a task while the line is open; its exception ends nothing else."""
        if self._tasks is None:
            work.close()
            return
        self._tasks.create_task(self._attempted(work))

    async def _attempted(self, work: Awaitable[object]) -> None:
        await attempt(work, self._parts.halt)

    def _keep(self, request_id: RequestId, exchange: Exchange, *, lasts: bool) -> None:
        if request_id in self._asked:
            return
        self._asked[request_id] = exchange
        exchange.when_over(lambda: self._asked.pop(request_id, None))
        if not lasts:
            self._limit(request_id, exchange, self._parts.call_seconds)

    def _limit(self, request_id: RequestId, exchange: Exchange, seconds: float) -> None:
        """Limit how long the server may take for a call.

        The time for the gate's verdict is not counted.
        """

        def too_late() -> None:
            self.spawn(self.relay.lost(request_id))
            if not exchange.over:
                self._limit(request_id, exchange, PASS_ON_SECONDS)

        late = asyncio.get_running_loop().call_later(seconds, too_late)
        exchange.when_over(late.cancel)

    def _somewhere(self) -> Exchange | None:
        """The stream for a message that belongs to no call: a listener's, or the oldest call's."""
        for exchange in (*self._listening, *self._asked.values()):
            if not exchange.over:
                return exchange
        return None


def _is_last(message: Message, exchange: Exchange) -> bool:
    """Whether this message ends the exchange.

    An error without an id counts too: the exchange has one request, so it can belong to no other.
    """
    if exchange.request_id is None or message.kind not in (MessageKind.RESULT, MessageKind.ERROR):
        return False
    return message.request_id in (exchange.request_id, None)


def _answer(exchange: Exchange, raw: bytes, message: Message) -> None:
    """Answer with one message. Its status is the server's, or the one the stateless era defines."""
    status = exchange.status
    error = message.body.get("error")
    if status == 200 and isinstance(error, dict) and exchange.era is Era.STATELESS:  # noqa: PLR2004
        status = status_of_error(error.get("code"))
    exchange.answer(raw, status=status)
