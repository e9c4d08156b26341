"""Handles leftovers of a server: sends items that a person released, looks up unanswered ones.

The guard returns a released item once, and the item is sent once. An item whose answer was lost is
only looked up, by a read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Protocol, TypeVar

from policy.model import CandidateId
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import ForwardStatus, UnsettledItem
from proxy.seams.waits import ReleaseBell, first
from proxy.settle.forwarder import Forwarder

_LOG: Final = logging.getLogger("mnemogate.settle")
# An item whose outcome a read did not show is looked up again after so many rounds, then after
# twice as many, and so on, up to `_PAUSE_MAX`.
_FIRST_PAUSE: Final = 2
_PAUSE_MAX: Final = 720
_REPLIES_MAX: Final = 16


Reply = TypeVar("Reply")


class Backend(Protocol[Reply]):
    """One upstream server, to which the sidecar sends requests of its own. Event loop only."""

    async def is_ready(self) -> bool:
        """Whether the server can be asked now. If not, it is asked again in the next round."""
        ...

    def turn(self, item: UnsettledItem) -> AbstractAsyncContextManager[None]:
        """The lock that is held while an item is sent or looked up and its outcome is recorded.

        Where a server's changes of one key are serialised, no other change of the item's key
        happens meanwhile.
        """
        ...

    async def send(self, item: UnsettledItem) -> Reply | None:
        """Send one item, once; return the server's answer, None where none was received in time.

        Raises:
            MalformedRequest: The stored item cannot be sent, and nothing was sent. It is never
                raised after sending, because the item would then count as failed.
        """
        ...

    def outcome(self, reply: Reply) -> ForwardStatus:
        """The outcome of a sent item that the server's answer shows."""
        ...

    async def look_up(self, item: UnsettledItem) -> ForwardStatus | None:
        """Read from the server; return the outcome of a sent item, None if the read shows none."""
        ...


class Leftovers(Generic[Reply]):
    """Sends and looks up the unsettled items of one connection to a server. Event loop only."""

    def __init__(self, forwarding: Forwarder, backend: Backend[Reply], turn: asyncio.Lock) -> None:
        """`turn` is shared by all connections to that server: only one works at a time."""
        self._forwarding = forwarding
        self._backend = backend
        self._turn = turn
        self._round = 0
        # A mapping of items whose outcome no read showed to the round of their next look-up, and to
        # the pause after it.
        self._paused: dict[CandidateId, tuple[int, int]] = {}
        self._replies: dict[CandidateId, Reply] = {}

    async def run(self, seconds: float, releases: ReleaseBell) -> None:
        """Call `round` after each release, and each so many seconds, until cancelled."""
        while True:
            released = releases.next
            await self.round()
            await first(released.wait(), asyncio.sleep(seconds))

    async def send_released(self, candidate_id: CandidateId) -> Reply | None:
        """Do a round; return the server's answer for this item, None if it was not sent now."""
        await self.round()
        return self._replies.pop(candidate_id, None)

    async def round(self) -> None:
        """Send or look up each item that is unsettled now, if the server can be reached."""
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
        """Send, once, a released item, which the guard returned to this connection alone."""
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
        state = self._backend.outcome(reply)
        if state is not ForwardStatus.DONE:
            fields = {"candidate_id": one.candidate_id, "outcome": state.value}
            _LOG.warning("a released item is not done", extra={"fields": fields})
        await self._forwarding.settle(ours, state)
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
