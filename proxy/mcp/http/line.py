"""One relay with its two ends: the client's HTTP exchanges, and an upstream server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias

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
# Seconds after which a call ends with its stream, so that a silent server does not hold them open.
CALL_SECONDS: Final = 900.0
# The one method whose stream has no time limit, because the server's notifications arrive on it.
LISTEN: Final = "subscriptions/listen"


OpenRelay: TypeAlias = Callable[[Deliver], Relay]
"""Makes the relay of a `RelayLine`, which is not started yet."""


class LineParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that every relay over HTTP needs, whatever kind of server is upstream."""

    open_relay: OpenRelay
    halt: Callable[[], None]
    now_s: Callable[[], float]
    call_seconds: float = CALL_SECONDS


class RelayLine:
    """One relay together with its connections to client and server. Event loop only.

    In the handshake era it is one MCP session. In the stateless era it serves one exchange at a
    time, because request ids are unique only within an exchange there.
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
        """Serve until `close`; then answer each request that still waits with an error."""
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
        """Wait until the relay is ready to forward messages, or has ended."""
        await self._started.wait()

    def close(self) -> None:
        """Close the relay, so that `run` ends and waiting requests are answered with an error."""
        self._closing.set()

    @property
    def closed(self) -> bool:
        """Whether the relay accepts no more messages."""
        return self._closing.is_set()

    @property
    def busy(self) -> bool:
        """Whether a client waits for an answer here, or keeps a stream open to listen."""
        return any(not one.over for one in (*self._asked.values(), *self._listening))

    @property
    def listeners(self) -> int:
        """The number of open streams that belong to no call and take the server's own messages."""
        return len(self._listening)

    async def take(self, message: Message, exchange: Exchange) -> None:
        """Pass one message of the client to the relay, and route its answer to `exchange`."""
        self.used_s = self._parts.now_s()
        if message.kind is MessageKind.REQUEST and message.request_id is not None:
            self._keep(message.request_id, exchange, lasts=message.method == LISTEN)
        taken_back = self._asked.get(message.cancels) if message.cancels is not None else None
        await self.relay.from_client(message, exchange)
        if message.kind is not MessageKind.REQUEST:
            await self._passed_on()
        if taken_back is not None:
            # A cancelled request gets no answer.
            taken_back.finish()

    async def _passed_on(self) -> None:
        """Wait until a message that needs no answer was forwarded, `PASS_ON_SECONDS` at most.

        The HTTP request is reported as accepted only after that.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PASS_ON_SECONDS):
                await self.relay.flushed(Side.CLIENT)

    async def take_back(self, request_id: RequestId, exchange: Exchange) -> None:
        """Cancel the call of an exchange that the client closed (stateless era)."""
        body: Object = {
            "jsonrpc": "2.0",
            "method": CANCELLED,
            "params": {"requestId": request_id, "reason": "the client closed the stream"},
        }
        await self.relay.from_client(encode(body), exchange)
        await self._passed_on()

    def listen(self, exchange: Exchange) -> None:
        """Use an exchange for messages of the server that belong to no call."""
        self._listening.append(exchange)
        exchange.when_over(lambda: self._listening.remove(exchange))

    async def deliver(self, side: Side, raw: bytes, message: Message, via: object) -> None:
        """Send one message of the relay to a side (`Deliver`)."""
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
        """Send one message to the upstream server; each subclass has its own transport."""
        raise NotImplementedError

    async def _hang_up(self) -> None:
        """Disconnect from the server; nothing more is read from it."""
        raise NotImplementedError

    def spawn(self, work: Coroutine[None, None, object]) -> None:
        """Run a task while the relay is open; an exception in it does not end the relay."""
        if self._tasks is None:
            work.close()
            return
        self._tasks.create_task(attempt(work, self._parts.halt))

    def _keep(self, request_id: RequestId, exchange: Exchange, *, lasts: bool) -> None:
        if request_id in self._asked:
            return
        self._asked[request_id] = exchange
        exchange.when_over(lambda: self._asked.pop(request_id, None))
        if not lasts:
            self._limit(request_id, exchange, self._parts.call_seconds)

    def _limit(self, request_id: RequestId, exchange: Exchange, seconds: float) -> None:
        """End a call as lost if the server takes longer than `seconds` to answer it.

        A call that still waits for its verdict then is checked again after `PASS_ON_SECONDS`.
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

    An error without an id counts too, because the exchange has no other request to belong to.
    """
    if exchange.request_id is None or message.kind not in (MessageKind.RESULT, MessageKind.ERROR):
        return False
    return message.request_id in (exchange.request_id, None)


def _answer(exchange: Exchange, raw: bytes, message: Message) -> None:
    """Answer with one message, and the server's status or the stateless era's for an error."""
    status = exchange.status
    error = message.body.get("error")
    if status == 200 and isinstance(error, dict) and exchange.era is Era.STATELESS:  # noqa: PLR2004
        status = status_of_error(error.get("code"))
    exchange.answer(raw, status=status)
