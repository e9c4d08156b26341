"""The operator API's routing table: a method, a template, a handler, the shapes of both bodies."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from policy.model import CandidateId, MemoryId, Principal, PrincipalId, Tenant
from proxy.admin.wire import store as wire
from proxy.admin.wire.dry_run import ExplainRequest, ExplainView
from proxy.admin.wire.review_queue import (
    DecidedMany,
    ReviewFilter,
    ReviewPage,
    Selection,
    SelectionRequest,
)
from proxy.admin.wire.upkeep import (
    ApproveRequest,
    ForgivenView,
    ObservedList,
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
from proxy.dialects.native.wire import UUID_PATTERN
from proxy.dialects.strict_json.strict import convert, decode_as
from proxy.ledger.wire import SessionList, SessionView, ToolList, ToolRequest
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.tenants import DEFAULT_TENANT, TenantName

if TYPE_CHECKING:
    from proxy.admin.commands import Operate
    from proxy.dialects.strict_json.strict import JsonValue
    from proxy.seams.operation import HttpRequest
    from proxy.transport.exchange import Incoming

API: Final = "/api/v1"
PAGE_MAX: Final = 1_000
_MOMENT_MAX: Final = 10**15 - 1
_CANDIDATE_ID: Final = re.compile(r"[0-9a-f]{32}")
_Shape = TypeVar("_Shape")


class _Paging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: TenantName | None = None
    user_id: str | None = None
    offset: str = "0"
    limit: str = "100"
    leaf: str | None = None


class OperatorCall(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticated operator's request, routed."""

    by: Principal
    incoming: Incoming
    request: HttpRequest
    argument: str  # the one variable segment of the path, or ""

    def body(self, shape: type[_Shape]) -> _Shape:
        """The body as this shape; an empty body is an empty object."""
        return decode_as(self.request.body or b"{}", shape)

    def query(self) -> _Paging:
        """The query, each parameter known and given once."""
        return convert(self.given(), _Paging)

    def given(self) -> dict[str, JsonValue]:
        """The query's parameters, each given once; whether they are known is for the caller."""
        given: dict[str, JsonValue] = {}
        for key, value in self.request.query:
            if key in given:
                raise MalformedRequest("query: a parameter is given twice")
            given[key] = value
        return given

    def tenant(self) -> Tenant:
        """The tenant asked about."""
        return Tenant(self.query().tenant or DEFAULT_TENANT)

    def memory_id(self) -> MemoryId:
        """The memory named in the path; the store takes no other shape."""
        if re.fullmatch(UUID_PATTERN, self.argument) is None:
            raise NotFound("there is no such memory")
        return MemoryId(self.argument)

    def candidate_id(self) -> CandidateId:
        """The candidate named in the path."""
        if _CANDIDATE_ID.fullmatch(self.argument) is None:
            raise NotFound("no candidate of that id is held")
        return CandidateId(self.argument)


