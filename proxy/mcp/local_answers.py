"""Answers requests whose real answer does not come, or cannot be passed on."""

from __future__ import annotations

from typing import Final

from proxy.dialects.mcp.message import (
    SERVER_GONE,
    Era,
    Message,
    NotRelayed,
    Object,
    error_answer,
    result_answer,
)
from proxy.dialects.mcp.results import refused
from proxy.mcp.connection import RelayConnection, ServerGone, Side
from proxy.mcp.pending_requests import PendingRequest, RequestStage
from proxy.seams.guard import ForwardStatus

_LOST: Final = (
    "The memory server gave no answer. Whether it stored this is not known yet, and will be looked "
    "up. Do not send it again: read first."
)
_NO_ANSWER: Final = "the MCP server behind Mnemogate gave no answer"


class LocalAnswers:
    """Answers requests in the server's place. Event loop only.

    The outcome of a sent write is then unknown, and only a read can tell it.
    """

    def __init__(self, connection: RelayConnection) -> None:
        self._connection = connection

    async def lost(self, pending: PendingRequest) -> None:
        """End a request whose answer will not come."""
        text = _NO_ANSWER
        await self._end(pending, error_answer(pending.request_id, SERVER_GONE, text))

    async def unreadable(self, pending: PendingRequest, refusal: NotRelayed) -> None:
        """End a request whose answer was ambiguous and cannot be passed on.

        A request that was not sent yet is forwarded, because the message cannot have been its
        answer.
        """
        if pending.stage is RequestStage.SENT:
            text = f"the server's answer cannot be relayed: {refusal.detail}"
            await self._end(pending, error_answer(pending.request_id, refusal.code, text))

    async def _end(self, pending: PendingRequest, answer: Message) -> None:
        """Answer the request with `answer`; if it is a write that was sent, say what to do next."""
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
            answer = result_answer(pending.request_id, _not_known(pending), pending.era)
        await self._connection.send(Side.CLIENT, answer, pending.via)


def _not_known(pending: PendingRequest) -> Object:
    """Make the answer to a write that was sent and whose outcome is unknown."""
    return refused([_LOST], stateless=pending.era is Era.STATELESS)
