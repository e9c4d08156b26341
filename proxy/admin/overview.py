"""Shows operators the store as a whole: status, audit log, sessions and ids."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from policy.model import Tenant
from policy.query import EVERYTHING
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended, leaf_view, proof_view
from proxy.admin.wire.provenance import (
    CHECKPOINT,
    LEAVES,
    PROOF,
    SESSION,
    SESSIONS,
    VERDICTS,
    LeafPage,
    Proof,
    VerdictList,
    VerdictRow,
    VerdictsQuery,
)
from proxy.admin.wire.route import (
    IDS,
    IDS_SHOWN,
    Empty,
    IdKind,
    IdList,
    IdsQuery,
    LeafQuery,
    LeavesQuery,
    NoQuery,
    SessionsQuery,
)
from proxy.admin.wire.store import (
    CHECK,
    COMPACT,
    STATUS,
    CheckView,
    CompactView,
    OrphanView,
    StatusView,
)
from proxy.admin.wire.upkeep import USAGE, UsageList
from proxy.intercept.graphs import Graphs
from proxy.ledger.sessions import Sessions
from proxy.ledger.wire import SessionList, SessionView
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.transport.auth import Authenticator
from proxy.version import version
from proxy.withhold.withholding import Withholding
from storage.audit import InterceptedLeaf, Leaf, VerdictLeaf, decode_leaf
from storage.features.cases.wrong_answers import Cases
from storage.features.incidents.batches import Incidents
from storage.features.kept_places import KeptPlaces
from storage.features.quarantine.quarantined_memories import QuarantinedMemories
from storage.features.recalls.ledger import RecallLedger
from storage.features.upstream.intents import Forwards
from storage.ground.errors import StoreCorrupt
from storage.interfaces import AuditReader, MemoryReader, MemoryWriter
from storage.values import AuditHead, Embed

_LEAVES_PER_VERDICT: Final = 4


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Answers operators' calls about the whole store, one method per call. Event loop only."""

    writer: MemoryWriter
    reader: MemoryReader
    audit: AuditReader
    graphs: Graphs
    ledger: Sessions
    # Makes vectors of texts; None if clients send vectors.
    embed: Embed | None
    places: KeptPlaces
    surroundings: Environment

    @route(STATUS)
    async def status(self, _call: OperatorCall[NoQuery]) -> StatusView:
        """A summary of the store: version, counts, and what waits for a person."""
        seen, serving = self.ledger.unmapped, self.surroundings.serving
        return extended(
            StatusView,
            self.reader.status(),
            program=version(),
            listeners=serving.listeners,
            upstreams=tuple(serving.upstreams),
            unmapped_tools=seen.all(),
            program_tools=self.ledger.programs.all(),
            unread_places=self.places.unread_count(),
            wider=serving.wider(),
            receivers_behind=serving.receivers_behind(),
        )

    @route(USAGE)
    async def usage(self, _call: OperatorCall[NoQuery]) -> UsageList:
        """The space in the store that each tenant takes."""
        return UsageList(tenants=self.reader.usage())

    @route(LEAVES)
    async def leaves(self, call: OperatorCall[LeavesQuery]) -> LeafPage:
        """A slice of the audit log's leaves, oldest first."""
        offset = call.asked.offset
        data = await asyncio.to_thread(self.audit.leaves, offset, call.asked.limit)
        return LeafPage(
            size=self.audit.head().size,
            offset=offset,
            leaves=tuple(leaf_view(offset + at, leaf) for at, leaf in enumerate(data)),
        )

    @route(VERDICTS)
    async def verdicts(self, call: OperatorCall[VerdictsQuery]) -> VerdictList:
        """The newest verdicts of the audit log, each with the principal that proposed the text."""
        return await asyncio.to_thread(self._verdicts, call.asked)

    def _verdicts(self, asked: VerdictsQuery) -> VerdictList:
        size = self.audit.head().size
        # A verdict has a leaf of its interception before it, and few leaves are neither.
        until = size if asked.until is None else min(size, asked.until)
        begin = max(asked.since, until - _LEAVES_PER_VERDICT * asked.limit)
        data = self.audit.leaves(begin, until - begin) if begin < until else ()
        leaves = dict(enumerate(map(decode_leaf, data), begin))
        found = [(at, one) for at, one in leaves.items() if isinstance(one, VerdictLeaf)]
        shown = found[-asked.limit :]
        return VerdictList(
            verdicts=tuple(self._verdict_row(at, one, leaves) for at, one in reversed(shown)),
            begin=shown[0][0] if len(shown) < len(found) else begin,
            decisions=self.surroundings.decisions(),
            leaf_count=size,
        )

    def _verdict_row(self, at: int, leaf: VerdictLeaf, leaves: Mapping[int, Leaf]) -> VerdictRow:
        # Each reading of the log verifies its signed head, and most interceptions are among these.
        seen = leaves.get(leaf.intercepted_index)
        if seen is None:
            seen = decode_leaf(*self.audit.leaves(leaf.intercepted_index, 1))
        culprit = leaf.culprit
        if not isinstance(seen, InterceptedLeaf):
            raise StoreCorrupt("a verdict names no interception")
        return extended(
            VerdictRow,
            leaf,
            leaf=at,
            principal=seen.principal_id,
            change=seen.change,
            server="" if culprit is None else culprit.server or "",
            tool="" if culprit is None else culprit.tool or "",
        )

    @route(PROOF)
    async def prove(self, call: OperatorCall[LeafQuery]) -> Proof:
        """The proof that one leaf is in the signed log."""
        proof = await asyncio.to_thread(self.audit.prove, call.asked.leaf)
        return extended(
            Proof,
            proof_view(proof),
            leaf_base64=base64.b64encode(proof.leaf).decode(),
            verifier_key=proof.head.verifier_key,
        )

    @route(CHECKPOINT)
    async def checkpoint(self, _call: OperatorCall[NoQuery]) -> AuditHead:
        """The signed head (checkpoint) of the audit log, which contains the number of leaves."""
        return self.audit.head()

    @route(SESSIONS)
    async def sessions(self, call: OperatorCall[SessionsQuery]) -> SessionList:
        """The sessions of agents, most recently active first."""
        return self.ledger.listed(call.asked.limit)

    @route(SESSION)
    async def session(self, call: OperatorCall[NoQuery]) -> SessionView:
        """The texts that entered one session, without their content, and the writes of the session.

        Raises:
            NotFound: No session of that id is known.
        """
        view = self.ledger.shown(call.argument)
        if view is None:
            raise NotFound("no session of that id is known")
        return view

    @route(CHECK)
    async def check(self, _call: OperatorCall[Empty]) -> CheckView:
        """Check store, session ledger and knowledge graph; return the problems that were found."""
        report = await asyncio.to_thread(self.reader.check, self.embed)
        problem = await self.ledger.check()
        orphans, unread = await asyncio.to_thread(self._orphans)
        problems = (*report.problems, *unread, *(() if problem is None else (problem,)))
        return extended(CheckView, report, problems=problems, orphans=orphans)

    def _orphans(self) -> tuple[tuple[OrphanView, ...], tuple[str, ...]]:
        """The observations (texts about an entity of the knowledge graph) whose entity is gone.

        Also a message for each tenant whose graph is too large to be checked.
        """
        found: list[OrphanView] = []
        unread: list[str] = []
        for tenant in (one.tenant for one in self.reader.usage()):
            try:
                orphans = self.graphs.orphans(tenant)
            except MalformedRequest:
                unread.append(f"the graph of tenant {tenant} is too large to be looked through")
                continue
            found += (
                OrphanView(tenant=tenant, memory_id=one.memory_id, entity_name=one.entity_name)
                for one in orphans
            )
        return tuple(found), tuple(unread)

    @route(COMPACT)
    async def compact(self, call: OperatorCall[Empty]) -> CompactView:
        """Rewrite the store's files without their free pages; return how many bytes that saved."""
        return CompactView(bytes_saved=await self.writer.compact(call.operator))


