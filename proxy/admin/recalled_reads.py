"""The recall ledger for operators: which memories were served to whom, and which a model saw."""

from __future__ import annotations

import asyncio

from policy.model import MemoryId, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended
from proxy.admin.wire.queries import RecallsQuery, TenantQuery
from proxy.admin.wire.recalled import (
    RECALL,
    RECALLS,
    REPLY,
    RecallList,
    RecallView,
    ReplyView,
)
from proxy.admin.wire.route import NoQuery
from proxy.seams.faults import NotFound
from storage.features.recalls import Recall, Recalls, SeenMemory


class RecalledReads:
    """Answers operators' questions about the recall ledger.

    Event loop only; the ledger's files are read in a thread.
    """

    def __init__(self, ledger: Recalls) -> None:
        self._ledger = ledger

    @route(RECALLS)
    async def all(self, call: OperatorCall[RecallsQuery]) -> RecallList:
        """The newest reads of a tenant, of a session, or those that showed one memory."""
        return await asyncio.to_thread(self._all, call.asked)

    def _all(self, asked: RecallsQuery) -> RecallList:
        found = self._ledger.recalls(
            Tenant(asked.tenant),
            session=asked.session,
            memory_id=None if asked.memory_id is None else MemoryId(asked.memory_id),
            limit=asked.limit,
        )
        since_ms = self._ledger.kept_since_ms
        return RecallList(kept_since_ms=since_ms, recalls=tuple(map(recall_view, found)))

    @route(RECALL)
    async def one(self, call: OperatorCall[NoQuery]) -> RecallView:
        """One recorded read of memories.

        Raises:
            NotFound: The read is not kept; the error's detail says since when reads are kept.
        """
        found = await asyncio.to_thread(self._ledger.recall, call.argument)
        if found is None:
            raise await self._not_kept("recall")
        return recall_view(found)

    @route(REPLY)
    async def reply(self, call: OperatorCall[TenantQuery]) -> ReplyView:
        """One reply of a model, by the id that its API gave it.

        Raises:
            NotFound: The reply is not kept; the error's detail says since when replies are kept.
        """
        tenant = Tenant(call.asked.tenant)
        found = await asyncio.to_thread(self._ledger.reply, tenant, call.argument)
        if found is None:
            raise await self._not_kept("reply")
        memories = tuple(extended(SeenMemory, one) for one in found.memories)
        return extended(ReplyView, found, memories=memories)

    async def _not_kept(self, what: str) -> NotFound:
        since_ms = await asyncio.to_thread(lambda: self._ledger.kept_since_ms)
        return NotFound(
            f"no such {what} is kept; what is kept begins at {since_ms} (Unix milliseconds)"
        )


def recall_view(found: Recall) -> RecallView:
    """One recorded read of memories, as the operator API shows it."""
    return extended(RecallView, found, replayable=found.vector is not None)
