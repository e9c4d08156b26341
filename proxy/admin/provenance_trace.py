"""Shows operators where memories came from, and which reads and replies contained them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import msgspec

from policy.model import ChangeKind, HistoryEntry, Memory, MemoryId, SourceKind, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended, proof_view
from proxy.admin.wire.provenance import (
    LINEAGE,
    LINEAGE_SHOWN,
    PROVENANCE,
    RECALL,
    RECALLS,
    REPLY,
    LineageQuery,
    LineageView,
    ProvenanceNode,
    ProvenanceStep,
    ProvenanceView,
    RecallList,
    RecallView,
    ReplyView,
)
from proxy.admin.wire.route import NoQuery, RecallsQuery, TenantQuery
from proxy.ledger.sessions import Sessions
from proxy.ledger.wire import OriginView, SegmentView
from proxy.seams.faults import NotFound
from storage.audit import InterceptedLeaf, VerdictLeaf, decode_leaf
from storage.features.lineage import Lineage
from storage.features.recalls import Recall, SeenMemory
from storage.features.recalls.ledger import RecallLedger
from storage.ground.errors import StoreCorrupt
from storage.interfaces import Store
from storage.values import AuditProof

MEMORIES_MAX: Final = 100
STEPS_MAX: Final = 50
_LOST: Final = "lost"


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """One memory's newest steps, with the audit proofs of each step's interception and verdict."""

    status: str
    parents: tuple[MemoryId, ...]
    steps: tuple[tuple[HistoryEntry, AuditProof, AuditProof], ...]


class ProvenanceTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Traces a memory back to its sources. Event loop only; a thread reads the store."""

    store: Store
    ledger: Sessions
    lineage: Lineage

    @route(LINEAGE)
    async def related(self, call: OperatorCall[LineageQuery]) -> LineageView:
        """A slice of a memory's lineage: `LINEAGE_SHOWN` memories at most.

        Raises:
            NotFound: The tenant never had a memory with this id.
        """
        tenant, offset = Tenant(call.asked.tenant), call.asked.offset
        found = await asyncio.to_thread(
            self.lineage.nodes, tenant, call.memory_id, offset, LINEAGE_SHOWN + 1
        )
        if not found and not offset:
            raise NotFound("there never was such a memory in this tenant")
        following = offset + LINEAGE_SHOWN if len(found) > LINEAGE_SHOWN else None
        return LineageView(memories=found[:LINEAGE_SHOWN], next=following)

    @route(PROVENANCE)
    async def trace(self, call: OperatorCall[TenantQuery]) -> ProvenanceView:
        """A memory and the memories that it came from, breadth first, up to `MEMORIES_MAX`.

        Raises:
            NotFound: The tenant never had a memory with this id.
        """
        tenant, memory_id = Tenant(call.asked.tenant), call.memory_id
        waiting, seen = deque([memory_id]), {memory_id}
        nodes: list[ProvenanceNode] = []
        while waiting and len(nodes) < MEMORIES_MAX:
            node = await self._node(tenant, waiting.popleft())
            nodes.append(node)
            if len(nodes) == 1 and node.status == _LOST:
                raise NotFound("there is no such memory in this tenant, or it is purged")
            recalled = (one for step in node.steps for one in step.recalled)
            for found in map(MemoryId, (*node.parents, *recalled)):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return ProvenanceView(memories=tuple(nodes), cut=bool(waiting))

    async def _node(self, tenant: Tenant, memory_id: MemoryId) -> ProvenanceNode:
        found = await asyncio.to_thread(self._read, tenant, memory_id)
        return ProvenanceNode(
            memory_id=memory_id,
            status=found.status,
            parents=found.parents,
            steps=tuple(self._step(*one) for one in found.steps),
        )

    def _read(self, tenant: Tenant, memory_id: MemoryId) -> _Read:
        reader, hidden = self.store.reader, self.store.quarantined
        memory: Memory | None = reader.get(tenant, memory_id) or hidden.get(tenant, memory_id)
        entries = reader.history(tenant, memory_id) or hidden.history(tenant, memory_id)
        if not entries or entries[-1].change is ChangeKind.PURGE:
            return _Read(status=_LOST, parents=(), steps=())
        steps: list[tuple[HistoryEntry, AuditProof, AuditProof]] = []
        for entry in entries[-STEPS_MAX:]:
            verdict = self.store.audit.prove(entry.leaf_index)
            seen = self.store.audit.prove(_verdict_of(verdict).intercepted_index)
            steps.append((entry, seen, verdict))
        return _Read(
            status="gone" if memory is None else memory.status.value,
            parents=() if memory is None else memory.derived_from,
            steps=tuple(steps),
        )

    def _step(
        self, entry: HistoryEntry, intercepted: AuditProof, verdict: AuditProof
    ) -> ProvenanceStep:
        seen, leaf = decode_leaf(intercepted.leaf), _verdict_of(verdict)
        if not isinstance(seen, InterceptedLeaf):
            raise StoreCorrupt(f"leaf {intercepted.leaf_index} is no interception")
        session = None if leaf.session is None else self.ledger.shown(leaf.session)
        segments = () if session is None else session.segments
        before = [one for one in segments if one.at_ms <= leaf.at_ms]
        return ProvenanceStep(
            change=entry.change,
            version=entry.version,
            at_ms=entry.at_ms,
            candidate_id=entry.candidate_id,
            principal=seen.principal_id,
            trust=leaf.trust_level,
            target=seen.target,
            approved_by=leaf.approved_by,
            memory_class=leaf.memory_class,
            # The label is read from the audit log, because the log contains the label that was
            # judged, before any person confirmed the memory.
            source=leaf.source,
            basis=leaf.basis,
            intercepted=proof_view(intercepted),
            verdict=proof_view(verdict),
            culprit=None if leaf.culprit is None else extended(OriginView, leaf.culprit),
            session=leaf.session,
            known=leaf.session is None or session is not None,
            segments=tuple(dict.fromkeys(_origin(one) for one in before if one.reads)),
            segments_left_out=0 if session is None else session.segments_left_out,
            recalled=tuple(dict.fromkeys(one.memory_id for one in before if one.memory_id)),
        )


