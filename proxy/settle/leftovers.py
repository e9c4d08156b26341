"""Handles leftover items of a server: sends released ones, looks up lost ones.

The gate gives out a released item once, and it is sent once. An item whose answer was lost is only
looked up, by reading.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Protocol, TypeVar

from policy.model import CandidateId
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, UnsettledItem
from proxy.settle.forwarder import Forwarder

_LOG: Final = logging.getLogger("mnemogate.settle")
# An item whose outcome a read could not tell is looked up again after this many rounds, then after
# twice as many, and so on.
_FIRST_PAUSE: Final = 2
_PAUSE_MAX: Final = 720
_REPLIES_MAX: Final = 16


Reply = TypeVar("Reply")


class Backend(Protocol[Reply]):
    """One server behind, to which the sidecar sends requests of its own. Event loop only."""

    async def is_ready(self) -> bool:
        """Whether the server can be asked now. If not, it is asked again in the next round."""
        ...

    def turn(self, item: UnsettledItem) -> AbstractAsyncContextManager[None]:
        """What is held from before an item is sent or looked up until its outcome is recorded.

        Where a server's changes of one place wait for each other, no other change of the item's
        place happens meanwhile.
        """
        ...

    async def send(self, item: UnsettledItem) -> Reply | None:
        """Send one item, once. The server's answer, or None where no answer came in time.

        Raises:
            MalformedRequest: The item cannot be sent as it is kept; nothing was sent. Never raised
                after sending: the item would count as failed.
        """
        ...

    def outcome(self, reply: Reply) -> ForwardStatus:
        """The outcome of a sent item, as the server's answer tells it."""
        ...

    async def look_up(self, item: UnsettledItem) -> ForwardStatus | None:
        """The outcome of a sent item, as a read of the server shows it.

        None if the read shows nothing.
        """
        ...


class Leftovers(Generic[Reply]):
    """Sends and looks up items left over on one connection to a server. Event loop only."""

    def __init__(self, forwarding: Forwarder, backend: Backend[Reply], turn: asyncio.Lock) -> None:
        """`turn` is shared by all connections to that server: only one works at a time."""
        self._forwarding = forwarding
        self._backend = backend
        self._turn = turn
        self._round = 0
        # Items that no read could settle, with the round before which they are left alone.
        self._paused: dict[CandidateId, tuple[int, int]] = {}
        self._replies: dict[CandidateId, Reply] = {}

    async def run(self, seconds: float) -> None:
        """Do a round every so many seconds, until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(seconds)

    async def send_released(self, candidate_id: CandidateId) -> Reply | None:
        """Send the released items; returns the server's answer for this one, if it was sent now."""
        await self.round()
        return self._replies.pop(candidate_id, None)

    async def round(self) -> None:
        """Send and look up the leftovers of this moment."""
        async with self._turn:
            self._round += 1
            if not await self._backend.is_ready():
                return
            for one in await self._forwarding.unsettled():
                async with self._backend.turn(one):
                    if one.sent:
                        await self._look_up(one)
                    else:
                        await self._send(one)

    async def _send(self, one: UnsettledItem) -> None:
        """Send, once, an item that the gate gave to this relay alone."""
        ours = (one.candidate_id,)
        self._forwarding.sent(ours, timed=False)
        try:
            reply = await self._backend.send(one)
        except MalformedRequest as error:
            _LOG.error(
                "a released item cannot be sent",
                extra={"fields": {"candidate_id": one.candidate_id, "why": error.detail}},
            )
            await self._forwarding.settle(ours, ForwardStatus.FAILED)
            return
        if reply is None:
            await self._forwarding.settle(ours, ForwardStatus.UNKNOWN)
            return
        await self._forwarding.settle(ours, self._backend.outcome(reply))
        kept = tuple(self._replies.items())[: _REPLIES_MAX - 1]
        self._replies = {one.candidate_id: reply, **dict(kept)}

    async def _look_up(self, one: UnsettledItem) -> None:
        if self._forwarding.is_open(one.candidate_id):
            return  # the server may still answer this item, so it is not looked up yet
        until, pause = self._paused.get(one.candidate_id, (0, _FIRST_PAUSE))
        if self._round < until:
            return
        state = await self._backend.look_up(one)
        if state is None:
            self._paused[one.candidate_id] = (self._round + pause, min(pause * 2, _PAUSE_MAX))
            return
        self._paused.pop(one.candidate_id, None)
        await self._forwarding.settle((one.candidate_id,), state)
