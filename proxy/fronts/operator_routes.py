"""The operator API's routing table: a method, a template, a handler, the shapes of both bodies."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.model import PrincipalId, Tenant
from proxy.admin.commands import Operate
from proxy.admin.dry_run import with_words
from proxy.admin.wire import store as wire
from proxy.admin.wire.dry_run import ExplainRequest, ExplainView
from proxy.admin.wire.ids import IdList, IdsQuery
from proxy.admin.wire.incidents import (
    IncidentList,
    IsolateRequest,
    IsolationView,
    RewindRequest,
    RewindView,
)
from proxy.admin.wire.provenance import ProvenanceView
from proxy.admin.wire.queries import (
    AnyTenantQuery,
    LeafQuery,
    LeavesQuery,
    MemoriesQuery,
    SessionsQuery,
    TenantQuery,
)
from proxy.admin.wire.review_queue import Act, ActView, GroupView, ReviewFilter, ReviewPage
from proxy.admin.wire.upkeep import (
    AdoptRequest,
    AdoptView,
    ApproveRequest,
    ForgivenView,
    ObservedList,
    ParoleRequest,
    ParoleView,
    PolicyReloadRequest,
    PolicyReloadView,
    QuarantinedList,
    QuarantineRequest,
    RetentionRequest,
    RetentionView,
    ServerList,
    ServerView,
    SettleRequest,
    StandingView,
    UnsettledList,
    UsageList,
    VouchRequest,
)
from proxy.admin.wire.wrong_answers import BlameRequest, BlameView, CaseView
from proxy.dialects.openapi import Described
from proxy.dialects.query import NoQuery
from proxy.fronts.backend_routes import BACKENDS
from proxy.fronts.operator_call import Handler, OperatorCall
from proxy.fronts.registered_routes import RULES
from proxy.ledger.wire import SessionList, SessionView

API: Final = "/api/v1"


class Route(Described, frozen=True, kw_only=True):
    """One row of the routing table; the template stands below `API`."""

    handler: Handler


async def _status(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """A summary of the store: version, counts, and what waits for a person."""
    return operate.status()


async def _ids(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The ids of one kind that begin with the given characters."""
    return await operate.ids(call.query(IdsQuery))


