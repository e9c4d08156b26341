"""What a server behind kept before the gate: labelled `unknown`, and lifted by a person."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from policy.model import SourceKind, Tenant
from proxy.admin.wire.upkeep import AdoptedView, AdoptView
from storage.values import Decision

if TYPE_CHECKING:
    from policy.model import Memory, MemoryId, Principal
    from proxy.admin.wire.upkeep import AdoptRequest
    from proxy.seams.guard import Item
    from proxy.seams.operation import WrittenItem
    from storage.interfaces import MemoryReader, MemoryWriter

_ADMIT: Final = Decision.ADMIT.value
_LIFTED: Final = SourceKind.TOOL_RESULT
_STATES: Final = {Decision.REJECT.value: "flagged", Decision.HOLD.value: "held"}


class Adopts(Protocol):
    """The guard of one protocol, as far as taking in goes."""

    async def adopt(
        self, tenant: Tenant, server: str, tool: str, items: tuple[Item, ...]
    ) -> tuple[WrittenItem, ...]:
        """A verdict for each item; the first one again for one that was there before."""
        ...


class Adopting:
    """For servers of any protocol. Event loop only."""

    def __init__(self, guard: Adopts, reader: MemoryReader, writer: MemoryWriter) -> None:
        self._guard = guard
        self._reader = reader
        self._writer = writer

    async def adopt(self, by: Principal, server: str, asked: AdoptRequest) -> AdoptView:
        """Take these in, and lift what may be lifted where that is asked; a leaf each.

        Said again it changes nothing, so a half is completed by saying the whole again.

        Raises:
            MalformedRequest: One is too large or no new memory; none was taken in.
            StorageError: Not all of it is recorded.
        """
        tenant = Tenant(asked.tenant)
        written = await self._guard.adopt(tenant, server, asked.tool, asked.items)
        taken = [one.memory_id if one.decision == _ADMIT else None for one in written]
        found = await asyncio.to_thread(
            lambda: [None if one is None else self._reader.get(tenant, one) for one in taken]
        )
        lifted: set[MemoryId] = set()
        if asked.lift:
            # What an agent made of it since is another text than the person was shown.
            same = [
                memory
                for one, memory in zip(written, found, strict=True)
                if memory is not None and memory.candidate_id == one.candidate_id
            ]
            below = [one for one in same if one.ceiling.trust < _LIFTED.trust]
            shown = tuple((one.memory_id, one.version) for one in below)
            done = await self._writer.lift(shown, tenant, by.principal_id) if shown else ()
            lifted = {one.memory_id for one in done if one is not None}
        return AdoptView(
            adopted=tuple(
                _view(one, memory, lifted) for one, memory in zip(written, found, strict=True)
            )
        )


def _view(one: WrittenItem, memory: Memory | None, lifted: set[MemoryId]) -> AdoptedView:
    if one.decision != _ADMIT:
        state = _STATES.get(one.decision, "undecided")
    elif memory is None:
        state = "gone"
    else:
        state = (_LIFTED if memory.memory_id in lifted else memory.ceiling).value
    return AdoptedView(state=state, memory_id=one.memory_id, leaf_index=one.leaf_index)
