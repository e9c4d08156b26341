"""What the parts of a relay share: its two sides, its limits, how it sends, its own answers."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, TypeAlias

import msgspec

from policy.model import Channel, Principal
from policy.verdict import Reason
from proxy.dialects.mcp.message import (
    LINE_BYTES_MAX,
    SERVER_GONE,
    Era,
    Message,
    NotRelayed,
    Object,
    error_answer,
    result_answer,
)
from proxy.dialects.mcp.results import refused
from proxy.mcp.pending_requests import PendingRequest, RequestStage
from proxy.mcp.server import Server
from proxy.seams.environment import Environment
from proxy.seams.guard import ForwardStatus, Guard
from proxy.seams.observations import observation_of_call
from proxy.settle.forwarder import Forwarder

LOG: Final = logging.getLogger("mnemogate.mcp")
OWN_PREFIX: Final = "mnemogate:"


class Side(enum.Enum):
    """One end of a relayed connection: the MCP client or the MCP server."""

    CLIENT = "client"
    SERVER = "server"


def other(side: Side) -> Side:
    """The other end of the connection: the server for the client, the client for the server."""
    return Side.SERVER if side is Side.CLIENT else Side.CLIENT


Deliver: TypeAlias = Callable[[Side, bytes, Message, object], Coroutine[object, object, None]]
"""Sends one whole message to a side; returns when the transport has room for the next.

The bytes are one line without its line feed. The last value is the stream that the message belongs
to, as the transport passed it with the request; None for no particular stream. If the peer has
gone, the message is dropped without an error.
"""


class ServerGone(Exception):  # noqa: N818 - a state of the world
    """The error where the server ended, or did not answer the relay's own request in time."""


class RelayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one connection between a client and a server."""

    message_bytes_max: int = LINE_BYTES_MAX
    # Seconds without an answer after which a sent write's outcome counts as unknown. The client's
    # call stays open.
    answer_seconds: float = 60.0
    # Seconds that a call waits for a person; after that its answer reports that the item is held.
    person_seconds: float = 120.0
    # Seconds between two requests to the gate: for a person's decision, and for unsettled items.
    ask_seconds: float = 0.5
    tend_seconds: float = 5.0
    # Seconds that the answer to `initialize` waits for the gate.
    greeting_seconds: float = 0.4


class Counts(msgspec.Struct, kw_only=True):
    """The number of messages and members that were dropped, for reports; never their content."""

    # Refused input: text that is no message, a batch, or a request with an id in use.
    refused: int = 0
    # Answers without a request: to an unknown id, or to a request that was answered already.
    orphans: int = 0
    dropped: int = 0  # unknown members that were left out
    late: int = 0  # answers to requests that the client had cancelled


class RelayConnection(msgspec.Struct, frozen=True, kw_only=True):
    """The state and functions that the parts of one relayed connection share. Event loop only."""

    guard: Guard
    principal: Principal
    server: Server
    limits: RelayLimits
    surroundings: Environment
    counts: Counts
    send: Callable[[Side, Message, object], Awaitable[None]]
    # Sends the relay's own request and returns its answer, which is not forwarded. Raises
    # `ServerGone`.
    ask: Callable[[Side, str, Object, object], Awaitable[Message]]
    # Ends a request of the client; returns whether the request still waited for an answer.
    finish: Callable[[PendingRequest], bool]
    spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]]
    # Set once the handshake is over, so that the relay may send requests of its own.
    ready: asyncio.Event
    gone: asyncio.Event
    # Tracks the items sent on this connection until their outcome is known.
    forwarding: Forwarder

    @property
    def is_agent(self) -> bool:
        """Whether the principal's credential belongs to an agent and not to a person."""
        return self.principal.channel is Channel.AGENT

    async def take_turn(self, pending: PendingRequest) -> None:
        """Wait until the writes before this one are answered, where the server takes turns.

        The turn ends with the answer to the request, or after the time limit for answers: the
        outcome is unknown then, and is looked up.
        """
        if self.server.takes_turns:
            await self.server.writing.acquire()
            # The callback runs also if the task is cancelled before it begins.
            self.spawn(self._in_turn(pending)).add_done_callback(
                lambda _: self.server.writing.release()
            )

    async def _in_turn(self, pending: PendingRequest) -> None:
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                await pending.over.wait()
        except TimeoutError:
            fields = {"server": self.server.name}
            LOG.warning("a later write passes one without an answer", extra={"fields": fields})

    def observation(self, refusal: Reason) -> str:
        """The text for a tool call that was refused before it was judged."""
        why = self.server.no_gate if refusal is Reason.GATE_UNAVAILABLE else ""
        return observation_of_call(refusal) + (f" No gate runs: {why}" if why else "")

    async def answer(self, pending: PendingRequest, result: Object) -> None:
        """Answer a request in the server's place, unless the client cancelled the request."""
        if self.finish(pending) and not pending.cancelled.is_set():
            message = result_answer(pending.request_id, result, pending.era)
            await self.send(Side.CLIENT, message, pending.via)

    async def refuse(self, pending: PendingRequest, observations: Sequence[str]) -> None:
        """Answer with observations a tool call that was not forwarded."""
        await self.answer(pending, refused(observations, stateless=pending.era is Era.STATELESS))


_LOST: Final = (
    "The memory server gave no answer. Whether it stored this is not known yet, and will be looked "
    "up. Do not send it again: read first."
)
_NO_ANSWER: Final = "the MCP server behind Mnemogate gave no answer"


class LocalAnswers:
    """Answers requests to which the server gave no usable answer. Event loop only.

    The outcome of such a write is recorded as unknown, and is looked up later.
    """

    def __init__(self, connection: RelayConnection) -> None:
        self._connection = connection

    async def lost(self, pending: PendingRequest) -> None:
        """End a request whose answer will not come."""
        await self._end(pending, error_answer(pending.request_id, SERVER_GONE, _NO_ANSWER))

    async def unreadable(self, pending: PendingRequest, refusal: NotRelayed) -> None:
        """End a request whose answer cannot be forwarded, because it is ambiguous.

        A request that was not sent yet does not end: the message cannot be its answer.
        """
        if pending.stage is RequestStage.SENT:
            text = f"the server's answer cannot be relayed: {refusal.detail}"
            await self._end(pending, error_answer(pending.request_id, refusal.code, text))

    async def _end(self, pending: PendingRequest, answer: Message) -> None:
        """Answer the request with `answer`, or a sent write with the advice to read first."""
        if not self._connection.finish(pending):
            return
        if pending.own is not None:
            # This is a request of the relay's own, so the code that sent it settles its items.
            if not pending.own.done():
                pending.own.set_exception(ServerGone())
            return
        await self._connection.forwarding.settle(pending.admitted, ForwardStatus.UNKNOWN)
        if pending.cancelled.is_set():
            return
        if pending.admitted:
            not_known = refused([_LOST], stateless=pending.era is Era.STATELESS)
            answer = result_answer(pending.request_id, not_known, pending.era)
        await self._connection.send(Side.CLIENT, answer, pending.via)
