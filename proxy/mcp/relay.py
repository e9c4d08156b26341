"""One connection between an MCP client and an MCP server: order, pairing, what is not passed on.

Bytes go on as they came. Messages of one side keep their order. Each request has one answer, and an
answer that nobody waits for ends here.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, Final, Protocol, Self

import msgspec

from proxy.dialects.mcp.message import (
    INVALID_REQUEST,
    LINE_BYTES_MAX,
    SERVER_GONE,
    Kind,
    Message,
    NotRelayed,
    RequestId,
    error_answer,
    parse,
)
from proxy.mcp.inbox import Inbox
from proxy.mcp.pending import Arrival, Pending, Stage, Table

if TYPE_CHECKING:
    from types import TracebackType

    from policy.model import Principal
    from proxy.guard import Guard
    from proxy.surroundings import Surroundings

_LOG: Final = logging.getLogger("mnemogate.mcp")


class Side(enum.Enum):
    """One end of the connection."""

    CLIENT = "client"
    SERVER = "server"


class Deliver(Protocol):
    """Sends one message to a side, whole; returns when the transport has room for the next.

    `raw` is one line without its end. `via` is the stream that the message belongs to, as the
    transport named it when the request came; None where it belongs to none in particular. A peer
    that is gone is no error: the message is dropped.
    """

    async def __call__(self, side: Side, raw: bytes, message: Message, via: object, /) -> None:
        """Send."""
        ...


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The server behind, as the operator named it."""

    name: str
    # Nothing is remembered behind it: every tool passes, and its results are tool results.
    context: bool = False


class RelayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection may take."""

    message_bytes_max: int = LINE_BYTES_MAX
    # After so long without an answer, a sent write counts as unknown; its call stays open.
    answer_seconds: float = 60.0
    # How long a call waits for a person before it says that the item waits in review.
    person_seconds: float = 120.0


class Counts(msgspec.Struct, kw_only=True):
    """What did not go on, for whoever reports it. Never any content."""

    refused: int = 0  # not a message, a batch, a duplicated id
    orphans: int = 0  # answers that nobody waits for: unknown id, or the second for one
    late: int = 0  # answers to what its client had taken back


class Relay:
    """Relays one connection while its context is open. Event loop only.

    `from_client` and `from_server` return when the message has its place in the order, and wait
    where too much is in front of it: a transport reads the next message after that. They never
    raise for what a peer sent.
    """

    def __init__(  # the seam of both transports
        self,
        guard: Guard,
        principal: Principal,
        server: Server,
        deliver: Deliver,
        *,
        limits: RelayLimits,
        surroundings: Surroundings,
    ) -> None:
        self._guard = guard
        self._principal = principal
        self._server = server
        self._deliver = deliver
        self._limits = limits
        self._surroundings = surroundings
        self.counts = Counts()
        self._tasks = asyncio.TaskGroup()
        self._inbox = {side: Inbox() for side in Side}
        # The requests of each side. Both count from 1, so they are two tables.
        self._asked = {side: Table() for side in Side}
        self._gone = False

    async def __aenter__(self) -> Self:
        """Start to relay."""
        await self._tasks.__aenter__()
        for side in Side:
            self._tasks.create_task(self._pump(side))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, and wait for what is still being settled."""
        await self.close()
        await self._tasks.__aexit__(kind, error, trace)

    async def from_client(self, raw: bytes, via: object = None) -> None:
        """Take one message of the client."""
        await self._take_in(Side.CLIENT, raw, via)

    async def from_server(self, raw: bytes, via: object = None) -> None:
        """Take one message of the server."""
        await self._take_in(Side.SERVER, raw, via)

    async def refused(
        self, side: Side, request_id: RequestId | None, detail: str, via: object = None
    ) -> None:
        """A transport could not hold a message (its length, mostly); say so to whom it concerns."""
        await self._refuse(side, NotRelayed(INVALID_REQUEST, detail, request_id), via)

    async def flushed(self, side: Side) -> None:
        """Wait until all that this side has sent so far has gone on, or ended here.

        Not from within `deliver`: it would wait for itself.
        """
        await self._inbox[side].flushed()

    async def lost(self, request_id: RequestId | None = None) -> None:
        """The server is gone, or with `request_id` only its answer to that request.

        Every request that waits for it gets an honest answer.
        """
        if request_id is not None:
            pending = self._asked[Side.CLIENT].find(request_id)
            if pending is not None:
                await self._answer_lost(pending)
            return
        if self._gone:
            return
        self._gone = True
        for pending in self._asked[Side.CLIENT].all():
            await self._answer_lost(pending)

    async def close(self) -> None:
        """The client is gone, or we are: take nothing more, finish what was taken."""
        for inbox in self._inbox.values():
            inbox.close()

    # What comes in

    async def _take_in(self, side: Side, raw: bytes, via: object) -> None:
        try:
            message = parse(raw, bytes_max=self._limits.message_bytes_max)
            pending = self._registered(side, message, via)
        except NotRelayed as refusal:
            await self._refuse(side, refusal, via)
            return
        self._note_cancellation(side, message)
        await self._inbox[side].put(Arrival(message=message, via=via, pending=pending))

    def _registered(self, side: Side, message: Message, via: object) -> Pending | None:
        """The request that the message makes; its id is taken from here on."""
        if message.kind is not Kind.REQUEST:
            return None
        pending = Pending(message, via)
        if not self._asked[side].add(pending):
            # Two requests under one id have one answer: the second could be paired with the
            # verdict of the first.
            raise NotRelayed(INVALID_REQUEST, "this id is in use, or too many requests wait")
        return pending

    def _note_cancellation(self, side: Side, message: Message) -> None:
        """Cancellation overtakes: what it takes back may be waiting for its verdict right now."""
        pending = self._asked[side].find(message.cancels)
        if pending is not None:
            pending.cancelled.set()

    async def _refuse(self, side: Side, refusal: NotRelayed, via: object) -> None:
        self.counts.refused += 1
        _LOG.warning("message refused", extra={"side": side.value, "error_type": refusal.detail})
        request_id = refusal.request_id
        if side is Side.CLIENT:
            if self._asked[side].find(request_id) is not None:
                request_id = None  # the answer would be taken for that of the other request
            await self._send(side, error_answer(request_id, refusal.code, refusal.detail), via)
            return
        # The server's answer cannot be read: its client must not wait for ever.
        pending = self._asked[Side.CLIENT].take(request_id)
        if pending is not None and pending.own is None and not pending.cancelled.is_set():
            text = f"the server's answer cannot be relayed: {refusal.detail}"
            await self._send(
                Side.CLIENT, error_answer(pending.request_id, refusal.code, text), pending.via
            )

    # What goes out, in order

    async def _pump(self, side: Side) -> None:
        inbox = self._inbox[side]
        while (arrival := await inbox.take()) is not None:
            message = arrival.message
            if message.kind in (Kind.RESULT, Kind.ERROR):
                await self._answer(side, arrival)
            elif arrival.pending is not None:
                await self._ask(side, arrival, arrival.pending)
            else:
                await self._send(_other(side), message, arrival.via)
            await inbox.dealt_with()

    async def _ask(self, side: Side, arrival: Arrival, pending: Pending) -> None:
        if side is Side.CLIENT and self._gone:
            await self._answer_lost(pending)
            return
        pending.stage = Stage.SENT
        pending.message = None
        await self._send(_other(side), arrival.message, arrival.via)

    async def _answer(self, side: Side, arrival: Arrival) -> None:
        message = arrival.message
        if message.kind is Kind.ERROR and message.request_id is None:
            await self._send(_other(side), message, arrival.via)
            return
        asked = self._asked[_other(side)]
        found = asked.find(message.request_id)
        if found is None or found.stage is not Stage.SENT:
            self.counts.orphans += 1
            return
        pending = asked.take(message.request_id)
        if pending is None:
            return
        if pending.own is not None:
            if not pending.own.done():
                pending.own.set_result(message)
        elif pending.cancelled.is_set():
            self.counts.late += 1
        else:
            # Over HTTP an answer may come on another stream than the one that was asked on.
            via = pending.via if arrival.via is None else arrival.via
            await self._send(_other(side), message, via)

    async def _answer_lost(self, pending: Pending) -> None:
        if self._asked[Side.CLIENT].take(pending.request_id) is None:
            return
        if pending.own is not None:
            pending.own.cancel()
        elif not pending.cancelled.is_set():
            text = "the MCP server behind Mnemogate gave no answer"
            await self._send(
                Side.CLIENT, error_answer(pending.request_id, SERVER_GONE, text), pending.via
            )

    async def _send(self, side: Side, message: Message, via: object) -> None:
        await self._deliver(side, message.one_line(), message, via)


def _other(side: Side) -> Side:
    return Side.SERVER if side is Side.CLIENT else Side.CLIENT
