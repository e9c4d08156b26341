"""Takes in what another server kept before the gate stood in front of it, labelled `unknown`.

An operator may have them raised afterwards.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from policy.model import Memory, PrincipalId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.upkeep import ADOPT, AdoptedView, AdoptRequest, AdoptView
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item
from proxy.seams.operation import WrittenItem
from storage.features.vouch import Vouch
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Decision

_ADMIT: Final = Decision.ADMIT.value
FLAGGED: Final = "flagged"
_STATES: Final = {Decision.REJECT.value: FLAGGED, Decision.HOLD.value: "held"}


class AdoptsItems(Protocol):
    """What the taking in of old items needs of the part that guards servers of one protocol."""

    async def adopt(
        self,
        tenant: Tenant,
        server: str,
        tool: str,
        items: tuple[Item, ...],
        approved_by: PrincipalId | None = None,
    ) -> tuple[WrittenItem, ...]:
        """A verdict for each item that the server kept.

        An item taken in before gets its first verdict again. The person `approved_by` was shown all
        of each item.
        """
        ...


class Adoption:
    """Takes in what servers of any protocol kept before the gate. Event loop only."""

    def __init__(self, guard: AdoptsItems, reader: MemoryReader, writer: MemoryWriter) -> None:
        self._guard = guard
        self._reader = reader
        self._writer = writer

    @route(ADOPT)
    async def adopt(self, call: OperatorCall[AdoptRequest]) -> AdoptView:
        """Take in the items; each change leaves a leaf.

        Taking in the same items again changes nothing, so an interrupted call is completed by
        repeating it.

        Raises:
            MalformedRequest: An item is too large, or is no new memory, or several are vouched for
                at once; none was taken in.
            StorageError: Not every item is recorded.
        """
        asked, server, tenant = call.asked, call.argument, Tenant(call.asked.tenant)
        if asked.vouch:
            return await self._vouched(call.operator, tenant, server, asked)
        written = await self._guard.adopt(tenant, server, asked.tool, asked.items)
        taken = [one.memory_id if one.decision == _ADMIT else None for one in written]
        found = await asyncio.to_thread(
            lambda: [None if one is None else self._reader.get(tenant, one) for one in taken]
        )
        return AdoptView(
            adopted=tuple(_view(one, memory) for one, memory in zip(written, found, strict=True))
        )

    async def _vouched(
        self, by: PrincipalId, tenant: Tenant, server: str, asked: AdoptRequest
    ) -> AdoptView:
        """Take in one item as a person's own words, after that person was shown all of it."""
        if len(asked.items) != 1:
            raise MalformedRequest("items: a person vouches for one at a time, after reading it")
        (one,) = await self._guard.adopt(tenant, server, asked.tool, asked.items)
        # An item that is held already waits in review, and is decided there once.
        if one.decision == Decision.REJECT.value:
            (one,) = await self._guard.adopt(tenant, server, asked.tool, asked.items, by)
        memory = None
        if one.decision == _ADMIT and one.memory_id is not None:
            memory = await asyncio.to_thread(self._reader.get, tenant, one.memory_id)
        if memory is not None and memory.candidate_id == one.candidate_id:
            await self._writer.order(Vouch(memory.memory_id, tenant, by, memory.version))
            memory = await asyncio.to_thread(self._reader.get, tenant, memory.memory_id)
        return AdoptView(adopted=(_view(one, memory),))


def _view(one: WrittenItem, memory: Memory | None) -> AdoptedView:
    if one.decision != _ADMIT:
        state = _STATES.get(one.decision, "undecided")
    elif memory is None:
        state = "gone"
    else:
        state = memory.source.value
    return AdoptedView(
        state=state,
        memory_id=one.memory_id,
        leaf_index=one.leaf_index,
        reason=None if one.reason is None else one.reason.value,
    )
