"""One connection between an MCP client and an MCP server: order, pairing, filtering.

Forwarded messages are encoded anew from the values that were judged. Messages of one side keep
their order. Each request gets one answer, and an answer without a request is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

from policy.bounded import Bounded
from policy.model import ForwardStatus, Principal
from proxy.dialects.mcp.message import (
    CALL,
    INITIALIZE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LIST,
    SERVER_GONE,
    Era,
    Message,
    MessageKind,
    NotRelayed,
    RequestId,
    error_answer,
    is_known_version,
    made,
    parse,
    read_result,
)
from proxy.dialects.mcp.opaque import given_back, replaced
from proxy.mcp.answers import NOT_SHOWN, Answers
from proxy.mcp.backend import McpBackend, outcomes_of
from proxy.mcp.calls import Calls
from proxy.mcp.catalogue import ToolCatalogue
from proxy.mcp.connection import (
    LOG,
    Counts,
    Deliver,
    LocalAnswers,
    RelayConnection,
    RelayLimits,
    Side,
    other,
)
from proxy.mcp.pending_requests import (
    Arrival,
    Inbox,
    PendingRequest,
    RequestStage,
    RequestTable,
)
from proxy.mcp.people import OwnRequests, People, meta_of
from proxy.mcp.server import Server
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Guard
from proxy.seams.observations import notes_of
from proxy.settle.forwarder import Forwarder
from proxy.settle.leftovers import Leftovers

__all__ = ["Counts", "Deliver", "Relay", "RelayLimits", "Server", "Side"]

_INITIALIZED = "notifications/initialized"
_LIST_CHANGED = "notifications/tools/list_changed"
_DROPPED_MAX = 1_024
_ANSWERED_MAX = 256
_NAMED_MAX = 64
# Seconds for settling at the end. Items left over are unsettled, and are looked up later.
_LAST_SETTLING_S = 5.0


class Relay:
    """Relays one connection while its context is open. Event loop only.

    `from_client` and `from_server` return when the message is queued, and wait while the queue is
    full, so that a transport reads no further. They never raise because of a peer's message.
    """

    def __init__(
        self,
        guard: Guard,
        principal: Principal,
        server: Server,
        deliver: Deliver,
        *,
        limits: RelayLimits,
        surroundings: Environment,
    ) -> None:
        self._deliver = deliver
        self._limits = limits
        self._surroundings = surroundings
        self.counts = Counts()
        self._tasks = asyncio.TaskGroup()
        self._jobs: set[asyncio.Task[None]] = set()
        self._pumps: list[asyncio.Task[None]] = []
        self._inbox = {side: Inbox() for side in Side}
        # The client's calls from the first write that waits for its turn, in their order.
        self._turns = Inbox()
        # One table for the requests of each side, because both sides may use the same ids.
        self._asked = {side: RequestTable() for side in Side}
        # Cancelled calls that were never sent, so their cancellation must not be sent either.
        self._dropped = Bounded[RequestId, None](_DROPPED_MAX)
        # The latest answered requests whose clients may resume a lost stream: to filter a repeated
        # answer again requires the request that it answers.
        self._answered: Bounded[RequestId | None, PendingRequest] = Bounded(_ANSWERED_MAX)
        # Whether the handshake agreed on a protocol version that is not known here.
        self._unknown_version = False
        self._named_dropped: set[str] = set()
        self._own = OwnRequests(self._asked, self._send, limits, surroundings)
        self._forwarding = Forwarder(
            guard,
            principal,
            server.name,
            spawn=self._spawn,
            answer_seconds=limits.answer_seconds,
            retry_seconds=limits.tend_seconds,
        )
        self._connection = RelayConnection(
            guard=guard,
            principal=principal,
            server=server,
            limits=limits,
            surroundings=surroundings,
            counts=self.counts,
            send=self._send,
            ask=self._own.ask,
            finish=self._finish,
            spawn=self._spawn,
            ready=asyncio.Event(),
            gone=asyncio.Event(),
            forwarding=self._forwarding,
        )
        self._catalogue = ToolCatalogue(self._connection)
        self._answers = Answers(self._connection, self._catalogue)
        self._unanswered = LocalAnswers(self._connection)
        self._backend = McpBackend(self._connection, self._catalogue)
        self._leftovers = Leftovers(self._forwarding, self._backend, server.tending)
        self._people = People(self._connection, self._answers, self._leftovers)
        self._calls = Calls(self._connection, self._catalogue, self._people)

    async def __aenter__(self) -> Self:
        """Start relaying."""
        await self._tasks.__aenter__()
        pumps = (self._pump(Side.CLIENT), self._pump(Side.SERVER), self._pump_turns())
        self._pumps = [self._tasks.create_task(pump) for pump in pumps]
        self._spawn(self._tend())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, and settle items that were sent but not answered."""
        await self.close()
        if kind is None:
            await asyncio.wait(self._pumps)
        for job in self._jobs:
            job.cancel()
        try:
            async with asyncio.timeout(_LAST_SETTLING_S):
                await self._forwarding.close()
        except TimeoutError:
            LOG.warning("not settled: the gate is away")
        for job in self._jobs:
            job.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    async def from_client(self, raw: bytes | Message, via: object = None) -> None:
        """Parse and queue one message that the client sent."""
        await self._take_in(Side.CLIENT, raw, via)

    async def from_server(
        self, raw: bytes | Message, via: object = None, *, again: bool = False
    ) -> None:
        """Parse and queue one message that the server sent.

        `again` is true if the client resumed a lost stream. An answer that was forwarded before is
        then filtered anew, and forwarded again.
        """
        await self._take_in(Side.SERVER, raw, via, again=again)

    async def refused(
        self, side: Side, request_id: RequestId | None, detail: str, via: object = None
    ) -> None:
        """Send the client an error for a message that the transport dropped, mostly too long."""
        await self._refuse(side, NotRelayed(INVALID_REQUEST, detail, request_id), via)

    async def flushed(self, side: Side) -> None:
        """Wait until every message that `side` has sent so far was forwarded or dropped.

        A `deliver` that calls this would wait for itself.
        """
        await self._inbox[side].flushed()
        if side is Side.CLIENT:
            await self._turns.flushed()

    async def lost(self, request_id: RequestId | None = None) -> None:
        """Answer the requests that wait for the server with an error, because it has gone.

        With `request_id`, only the server's answer to that request is lost.
        """
        if request_id is not None:
            pending = self._asked[Side.CLIENT].find(request_id)
            # A request that still waits for a verdict was not sent, so it lost no answer. It is
            # sent after the verdict.
            if pending is not None and pending.stage is RequestStage.SENT:
                await self._unanswered.lost(pending)
            return
        self._connection.gone.set()
        self._own.close()
        for pending in self._asked[Side.CLIENT].all():
            await self._unanswered.lost(pending)

    async def close(self) -> None:
        """Accept no more messages, and finish those accepted."""
        for inbox in self._inbox.values():
            inbox.close()

    # ---- handling incoming messages --------------------------------------------------------------

    async def _take_in(
        self, side: Side, raw: bytes | Message, via: object, *, again: bool = False
    ) -> None:
        try:
            message = parse(raw, bytes_max=self._limits.message_bytes_max)
            message = self._read(side, message, again=again)
            pending = self._registered(side, message, via)
        except NotRelayed as refusal:
            await self._refuse(side, refusal, via)
            return
        # A cancellation is not queued, because its request may be waiting for a verdict right now.
        taken_back = self._asked[side].find(message.cancels)
        if taken_back is not None:
            taken_back.cancelled.set()
        await self._inbox[side].put(Arrival(message=message, via=via, pending=pending, again=again))

    def _read(self, side: Side, message: Message, *, again: bool) -> Message:
        """The message in the form in which it may be forwarded.

        A result is reduced to the members that its request allows. Handles in a client's message
        are replaced by the server's strings.
        """
        asked = self._asked[other(side)].find(message.request_id)
        if asked is None and side is Side.SERVER and again:
            asked = self._answered.get(message.request_id)
        if message.kind is MessageKind.RESULT and asked is not None:
            strict = asked.strict or self._unknown_version
            message = read_result(message, asked.method, asked.era, strict=strict)
            if side is Side.SERVER and asked.method == INITIALIZE:
                version = message.result.get("protocolVersion")
                self._unknown_version = not is_known_version(version)
        if message.dropped:
            self._note_dropped(side, message)
        return self._brought_back(message) if side is Side.CLIENT else message

    def _note_dropped(self, side: Side, message: Message) -> None:
        self.counts.dropped += len(message.dropped)
        # The name of a client's unknown member is not logged: it could spell a refused text.
        names = message.dropped if side is Side.SERVER else ("client",)
        for name in names:
            if name not in self._named_dropped and len(self._named_dropped) < _NAMED_MAX:
                self._named_dropped.add(name)
                LOG.warning(
                    "unknown members of messages are left out",
                    extra={"fields": {"side": side.value}, "error_type": name},
                )

    def _brought_back(self, message: Message) -> Message:
        if message.method is None or message.kind is not MessageKind.REQUEST:
            return message
        principal_id = self._connection.principal.principal_id

        def stands_for(handle: str) -> str:
            text = self._connection.server.handles.find(principal_id, handle)
            if text is None:
                raise MalformedRequest("params: a cursor, state or task that is not known here")
            return text

        params = message.body.get("params")
        try:
            left = replaced(params, given_back(message.method, params), stands_for)
        except MalformedRequest as error:
            raise NotRelayed(INVALID_PARAMS, error.detail, message.request_id) from None
        return message if left is params else made({**message.body, "params": left}, message.era)

    def _registered(self, side: Side, message: Message, via: object) -> PendingRequest | None:
        """Enter a request into its side's table; return the entry.

        None if the message is no request. An id in use is refused until its request is answered.
        """
        if message.kind is not MessageKind.REQUEST:
            return None
        pending = PendingRequest(message, via)
        if not self._asked[side].add(pending):
            # If two requests had the same id, one answer would serve both: the second could get the
            # verdict of the first.
            raise NotRelayed(INVALID_REQUEST, "this id is in use, or too many requests wait")
        return pending

    async def _refuse(self, side: Side, refusal: NotRelayed, via: object) -> None:
        self.counts.refused += 1
        LOG.warning(
            "message refused",
            extra={"fields": {"side": side.value}, "error_type": refusal.detail},
        )
        request_id = refusal.request_id
        if side is Side.CLIENT:
            if self._asked[side].find(request_id) is not None:
                # The error names no request: the client would take it for the answer to its other
                # request with this id.
                request_id = None
            await self._send(side, error_answer(request_id, refusal.code, refusal.detail), via)
            return
        # The server's answer cannot be parsed. The client gets an error instead, because it would
        # wait for ever.
        pending = self._asked[Side.CLIENT].find(request_id)
        if pending is not None:
            await self._unanswered.unreadable(pending, refusal)

    # ---- forwarding messages in their order ------------------------------------------------------

    async def _pump(self, side: Side) -> None:
        inbox = self._inbox[side]
        while (arrival := await inbox.take()) is not None:
            message = arrival.message
            if message.kind in (MessageKind.RESULT, MessageKind.ERROR):
                await self._answer(side, arrival)
            elif side is Side.SERVER:
                await self._unasked(arrival)
            elif arrival.pending is not None:
                await self._ask(arrival, arrival.pending)
            else:
                await self._tell(arrival)
            await inbox.dealt_with()
        if side is Side.CLIENT:
            self._turns.close()

    async def _ask(self, arrival: Arrival, pending: PendingRequest) -> None:
        """Handle a request of the client."""
        message: Message | None = arrival.message
        self._own.like(pending.request_id)
        if self._connection.gone.is_set():
            await self._unanswered.lost(pending)
            return
        if arrival.message.era is Era.STATELESS:
            self._backend.meta = meta_of(arrival.message)
        if pending.method == CALL:
            if not pending.cancelled.is_set():
                message = await self._calls.outgoing(arrival.message, pending)
            if pending.cancelled.is_set() and pending.stage is RequestStage.QUEUED:
                self._drop(pending)
                message = None
        elif pending.method == LIST:
            pending.meta = meta_of(arrival.message)
        elif pending.method == INITIALIZE:
            self._people.introduced(arrival.message.params)
        if message is not None:
            await self._forward(message, pending)

    async def _forward(self, message: Message, pending: PendingRequest) -> None:
        """Send a request to the server, or queue a call whose turn has not come.

        Pings and cancellations pass a write that waits for its turn; a later call does not, so that
        it reads what the client wrote before.
        """
        server = self._connection.server
        in_turn = bool(pending.admitted) and server.takes_turns
        if pending.method == CALL and (self._turns.busy or (in_turn and server.writing.locked())):
            await self._turns.put(Arrival(message=message, via=pending.via, pending=pending))
        else:
            if in_turn:
                await self._connection.take_turn(pending)
            await self._send_on(message, pending)

    async def _pump_turns(self) -> None:
        while (arrival := await self._turns.take()) is not None:
            if arrival.pending is not None:
                await self._send_in_turn(arrival.message, arrival.pending)
            await self._turns.dealt_with()

    async def _send_in_turn(self, message: Message, pending: PendingRequest) -> None:
        if pending.admitted:
            await self._connection.take_turn(pending)
        if not (pending.cancelled.is_set() or self._connection.gone.is_set()):
            await self._send_on(message, pending)
            return
        await self._forwarding.settle(pending.admitted, ForwardStatus.FAILED)
        if pending.cancelled.is_set():
            self._finish(pending)

    async def _send_on(self, message: Message, pending: PendingRequest) -> None:
        pending.stage = RequestStage.SENT
        self._forwarding.sent(pending.admitted)
        await self._send(Side.SERVER, message, pending.via)
        if message.era is Era.STATELESS:
            self._connection.ready.set()

    async def _tell(self, arrival: Arrival) -> None:
        """Handle a notification that the client sent."""
        message = arrival.message
        if message.method == CALL:
            # A call without an id gets no answer, but some servers carry it out.
            self.counts.refused += 1
            return
        taken_back = message.cancels
        if taken_back is not None:
            pending = self._asked[Side.CLIENT].find(taken_back)
            if taken_back in self._dropped:
                del self._dropped[taken_back]
                return
            if pending is not None and pending.stage is RequestStage.QUEUED:
                return
            if pending is not None and pending.admitted and self._connection.server.takes_turns:
                # A server does not answer a call that was cancelled, so no one would know when
                # the next write may be sent.
                return
        await self._send(Side.SERVER, message, arrival.via)
        if message.method == _INITIALIZED:
            self._connection.ready.set()

    async def _unasked(self, arrival: Arrival) -> None:
        """Handle a request or notification that the server sent."""
        message, pending = arrival.message, arrival.pending
        if message.method == _LIST_CHANGED:
            self._catalogue.changed()
        shown = await self._answers.shown_unasked(message)
        if shown is not None:
            if pending is not None:
                pending.stage = RequestStage.SENT
            await self._send(Side.CLIENT, shown, arrival.via)
        elif pending is not None and self._asked[Side.SERVER].take(pending):
            answer = error_answer(pending.request_id, SERVER_GONE, NOT_SHOWN)
            await self._send(Side.SERVER, answer, arrival.via)

    async def _answer(self, side: Side, arrival: Arrival) -> None:
        message = arrival.message
        if message.kind is MessageKind.ERROR and message.request_id is None:
            # An error that names no request may contain anything, and its text cannot be filtered
            # by a request.
            shown = await self._answers.shown_unasked(message) if side is Side.SERVER else message
            if shown is not None:
                await self._send(other(side), shown, arrival.via)
            return
        asked = self._asked[other(side)]
        pending = asked.find(message.request_id)
        if pending is None or pending.stage is not RequestStage.SENT:
            await self._answer_again(arrival)
            return
        asked.take(pending)
        if pending.own is not None:
            if not pending.own.done():
                pending.own.set_result(message)
            return
        if side is Side.SERVER:
            # The answer reports the outcome of the items, also if the client has cancelled the
            # request.
            await self._settle(pending, message)
        if pending.cancelled.is_set():
            self.counts.late += 1
            return
        # Over HTTP an answer may arrive on another stream than its request. It is then forwarded
        # on the stream on which it arrived.
        via = pending.via if arrival.via is None else arrival.via
        if side is Side.SERVER:
            self._remember(pending)
            if self._answers.needs_all_pages(pending, message):
                # The other pages are fetched in a task of their own, because this loop handles the
                # server's answers, among them those pages.
                self._spawn(self._answer_when_listed(pending, message, via))
                return
            message = await self._answers.shown(pending, message)
        await self._send(other(side), message, via)

    def _remember(self, pending: PendingRequest) -> None:
        if pending.via is not None and pending.era is Era.HANDSHAKE:
            self._answered[pending.request_id] = pending

    async def _settle(self, pending: PendingRequest, message: Message) -> None:
        """Record the outcome of each item in a call that the server has answered."""
        states = outcomes_of(message, pending.rule, pending.items)
        pending.note += notes_of(states)
        for state in dict.fromkeys(states):
            alike = (one for one, how in zip(pending.admitted, states, strict=True) if how is state)
            await self._forwarding.settle(tuple(alike), state)

    async def _answer_when_listed(
        self, pending: PendingRequest, message: Message, via: object
    ) -> None:
        self._catalogue.changed()
        await self._catalogue.refusal(pending.meta)
        await self._send(Side.CLIENT, await self._answers.shown(pending, message), via)

    async def _answer_again(self, arrival: Arrival) -> None:
        pending = self._answered.get(arrival.message.request_id) if arrival.again else None
        if pending is None:
            self.counts.orphans += 1
            return
        message = await self._answers.shown(pending, arrival.message)
        await self._send(Side.CLIENT, message, arrival.via)

    # ---- lost and cancelled requests, and the relay's own requests -------------------------------

    async def _tend(self) -> None:
        await self._connection.ready.wait()
        await self._leftovers.run(self._limits.tend_seconds, self._surroundings.releases)

    def _drop(self, pending: PendingRequest) -> None:
        """Drop a request that was cancelled before it was sent."""
        self._finish(pending)
        self._dropped[pending.request_id] = None

    def _finish(self, pending: PendingRequest) -> bool:
        return self._asked[Side.CLIENT].take(pending)

    def _spawn(self, job: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._tasks.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task

    async def _send(self, side: Side, message: Message, via: object) -> None:
        await self._deliver(side, message.one_line(), message, via)