Handler = Callable[["Operate", OperatorCall], Awaitable[msgspec.Struct]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the routing table; `{}` in the template is its one variable segment."""

    method: str
    template: str
    handler: Handler
    # Shapes of the bodies, for the OpenAPI document; the handler reads the same ones.
    asks: type[msgspec.Struct] | None
    answers: type[msgspec.Struct]

    def match(self, method: str, path: str) -> str | None:
        """The variable segment, "" where the template has none, None where it does not match."""
        if method != self.method:
            return None
        pattern = re.escape(API + self.template).replace(r"\{\}", r"([^/]{1,256})")
        found = re.fullmatch(pattern, path)
        if found is None:
            return None
        return found[1] if found.re.groups else ""


def _number(text: str, name: str, high: int) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text) is None or int(text) > high:
        raise MalformedRequest(f"{name}: a whole number up to {high}")
    return int(text)


async def _status(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.status()


async def _usage(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.usage()


async def _memories(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.query()
    offset = _number(asked.offset, "offset", 10**9)
    limit = _number(asked.limit, "limit", PAGE_MAX)
    return await operate.memories(call.tenant(), asked.user_id, offset, limit)


async def _observed(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.observed(call.tenant())


async def _memory(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.memory(call.tenant(), call.memory_id())


async def _history(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.history(call.tenant(), call.memory_id())


async def _purge(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.body(wire.PurgeRequest)
    return await operate.purge(call.by, call.memory_id(), asked, call.incoming.trace)


async def _quarantined(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.quarantined(call.tenant())


async def _quarantine(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.quarantine(call.by, call.memory_id(), call.body(QuarantineRequest))


async def _parole(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.parole(call.by, call.memory_id(), call.body(QuarantineRequest))


async def _vouch(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.vouch(call.by, call.memory_id(), call.body(VouchRequest))


async def _review(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    given = call.given()
    for name, high in (("since_ms", _MOMENT_MAX), ("limit", PAGE_MAX)):
        if name in given:
            given[name] = _number(str(given[name]), name, high)
    return await operate.queue.page(convert(given, ReviewFilter))


async def _select(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.queue.select(call.body(ReviewFilter))


async def _release_many(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    digest = call.body(SelectionRequest).digest
    return await operate.queue.release(digest, call.by.principal_id)


async def _deny_many(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    digest = call.body(SelectionRequest).digest
    return await operate.queue.deny(digest, call.by.principal_id)


async def _held(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.held(call.candidate_id())


async def _release(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.release(call.by, call.candidate_id())


async def _deny(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.deny(call.by, call.candidate_id())


async def _forgive(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.forgive(call.by, call.candidate_id())


async def _all_trust(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.all_trust()


async def _trust(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.trust(PrincipalId(call.argument))


async def _restore(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.restore_trust(call.by, PrincipalId(call.argument))


async def _keys(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.credentials.all()


async def _key_add(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.credentials.add(call.by, call.body(wire.KeyRequest))


async def _key_rotate(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.body(wire.RotateRequest)
    return await operate.credentials.rotate(call.by, call.argument, asked)


async def _key_revoke(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.credentials.revoke(call.by, call.argument)


async def _token(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.credentials.mint_token(call.body(wire.TokenRequest))


async def _anchors(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.anchors(call.tenant())


async def _anchor_put(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.put_anchor(call.by, call.body(wire.AnchorRequest))


async def _leaves(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.query()
    offset = _number(asked.offset, "offset", 10**15)
    return await operate.leaves(offset, _number(asked.limit, "limit", PAGE_MAX))


async def _proof(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.prove(_number(call.query().leaf or "", "leaf", 10**15))


async def _checkpoint(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.checkpoint()


async def _policy(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.policy()


async def _reload(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.reload_policy(call.by, call.body(PolicyReloadRequest).digest)


async def _explain(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.explain(call.body(ExplainRequest))


async def _retention(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return await operate.retain(dry_run=call.body(RetentionRequest).dry_run)


async def _servers(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.behind.servers(Tenant(call.query().tenant or DEFAULT_TENANT))


async def _approve(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.body(ApproveRequest)
    return await operate.behind.approve(call.by, Tenant(asked.tenant), call.argument, asked.digest)


async def _unsettled(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    tenant = call.query().tenant
    return operate.behind.unsettled(None if tenant is None else Tenant(tenant))


async def _settle(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    done = call.body(SettleRequest).done
    return await operate.behind.settle(call.by, call.candidate_id(), done=done)


async def _sessions(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.sessions(_number(call.query().limit, "limit", PAGE_MAX))


async def _session(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.query()
    return operate.one_session(call.argument)


async def _tools(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    return operate.ledger.tools(call.tenant())


async def _tool_approve(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    asked = call.body(ToolRequest)
    return await operate.ledger.approve(asked.tenant, call.argument, asked.digest)


async def _check(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.check()


async def _compact(operate: Operate, call: OperatorCall) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.compact()


ROUTES: Final = tuple(
    Route(method=method, template=template, handler=handler, asks=asks, answers=answers)
    for method, template, handler, asks, answers in (
        ("GET", "/status", _status, None, wire.StatusView),
        ("GET", "/usage", _usage, None, UsageList),
        ("GET", "/memories", _memories, None, wire.MemoryPage),
        ("GET", "/observed", _observed, None, ObservedList),
        ("GET", "/memories/{}", _memory, None, wire.MemoryView),
        ("GET", "/memories/{}/history", _history, None, wire.HistoryView),
        ("POST", "/memories/{}/purge", _purge, wire.PurgeRequest, wire.PurgeView),
        ("GET", "/quarantined", _quarantined, None, QuarantinedList),
        ("POST", "/memories/{}/quarantine", _quarantine, QuarantineRequest, StandingView),
        ("POST", "/memories/{}/parole", _parole, QuarantineRequest, StandingView),
        ("POST", "/memories/{}/vouch", _vouch, VouchRequest, StandingView),
        ("GET", "/review", _review, None, ReviewPage),
        ("POST", "/review/select", _select, ReviewFilter, Selection),
        ("POST", "/review/release", _release_many, SelectionRequest, DecidedMany),
        ("POST", "/review/deny", _deny_many, SelectionRequest, DecidedMany),
        ("GET", "/review/{}", _held, None, wire.HeldView),
        ("POST", "/review/{}/release", _release, wire.Empty, wire.OutcomeView),
        ("POST", "/review/{}/deny", _deny, wire.Empty, wire.OutcomeView),
        ("POST", "/review/{}/forgive", _forgive, wire.Empty, ForgivenView),
        ("GET", "/trust", _all_trust, None, wire.TrustList),
        ("GET", "/trust/{}", _trust, None, wire.TrustView),
        ("POST", "/trust/{}/restore", _restore, wire.Empty, wire.TrustView),
        ("GET", "/keys", _keys, None, wire.KeyList),
        ("POST", "/keys", _key_add, wire.KeyRequest, wire.NewKeyView),
        ("POST", "/keys/{}/rotate", _key_rotate, wire.RotateRequest, wire.NewKeyView),
        ("POST", "/keys/{}/revoke", _key_revoke, wire.Empty, wire.KeyView),
        ("POST", "/tokens", _token, wire.TokenRequest, wire.TokenView),
        ("GET", "/anchors", _anchors, None, wire.AnchorList),
        ("POST", "/anchors", _anchor_put, wire.AnchorRequest, wire.AnchorView),
        ("GET", "/audit/leaves", _leaves, None, wire.LeafPage),
        ("GET", "/audit/proof", _proof, None, wire.ProofView),
        ("GET", "/audit/checkpoint", _checkpoint, None, wire.CheckpointView),
        ("GET", "/policy", _policy, None, wire.PolicyView),
        ("POST", "/policy/reload", _reload, PolicyReloadRequest, PolicyReloadView),
        ("POST", "/policy/explain", _explain, ExplainRequest, ExplainView),
        ("GET", "/mcp", _servers, None, ServerList),
        ("POST", "/mcp/{}/approve", _approve, ApproveRequest, ServerView),
        ("GET", "/unsettled", _unsettled, None, UnsettledList),
        ("POST", "/unsettled/{}", _settle, SettleRequest, UnsettledList),
        ("POST", "/retention", _retention, RetentionRequest, RetentionView),
        ("GET", "/sessions", _sessions, None, SessionList),
        ("GET", "/sessions/{}", _session, None, SessionView),
        ("GET", "/tools", _tools, None, ToolList),
        ("POST", "/tools/{}/approve", _tool_approve, ToolRequest, ToolList),
        ("POST", "/check", _check, wire.Empty, wire.CheckView),
        ("POST", "/compact", _compact, wire.Empty, wire.CompactView),
    )
)
