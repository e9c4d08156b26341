"""What an operator may do, apart from HTTP: every command of the operator API as one method.

This code has no way of its own to change the store: a purge is a candidate that the gate judges,
the rest are calls of the writer that leave a leaf each.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

import msgspec

from policy.model import (
    CandidateId,
    ChangeKind,
    Channel,
    MemoryId,
    Principal,
    PrincipalId,
    Tenant,
)
from policy.query import EVERYTHING, Compare, Field, Test
from policy.trust.outcomes import NOT_FED
from policy.verdict import InvariantBroken
from proxy.admin.adopting import Adopting
from proxy.admin.answers_blamed import WrongAnswers
from proxy.admin.backends_compared import BackendsCompared
from proxy.admin.dry_run import Explainer, fired_in
from proxy.admin.failing import Failing
from proxy.admin.judge_tests import JudgeTests
from proxy.admin.keys_and_tokens import Credentials
from proxy.admin.paroles_asked import ParolesAsked
from proxy.admin.persons_word import REVIEW, Deciding
from proxy.admin.queue import Queue, stored_text
from proxy.admin.recalled_reads import RecalledReads
from proxy.admin.registering import Registering
from proxy.admin.repairing import Repairing
from proxy.admin.retention import Retaining
from proxy.admin.rules_in_force import Rules
from proxy.admin.servers_behind import ServersBehind
from proxy.admin.tracing import Tracing
from proxy.admin.views import (
    checkpoint_view,
    due_view,
    hand_view,
    held_view,
    history_step,
    leaf_view,
    memory_view,
    origin_view,
    outcome_view,
    proof_view,
    standing_view,
    trust_view,
)
from proxy.admin.wire.dry_run import ExplainRequest, ExplainView
from proxy.admin.wire.ids import BEGINNING_LEN_MIN, IDS_SHOWN, IdKind, IdList, IdsQuery
from proxy.admin.wire.store import (
    CheckpointView,
    CheckView,
    CompactView,
    HeldView,
    HistoryView,
    LeafPage,
    MemoryPage,
    MemoryView,
    OriginQuery,
    OriginTrustView,
    OrphanView,
    OutcomeView,
    PolicyView,
    ProofView,
    PurgeRequest,
    PurgeView,
    StatusView,
    TrustList,
    TrustView,
)
from proxy.admin.wire.upkeep import (
    ForgivenView,
    ObservedList,
    ObservedView,
    PolicyReloadView,
    QuarantinedList,
    QuarantineRequest,
    RetentionView,
    StandingView,
    TenantUsageView,
    UsageList,
    VouchRequest,
)
from proxy.intercept.graphs import Graphs
from proxy.ledger.sessions import Sessions
from proxy.ledger.wire import SessionList, SessionView
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import Proposal, Write, Written
from proxy.seams.performs import Performs
from proxy.seams.surroundings import Surroundings
from proxy.withhold.withholding import Withholding
from storage.audit import plain_name
from storage.interfaces import (
    AuditReader,
    MemoryReader,
    MemoryWriter,
    Objections,
    Quarantined,
)
from storage.trust import OriginTrust
from telemetry.events import TraceContext

DIALECT = "admin"
_DUE_NAMED_MAX = 1_000


class Operate(msgspec.Struct, frozen=True, kw_only=True):
    """One method for each command that an operator may give; event loop only.

    `by` is the operator's name, for the audit leaf.
    """

    writer: MemoryWriter
    reader: MemoryReader
    audit: AuditReader
    objections: Objections
    under_quarantine: Quarantined
    operations: Performs
    graphs: Graphs
    deciding: Deciding
    queue: Queue
    credentials: Credentials
    explainer: Explainer
    rules: Rules
    retaining: Retaining
    behind: ServersBehind
    adopting: Adopting
    backends: BackendsCompared
    registering: Registering
    recalled: RecalledReads
    failing: Failing
    judge_tests: JudgeTests
    repairing: Repairing
    wrong_answers: WrongAnswers
    tracing: Tracing
    paroles: ParolesAsked
    ledger: Sessions
    surroundings: Surroundings
    # None if no model front is configured: then no text is withheld from model requests.
    withholding: Withholding | None = None

    def status(self) -> StatusView:
        """The store's state at a glance: version, counts and what waits."""
        status = msgspec.convert(msgspec.structs.asdict(self.reader.status()), StatusView)
        return msgspec.structs.replace(status, unmapped_tools=self.ledger.unmapped.all())

    def usage(self) -> UsageList:
        """The space that each tenant takes of the store."""
        return UsageList(
            tenants=tuple(
                msgspec.convert(msgspec.structs.asdict(one), TenantUsageView)
                for one in self.reader.usage()
            )
        )

    async def memories(
        self, tenant: Tenant, user_id: str | None, offset: int, limit: int
    ) -> MemoryPage:
        """Live memories of a tenant, newest first."""
        where = (
            EVERYTHING
            if user_id is None
            else Test(field=Field.USER_ID, compare=Compare.EQ, values=(user_id,))
        )
        page = await asyncio.to_thread(self.reader.page, tenant, where, offset, limit)
        return MemoryPage(
            total=page.total,
            offset=offset,
            memories=tuple(memory_view(memory) for memory in page.memories),
        )

    async def observed(self, tenant: Tenant) -> ObservedList:
        """Memories that the gate objected to and that observe mode let in all the same."""
        found = await asyncio.to_thread(self.objections.find, tenant)
        return ObservedList(
            observed=tuple(
                ObservedView(
                    memory=memory_view(one.memory),
                    decision=one.decision,
                    reason=one.reason.value if one.reason else None,
                    step=one.step,
                    leaf_index=one.leaf_index,
                )
                for one in found
            )
        )

    async def memory(self, tenant: Tenant, memory_id: MemoryId) -> MemoryView:
        """One memory, live or under quarantine.

        Raises:
            NotFound: The tenant has no memory with this id.
        """
        found = self.reader.get(tenant, memory_id)
        found = found or self.under_quarantine.get(tenant, memory_id)
        if found is None:
            raise NotFound("there is no such memory in this tenant")
        hands = await asyncio.to_thread(self.under_quarantine.hands, tenant, memory_id)
        return msgspec.structs.replace(
            memory_view(found),
            hidden=tuple(map(hand_view, hands)),
            had_read=self.had_read(found.candidate_id, found.text, found.metadata_json),
        )

    def had_read(self, candidate_id: CandidateId, *said: str | None) -> tuple[str, ...] | None:
        """What the conversation that wrote this memory had read: names of sources, no content.

        None where the session that wrote it is unknown.
        """
        found = self.ledger.read_before(candidate_id)
        if found is None:
            return None
        names = (" ".join(plain_name(name, *said) for name in one) for one in found)
        return tuple(dict.fromkeys(names))

    def history(self, tenant: Tenant, memory_id: MemoryId) -> HistoryView:
        """Every committed step of one memory.

        Raises:
            NotFound: The tenant never had a memory with this id.
        """
        entries = self.reader.history(tenant, memory_id)
        entries = entries or self.under_quarantine.history(tenant, memory_id)
        if not entries:
            raise NotFound("there never was such a memory in this tenant")
        return HistoryView(
            memory_id=memory_id, steps=tuple(history_step(entry) for entry in entries)
        )

    async def quarantined(self, tenant: Tenant) -> QuarantinedList:
        """Quarantined memories of a tenant."""
        found = await asyncio.to_thread(self.under_quarantine.find, tenant)
        return QuarantinedList(memories=tuple(memory_view(memory) for memory in found))

    async def quarantine(
        self, by: Principal, memory_id: MemoryId, asked: QuarantineRequest
    ) -> StandingView:
        """Hide one memory from every reader, at once."""
        done = await self.writer.quarantine(
            memory_id,
            Tenant(asked.tenant),
            by.principal_id,
            asked.reason,
            with_descendants=asked.with_descendants,
        )
        return standing_view(done)

    async def vouch(self, by: Principal, memory_id: MemoryId, asked: VouchRequest) -> StandingView:
        """Label a memory as a person's own words, after the person read all of it."""
        done = await self.writer.vouch(
            memory_id, Tenant(asked.tenant), by.principal_id, asked.version
        )
        return standing_view(done)

    async def purge(
        self, by: Principal, memory_id: MemoryId, asked: PurgeRequest, trace: TraceContext
    ) -> PurgeView:
        """Erase one memory for good; judged by the gate like any change.

        Raises:
            NotFound: The tenant has no memory with this id.
        """
        principal = Principal(
            principal_id=by.principal_id, tenant=Tenant(asked.tenant), channel=Channel.OPERATOR
        )
        proposal = Proposal(change=ChangeKind.PURGE, memory_id=memory_id)
        result = await self.operations.perform(
            principal, Write(proposals=(proposal,)), dialect=DIALECT, trace=trace
        )
        if not isinstance(result, Written) or len(result.items) != 1:
            raise InvariantBroken("one proposal gives one item")
        item = result.items[0]
        if item.decision == "missing":
            raise NotFound("there is no such memory in this tenant")
        saved = None
        if asked.compact and item.decision == "admit":
            saved = await self.writer.compact()
        return PurgeView(
            memory_id=memory_id,
            decision=item.decision,
            reason=item.reason.value if item.reason else None,
            version=item.version,
            leaf_index=item.leaf_index,
            bytes_saved=saved,
        )

    async def ids(self, asked: IdsQuery) -> IdList:
        """The whole ids that begin with the characters that a person typed.

        A whole id gives only itself.
        """
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
                records = self.reader.keys()
                found = [record.key_id for record in records]
            case IdKind.INCIDENT:
                found = [one.incident_id for one in self.repairing.all().incidents]
            case IdKind.UNSETTLED:
                found = [one.candidate_id for one in self.behind.unsettled(None).unsettled]
        known = sorted(one for one in found if one.startswith(asked.begins))
        if asked.begins in known:
            known = [asked.begins]
        return IdList(ids=tuple(known[:IDS_SHOWN]), total=len(known))

    async def whole_id(self, kind: IdKind, begins: str, tenant: Tenant) -> str:
        """The one id of this kind that begins so; the id of a deleted memory only as a whole.

        Raises:
            MalformedRequest: Several begin so, or it is too short for the beginning of an id.
            NotFound: No id begins so.
        """
        if kind is IdKind.MEMORY and self.reader.history(tenant, MemoryId(begins)):
            return begins
        if len(begins) < BEGINNING_LEN_MIN:
            raise MalformedRequest(f"{kind.value}: the beginning of an id has 4 characters or more")
        found = await self.ids(IdsQuery(kind=kind, begins=begins, tenant=tenant))
        if found.total > 1:
            named = ", ".join(found.ids)
            raise MalformedRequest(f"{kind.value}: {found.total} ids begin so, such as {named}")
        if not found.ids:
            raise NotFound(f"no {kind.value} of this tenant has an id that begins so")
        return found.ids[0]

    def _memory_ids(self, tenant: Tenant) -> tuple[str, ...]:
        hidden = self.under_quarantine.find(tenant)
        live = self.reader.ids(tenant, EVERYTHING, sys.maxsize)
        return (*live, *(one.memory_id for one in hidden))

    async def held(self, candidate_id: CandidateId) -> HeldView:
        """One held candidate with its content, and the words for which it counts as an order.

        Raises:
            NotFound: No held candidate has this id.
        """
        found = self.reader.held_candidate(candidate_id)
        if found is None:
            raise NotFound("no candidate of that id is held")
        view = held_view(found)
        if found.candidate is None:
            return msgspec.structs.replace(view, had_read=self.had_read(candidate_id))
        said = (found.candidate.text, found.candidate.metadata_json)
        return msgspec.structs.replace(
            view,
            had_read=self.had_read(candidate_id, *said),
            fired=await asyncio.to_thread(fired_in, found.candidate),
            stored=await asyncio.to_thread(stored_text, self.reader, found.candidate),
        )

    async def release(self, by: Principal, candidate_id: CandidateId) -> OutcomeView:
        """Judge a held candidate again, now with a person's approval."""
        return outcome_view(await self.deciding.release(candidate_id, by.principal_id, REVIEW))

    async def deny(self, by: Principal, candidate_id: CandidateId) -> OutcomeView:
        """Refuse a held candidate."""
        return outcome_view(await self.deciding.deny(candidate_id, by.principal_id, REVIEW))

    async def forgive(self, by: Principal, candidate_id: CandidateId) -> ForgivenView:
        """Forget the denial of a candidate's lines, and end the withholding of its text.

        Raises:
            NotFound: No line of this candidate is denied, and no text withheld for it.
        """
        count, withholding = 1, self.withholding
        if withholding is not None and candidate_id in withholding.refused():
            count, leaf_index = await withholding.forgive(
                candidate_id, lambda: self.writer.forgive(candidate_id, by.principal_id)
            )
        elif candidate_id in await asyncio.to_thread(self.reader.denied):
            leaf_index = await self.writer.forgive(candidate_id, by.principal_id)
        else:
            raise NotFound(
                "nothing is denied or withheld under that id; what waits is released or denied"
            )
        return ForgivenView(candidate_id=candidate_id, candidates=count, leaf_index=leaf_index)

    def all_trust(self) -> TrustList:
        """Every principal and every origin with a recorded trust."""
        known = self.reader.all_trust()
        return TrustList(
            principals=tuple(trust_view(who, state) for who, state in known),
            origins=tuple(origin_view(one) for one in self.reader.all_origins()),
            not_fed=NOT_FED,
        )

    def trust(self, principal_id: PrincipalId) -> TrustView:
        """The trust in one principal; a newcomer's if the principal never wrote.

        Raises:
            NotFound: No principal has that name.
        """
        self._known(principal_id)
        history = self.reader.trust_history(principal_id)
        return trust_view(principal_id, self.reader.trust(principal_id), history)

    def origin_trust(self, asked: OriginQuery) -> OriginTrustView:
        """The trust of one origin, with its last changes.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        origin = self._origin(asked)
        return origin_view(
            origin, self.reader.origin_history(origin.tenant, origin.server, origin.tool)
        )

    async def restore_origin(self, by: Principal, asked: OriginQuery) -> OriginTrustView:
        """Give an origin (a server's tool) the trust of a newcomer again.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        one = self._origin(asked)
        await self.writer.restore_origin(one.tenant, one.server, one.tool, by.principal_id)
        return self.origin_trust(asked)

    def _origin(self, asked: OriginQuery) -> OriginTrust:
        named = (asked.tenant, asked.server, asked.tool)
        for one in self.reader.all_origins():
            if (one.tenant, one.server, one.tool) == named:
                return one
        raise NotFound("no outcome of what came from that tool: `mnemogate trust show` lists them")

    def _known(self, principal_id: PrincipalId) -> None:
        recorded = any(who == principal_id for who, _ in self.reader.all_trust())
        if not recorded and not self.credentials.knows(principal_id):
            raise NotFound("no principal of that name: it has no key, no binding and no trust")

    async def restore_trust(self, by: Principal, principal_id: PrincipalId) -> TrustView:
        """Put a principal back on the top rung of the trust ladder.

        Raises:
            NotFound: No principal has that name.
        """
        self._known(principal_id)
        state = await self.writer.restore_trust(principal_id, by.principal_id)
        return trust_view(principal_id, state)

    async def leaves(self, offset: int, limit: int) -> LeafPage:
        """Part of the audit log, leaf by leaf."""
        data = await asyncio.to_thread(self.audit.leaves, offset, limit)
        return LeafPage(
            size=self.audit.head().size,
            offset=offset,
            leaves=tuple(leaf_view(offset + at, leaf) for at, leaf in enumerate(data)),
        )

    async def prove(self, index: int) -> ProofView:
        """The proof that one leaf is in the signed log."""
        return proof_view(await asyncio.to_thread(self.audit.prove, index))

    def checkpoint(self) -> CheckpointView:
        """The signed head of the audit log, which says how many leaves there are."""
        return checkpoint_view(self.audit.head())

    def policy(self) -> PolicyView:
        """The ruleset in force."""
        in_force = self.rules.in_force()
        return PolicyView(digest=in_force.digest, epoch=in_force.epoch, text=self.rules.text)

    async def reload_policy(self, by: Principal, digest: str | None) -> PolicyReloadView:
        """Put the ruleset's file in force as it is now.

        Raises:
            RulesetRefused: The file cannot be used; the old rules stay in force.
        """
        done = await self.rules.reload(by.principal_id, digest)
        return PolicyReloadView(digest=done.digest, epoch=done.epoch, changed=done.changed)

    async def retain(self, *, dry_run: bool) -> RetentionView:
        """Erase a batch of memories that the ruleset no longer keeps, or only list them."""
        swept = await self.retaining.sweep(dry_run=dry_run)
        return RetentionView(
            due_count=len(swept.due),
            purged_count=swept.purged_count,
            due=tuple(due_view(one) for one in swept.due[:_DUE_NAMED_MAX]),
        )

    def explain(self, asked: ExplainRequest) -> ExplainView:
        """Judge a hypothetical write; nothing is staged, logged or stored."""
        now_ms = self.surroundings.now_ms()
        return self.explainer.explain(asked, self.rules.in_force(), now_ms)

    def sessions(self, limit: int) -> SessionList:
        """The sessions of agents, most recently active first."""
        return self.ledger.listed(limit)

    def one_session(self, session: str) -> SessionView:
        """What entered one session, and the writes that followed.

        Raises:
            NotFound: No session of that id is known.
        """
        view = self.ledger.shown(session)
        if view is None:
            raise NotFound("no session of that id is known")
        return view

    async def check(self) -> CheckView:
        """Check the whole store for contradictions, in a thread."""
        report = await asyncio.to_thread(self.reader.check)
        problem = await self.ledger.check()
        orphans, unread = await asyncio.to_thread(self._orphans)
        problems = (*report.problems, *unread, *(() if problem is None else (problem,)))
        return CheckView(
            rows=report.rows,
            vectors=report.vectors,
            leaves=report.leaves,
            version=report.version,
            problems=problems,
            orphans=orphans,
        )

    def _orphans(self) -> tuple[tuple[OrphanView, ...], tuple[str, ...]]:
        """The observations (texts about an entity of the knowledge graph) whose entity is gone.

        Also the tenants that could not be checked for such observations.
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

    async def compact(self) -> CompactView:
        """Rewrite the store without its free pages."""
        return CompactView(bytes_saved=await self.writer.compact())