def _verdict_of(proof: AuditProof) -> VerdictLeaf:
    leaf = decode_leaf(proof.leaf)
    if not isinstance(leaf, VerdictLeaf):
        raise StoreCorrupt(f"leaf {proof.leaf_index} is no verdict")
    return leaf


def _origin(segment: SegmentView) -> OriginView:
    return OriginView(
        kind=SourceKind.TOOL_RESULT if segment.channel == "tool" else SourceKind.UNKNOWN,
        server=segment.server,
        tool=segment.tool,
        call_id=segment.call_id,
        memory_id=segment.memory_id,
    )


class RecalledReads:
    """Answers operators' questions about the recall ledger.

    Event loop only; the ledger's files are read in a thread.
    """

    def __init__(self, ledger: RecallLedger) -> None:
        self._ledger = ledger

    @route(RECALLS)
    async def all(self, call: OperatorCall[RecallsQuery]) -> RecallList:
        """The newest reads of a tenant, or only those of one session or that showed one memory."""
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
            NotFound: No such read is stored; the error's detail contains the time of the oldest
                stored record.
        """
        found = await asyncio.to_thread(self._ledger.recall, call.argument)
        if found is None:
            raise await self._not_kept("recall")
        return recall_view(found)

    @route(REPLY)
    async def reply(self, call: OperatorCall[TenantQuery]) -> ReplyView:
        """One reply of a model, by the id that the model's API gave the reply.

        Raises:
            NotFound: No such reply is stored; the error's detail contains the time of the oldest
                stored record.
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
    """A recorded read in the form of the operator API, which leaves out the vector of the query."""
    return extended(RecallView, found, replayable=found.vector is not None)
