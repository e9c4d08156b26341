"""Has writes to an upstream server judged, and records the outcome of each that was sent.

The intent of an admitted item is on disk before the item is sent. Without an answer, the outcome is
recorded as unknown, and the item is looked up later. An item is never sent twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from policy.model import CandidateId, Principal
from policy.verdict import InvariantBroken
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import (
    ITEMS_MAX,
    ForwardStatus,
    Guard,
    GuardedCall,
    ItemVerdict,
    RecordsOutcomes,
    UnsettledItem,
)
from storage.ground.errors import StorageError, StoreUnavailable

Asks = Callable[[Principal, GuardedCall], Awaitable[tuple[ItemVerdict, ...]]]


_LOG: Final = logging.getLogger("mnemogate.settle")
# The exceptions of a guard that cannot answer.
UNDECIDED: Final = (StorageError, MalformedRequest)
SETTLE_TRIES: Final = 60


class NoGate(StoreUnavailable):
    """No process serves the gate. The text is the reason, and quotes nothing of what was asked."""


async def judge(asks: Asks, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
    """Have a call judged; return one verdict per item.

    The caller has to send and settle each admitted item, or settle it as failed.

    Raises:
        StorageError, MalformedRequest: Nothing was judged, so that nothing may be sent.
    """
    judged = await asks(principal, call)
    if len(judged) != len(call.items):
        raise InvariantBroken("a guard gives one verdict per item")
    return judged


def admitted_of(judged: tuple[ItemVerdict, ...]) -> tuple[CandidateId, ...]:
    """The candidate ids of a call's items that were admitted, and so may be sent."""
    return tuple(
        one.candidate_id
        for one in judged
        if one.decision == "admit" and one.candidate_id is not None
    )


async def record(
    guard: RecordsOutcomes,
    principal: Principal,
    server: str,
    candidate_ids: tuple[CandidateId, ...],
    state: ForwardStatus,
) -> bool:
    """Report the outcome of items to the guard; return whether the guard recorded it.

    An item whose outcome was not recorded stays unsettled.
    """
    try:
        if candidate_ids:
            settled = tuple((candidate_id, state) for candidate_id in candidate_ids)
            await guard.settle(principal, server, settled)
    except UNDECIDED:
        return False
    return True


class Forwarder:
    """Settles one principal's writes to one upstream server. Event loop only."""

    def __init__(
        self,
        guard: Guard,
        principal: Principal,
        server: str,
        *,
        spawn: Callable[[Coroutine[None, None, None]], object],
        answer_seconds: float,
        retry_seconds: float,
    ) -> None:
        self._guard = guard
        self._principal = principal
        self._server = server
        self._spawn = spawn
        self._answer_seconds = answer_seconds
        self._retry_seconds = retry_seconds
        # Sent items that may still be answered, with the timer that ends the wait.
        self._open: dict[CandidateId, asyncio.TimerHandle | None] = {}
        self._closed = False

    def sent(self, candidate_ids: tuple[CandidateId, ...], *, timed: bool = True) -> None:
        """Record that items were sent to the server; each stays open until it is settled.

        `timed`: after the time limit, items are recorded as unknown, but may still be answered.
        """
        late = None
        if timed and candidate_ids and not self._closed:
            loop = asyncio.get_running_loop()
            late = loop.call_later(self._answer_seconds, self._overdue, candidate_ids)
        self._open |= dict.fromkeys(candidate_ids, late)

    def is_open(self, candidate_id: CandidateId) -> bool:
        """Whether the server may still answer for this item."""
        return candidate_id in self._open

    async def settle(self, candidate_ids: tuple[CandidateId, ...], state: ForwardStatus) -> None:
        """Record the outcome of sent items, now or as soon as the guard can be reached."""
        for candidate_id in candidate_ids:
            late = self._open.pop(candidate_id, None)
            # The items of one call share a timer, which is cancelled when the last item is settled.
            if late is not None and late not in self._open.values():
                late.cancel()
        await self._record(candidate_ids, state)

    async def unsettled(self) -> tuple[UnsettledItem, ...]:
        """The admitted items to be sent or looked up now; () if the guard cannot be reached."""
        try:
            return await self._guard.unsettled(self._principal, self._server)
        except UNDECIDED:
            return ()

    async def close(self) -> None:
        """Record open items as unknown, because no answer can arrive any more.

        An item that is sent while this waits for the guard is recorded as unknown too.
        """
        self._closed = True
        while self._open:
            unheard = tuple(self._open)[:ITEMS_MAX]
            for candidate_id in unheard:
                late = self._open.pop(candidate_id)
                if late is not None:
                    late.cancel()
            await self._record(unheard, ForwardStatus.UNKNOWN)

    def _overdue(self, candidate_ids: tuple[CandidateId, ...]) -> None:
        waiting = tuple(one for one in candidate_ids if one in self._open)
        self._spawn(self._record(waiting, ForwardStatus.UNKNOWN))

    async def _record(self, candidate_ids: tuple[CandidateId, ...], state: ForwardStatus) -> None:
        if not await record(self._guard, self._principal, self._server, candidate_ids, state):
            _LOG.warning("settling later", extra={"fields": {"count": len(candidate_ids)}})
            self._spawn(self._record_later(candidate_ids, state))

    async def _record_later(
        self, candidate_ids: tuple[CandidateId, ...], state: ForwardStatus
    ) -> None:
        # If this process ends before the outcome is recorded, the items stay unsettled, and another
        # process looks them up.
        for _ in range(SETTLE_TRIES):
            await asyncio.sleep(self._retry_seconds)
            if await record(self._guard, self._principal, self._server, candidate_ids, state):
                return