async def _usage(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """What each tenant takes of the store."""
    return operate.usage()


async def _memories(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Live memories of a tenant, newest first."""
    asked = call.query(MemoriesQuery)
    tenant = Tenant(asked.tenant)
    return await operate.memories(tenant, asked.user_id, asked.offset, asked.limit)


async def _observed(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Memories that observe mode let in, and that an enforcing gate would have kept out."""
    return await operate.observed(call.tenant())


async def _memory(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """One memory, and the names of what the conversation that wrote it had read."""
    return await operate.memory(call.tenant(), call.memory_id())


async def _history(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Every committed step of a memory."""
    return operate.history(call.tenant(), call.memory_id())


async def _provenance(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Where a memory came from: steps, leaves with proofs, sessions and recalled memories."""
    return await operate.tracing.trace(call.tenant(), call.memory_id())


async def _purge(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Erase a memory and its bytes, for good."""
    asked = call.body(wire.PurgeRequest)
    return await operate.purge(call.by, call.memory_id(), asked, call.incoming.trace)


async def _quarantined(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Memories that no reader is shown."""
    return await operate.quarantined(call.tenant())


async def _quarantine(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Hide a memory from every reader, and keep it."""
    return await operate.quarantine(call.by, call.memory_id(), call.body(QuarantineRequest))


async def _parole(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Show a hidden memory again if it passes its trial."""
    return await operate.paroles.parole(call.by, call.memory_id(), call.body(ParoleRequest))


async def _vouch(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Confirm that a memory is true, as if in the operator's own words."""
    return await operate.vouch(call.by, call.memory_id(), call.body(VouchRequest))


async def _isolate(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Hide all memories that came from one place; `dry_run` only names them."""
    return await operate.repairing.isolate(call.by, call.body(IsolateRequest))


async def _rewind(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Put memories into an earlier state, by new commits; `dry_run` only counts them."""
    return await operate.repairing.rewind(call.by, call.body(RewindRequest))


async def _incidents(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """Isolations and rewinds, and the incidents of wrong answers, oldest first."""
    return operate.repairing.all(await operate.wrong_answers.all())


async def _incident(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Answer with the incident of one wrong answer."""
    return await operate.wrong_answers.one(call.argument)


async def _close(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Say that a person has dealt with a wrong answer."""
    call.body(wire.Empty)
    return await operate.wrong_answers.close(call.by, call.argument)


async def _blame(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Search for the memories that caused a wrong answer; `dry_run` only names them."""
    return await operate.wrong_answers.blame(call.by, call.body(BlameRequest))


async def _undo(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Undo an isolation or a rewind; what is hidden for another reason as well stays hidden."""
    call.body(wire.Empty)
    return await operate.repairing.undo(call.by, call.argument)


async def _resume(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Finish an isolation or a rewind that was cut short."""
    call.body(wire.Empty)
    return await operate.repairing.resume(call.by, call.argument)


async def _review(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Held candidates that fit the query, oldest first."""
    return await operate.queue.page(call.query(ReviewFilter))


async def _group(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """What waits of one principal for one place, by its lines; also for the id of a candidate."""
    return await operate.queue.group(call.argument)


async def _release_group(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Let in the lines of a group that were shown, without those that are struck out."""
    return await operate.queue.release(call.argument, call.body(Act), call.by.principal_id)


async def _deny_group(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Deny the lines of a group that were shown."""
    return await operate.queue.deny(call.argument, call.body(Act), call.by.principal_id)


async def _held(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """One candidate that waits, with its content."""
    return await operate.held(call.candidate_id())


async def _release(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Release one held candidate: it is admitted unless another check refuses it."""
    call.body(wire.Empty)
    return await operate.release(call.by, call.candidate_id())


async def _deny(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Refuse one candidate; its content is destroyed."""
    call.body(wire.Empty)
    return await operate.deny(call.by, call.candidate_id())


async def _forgive(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Forget a denial, and end the withholding of a refused candidate's text."""
    call.body(wire.Empty)
    return await operate.forgive(call.by, call.candidate_id())


async def _all_trust(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """Every principal with a recorded trust."""
    return operate.all_trust()


async def _trust(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The trust of one principal."""
    return operate.trust(PrincipalId(call.argument))


async def _restore(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Put a principal back to trusted."""
    call.body(wire.Empty)
    return await operate.restore_trust(call.by, PrincipalId(call.argument))


async def _origin_trust(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The trust of what one tool of one server brings in."""
    return operate.origin_trust(call.query(wire.OriginQuery))


async def _restore_origin(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Put the trust of an origin back to a newcomer's."""
    return await operate.restore_origin(call.by, call.body(wire.OriginRequest))


async def _keys(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """The records of every key, revoked ones too. The keys themselves are never shown."""
    return operate.credentials.all()


async def _key_add(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """A key for a new principal, shown once."""
    return await operate.credentials.add(call.by, call.body(wire.KeyRequest))


async def _key_rotate(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """A new key for the same principal, shown once."""
    asked = call.body(wire.RotateRequest)
    return await operate.credentials.rotate(call.by, call.argument, asked)


async def _key_revoke(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """End a key at once."""
    call.body(wire.Empty)
    return await operate.credentials.revoke(call.by, call.argument)


async def _token(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """A token that lets one write land in a class that its source may not write."""
    return operate.credentials.mint_token(call.body(wire.TokenRequest))


async def _leaves(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Leaves of the audit log, oldest first."""
    asked = call.query(LeavesQuery)
    return await operate.leaves(asked.offset, asked.limit)


async def _proof(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """The proof that one leaf is in the log."""
    return await operate.prove(call.query(LeafQuery).leaf)


async def _checkpoint(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """The last signed head of the log (checkpoint), and the key to verify it with."""
    return operate.checkpoint()


async def _policy(operate: Operate, _call: OperatorCall) -> msgspec.Struct:
    """The ruleset in force."""
    return operate.policy()


async def _reload(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Put the ruleset's file in force, or keep the last good one."""
    return await operate.reload_policy(call.by, call.body(PolicyReloadRequest).digest)


async def _explain(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Judge a write that never happens, step by step."""
    asked = call.body(ExplainRequest)
    return await asyncio.to_thread(with_words, operate.explain(asked), asked)


async def _retention(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Remove what the ruleset keeps no longer; `dry_run` only lists it."""
    return await operate.retain(dry_run=call.body(RetentionRequest).dry_run)


async def _servers(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """MCP servers and the tools to be approved of each."""
    return operate.behind.servers(call.tenant())


async def _approve(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Approve a server's tools as they were listed last."""
    asked = call.body(ApproveRequest)
    return await operate.behind.approve(call.by, Tenant(asked.tenant), call.argument, asked.digest)


async def _adopt(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Label what a server kept before the gate, and on request raise the labels."""
    return await operate.adopting.adopt(call.by, call.argument, call.body(AdoptRequest))


async def _unsettled(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Admitted changes of which nobody knows whether the server behind has them."""
    tenant = call.query(AnyTenantQuery).tenant
    return operate.behind.unsettled(None if tenant is None else Tenant(tenant))


async def _settle(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Record a person's finding whether a server behind has an unsettled change."""
    done = call.body(SettleRequest).done
    return await operate.behind.settle(call.by.principal_id, call.candidate_id(), done=done)


async def _sessions(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Sessions of agents, most recently active first."""
    return operate.sessions(call.query(SessionsQuery).limit)


async def _session(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """What entered a session, and what followed from it."""
    return operate.one_session(call.argument)


async def _check(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Read the whole store and name each contradiction in it."""
    call.body(wire.Empty)
    return await operate.check()


async def _compact(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    """Rewrite the store's files without their free pages, which makes them smaller."""
    call.body(wire.Empty)
    return await operate.compact()


ROUTES: Final = tuple(
    Route(
        method=method,
        template=template,
        # The docstring of a handler is the summary of its route in the API's description.
        summary=handler.__doc__ or template,
        takes=takes,
        asks=asks,
        answers=answers,
        handler=handler,
    )
    for method, template, handler, takes, asks, answers in (
        ("GET", "/status", _status, NoQuery, None, wire.StatusView),
        ("GET", "/ids", _ids, IdsQuery, None, IdList),
        ("GET", "/usage", _usage, NoQuery, None, UsageList),
        ("GET", "/memories", _memories, MemoriesQuery, None, wire.MemoryPage),
        ("GET", "/observed", _observed, TenantQuery, None, ObservedList),
        ("GET", "/memories/{memory_id}", _memory, TenantQuery, None, wire.MemoryView),
        ("GET", "/memories/{memory_id}/history", _history, TenantQuery, None, wire.HistoryView),
        (
            "GET",
            "/memories/{memory_id}/provenance",
            _provenance,
            TenantQuery,
            None,
            ProvenanceView,
        ),
        ("POST", "/memories/{memory_id}/purge", _purge, NoQuery, wire.PurgeRequest, wire.PurgeView),
        ("GET", "/quarantined", _quarantined, TenantQuery, None, QuarantinedList),
        (
            "POST",
            "/memories/{memory_id}/quarantine",
            _quarantine,
            NoQuery,
            QuarantineRequest,
            StandingView,
        ),
        ("POST", "/memories/{memory_id}/parole", _parole, NoQuery, ParoleRequest, ParoleView),
        ("POST", "/memories/{memory_id}/vouch", _vouch, NoQuery, VouchRequest, StandingView),
        ("POST", "/isolate", _isolate, NoQuery, IsolateRequest, IsolationView),
        ("POST", "/rewind", _rewind, NoQuery, RewindRequest, RewindView),
        ("GET", "/incidents", _incidents, NoQuery, None, IncidentList),
        ("POST", "/blame", _blame, NoQuery, BlameRequest, BlameView),
        ("GET", "/incidents/{incident_id}", _incident, NoQuery, None, CaseView),
        ("POST", "/incidents/{incident_id}/close", _close, NoQuery, wire.Empty, CaseView),
        ("POST", "/incidents/{incident_id}/undo", _undo, NoQuery, wire.Empty, IsolationView),
        ("POST", "/incidents/{incident_id}/resume", _resume, NoQuery, wire.Empty, IsolationView),
        ("GET", "/review", _review, ReviewFilter, None, ReviewPage),
        ("GET", "/groups/{group}", _group, NoQuery, None, GroupView),
        ("POST", "/groups/{group}/release", _release_group, NoQuery, Act, ActView),
        ("POST", "/groups/{group}/deny", _deny_group, NoQuery, Act, ActView),
        ("GET", "/review/{candidate_id}", _held, NoQuery, None, wire.HeldView),
        ("POST", "/review/{candidate_id}/release", _release, NoQuery, wire.Empty, wire.OutcomeView),
        ("POST", "/review/{candidate_id}/deny", _deny, NoQuery, wire.Empty, wire.OutcomeView),
        ("POST", "/review/{candidate_id}/forgive", _forgive, NoQuery, wire.Empty, ForgivenView),
        ("GET", "/trust", _all_trust, NoQuery, None, wire.TrustList),
        ("GET", "/trust/{principal}", _trust, NoQuery, None, wire.TrustView),
        ("POST", "/trust/{principal}/restore", _restore, NoQuery, wire.Empty, wire.TrustView),
        ("GET", "/origin-trust", _origin_trust, wire.OriginQuery, None, wire.OriginTrustView),
        (
            "POST",
            "/origin-trust/restore",
            _restore_origin,
            NoQuery,
            wire.OriginRequest,
            wire.OriginTrustView,
        ),
        ("GET", "/keys", _keys, NoQuery, None, wire.KeyList),
        ("POST", "/keys", _key_add, NoQuery, wire.KeyRequest, wire.NewKeyView),
        (
            "POST",
            "/keys/{key_id}/rotate",
            _key_rotate,
            NoQuery,
            wire.RotateRequest,
            wire.NewKeyView,
        ),
        ("POST", "/keys/{key_id}/revoke", _key_revoke, NoQuery, wire.Empty, wire.KeyView),
        ("POST", "/tokens", _token, NoQuery, wire.TokenRequest, wire.TokenView),
        *RULES,
        ("GET", "/audit/leaves", _leaves, LeavesQuery, None, wire.LeafPage),
        ("GET", "/audit/proof", _proof, LeafQuery, None, wire.ProofView),
        ("GET", "/audit/checkpoint", _checkpoint, NoQuery, None, wire.CheckpointView),
        ("GET", "/policy", _policy, NoQuery, None, wire.PolicyView),
        ("POST", "/policy/reload", _reload, NoQuery, PolicyReloadRequest, PolicyReloadView),
        ("POST", "/policy/explain", _explain, NoQuery, ExplainRequest, ExplainView),
        ("GET", "/mcp", _servers, TenantQuery, None, ServerList),
        ("POST", "/mcp/{server}/approve", _approve, NoQuery, ApproveRequest, ServerView),
        ("POST", "/mcp/{server}/adopt", _adopt, NoQuery, AdoptRequest, AdoptView),
        *BACKENDS,
        ("GET", "/unsettled", _unsettled, AnyTenantQuery, None, UnsettledList),
        ("POST", "/unsettled/{candidate_id}", _settle, NoQuery, SettleRequest, UnsettledList),
        ("POST", "/retention", _retention, NoQuery, RetentionRequest, RetentionView),
        ("GET", "/sessions", _sessions, SessionsQuery, None, SessionList),
        ("GET", "/sessions/{session}", _session, NoQuery, None, SessionView),
        ("POST", "/check", _check, NoQuery, wire.Empty, wire.CheckView),
        ("POST", "/compact", _compact, NoQuery, wire.Empty, wire.CompactView),
    )
)