RECALLS_MAX: Final = 10_000
"""How many of a tenant's newest recalls are searched for an id."""


class IdSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Completes ids of which a person typed the first characters. Event loop only."""

    authenticator: Authenticator
    reader: MemoryReader
    under_quarantine: QuarantinedMemories
    incidents: Incidents
    cases: Cases
    recalls: RecallLedger
    forwards: Forwards
    ledger: Sessions
    # None if no model front is configured: then no text is withheld from model requests.
    withholding: Withholding | None

    @route(IDS)
    async def all(self, call: OperatorCall[IdsQuery]) -> IdList:
        """The ids that begin with the given characters; for a complete id, that id alone."""
        asked = call.asked
        found: Iterable[str]
        match asked.kind:
            case IdKind.HELD:
                found = [one.candidate_id for one in self.reader.held()]
            case IdKind.REFUSED:
                withheld = () if self.withholding is None else self.withholding.refused()
                found = {*withheld, *await asyncio.to_thread(self.reader.denied)}
            case IdKind.SESSION:
                found = self.ledger.session_ids()
            case IdKind.MEMORY:
                found = await asyncio.to_thread(self._memory_ids, Tenant(asked.tenant))
            case IdKind.KEY:
                found = self.authenticator.keys.by_id
            case IdKind.INCIDENT:
                cases = await asyncio.to_thread(self.cases.all)
                found = [one.case_id for one in cases]
                found += [one.incident_id for one in self.incidents.all()]
            case IdKind.RECALL:
                found = await asyncio.to_thread(self._recall_ids, Tenant(asked.tenant))
            case IdKind.UNSETTLED:
                found = [one.candidate_id for one in self.forwards.pending()]
        known = sorted(one for one in found if one.startswith(asked.begins))
        if asked.begins in known:
            known = [asked.begins]
        return IdList(ids=tuple(known[:IDS_SHOWN]), total=len(known))

    def _recall_ids(self, tenant: Tenant) -> list[str]:
        return [one.recall_id for one in self.recalls.recalls(tenant, limit=RECALLS_MAX)]

    def _memory_ids(self, tenant: Tenant) -> tuple[str, ...]:
        hidden = self.under_quarantine.find(tenant)
        live = self.reader.ids(tenant, EVERYTHING, sys.maxsize)
        return (*live, *(one.memory_id for one in hidden))
