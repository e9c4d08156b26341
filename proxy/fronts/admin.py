"""The admin front: health, metrics, and the operator API. Routing only; the work is `operate`."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from policy.model import CandidateId, Channel, MemoryId, Principal, PrincipalId, Tenant
from proxy import admin_wire as wire
from proxy.auth import Unauthenticated, operator_of
from proxy.dialects.native_wire import UUID_PATTERN
from proxy.dialects.operation import HttpReply, HttpRequest, MalformedRequest, UnknownWrite
from proxy.dialects.problem import problem
from proxy.exchange import Answered, Incoming
from proxy.responses import Failure, NotFound, attempt
from proxy.strict_json import convert, decode_as

if TYPE_CHECKING:
    from proxy.auth import Authenticator, Peer
    from proxy.operate import Operate
    from proxy.strict_json import JsonValue

API: Final = "/api/v1"
PAGE_MAX: Final = 1_000
UNKNOWN_ROUTE: Final = "unknown"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ENCODER: Final = msgspec.json.Encoder()
_CANDIDATE_ID: Final = re.compile(r"[0-9a-f]{32}")
_Shape = TypeVar("_Shape")


class _Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `/readyz`: reads work while the process lives; writes may be off."""

    status: str  # "ready" | "degraded"
    reason: str | None


class _Paging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tenant: wire.TenantName | None = None
    user_id: str | None = None
    offset: str = "0"
    limit: str = "100"
    leaf: str | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True):
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
        given: dict[str, JsonValue] = {}
        for key, value in self.request.query:
            if key in given:
                raise MalformedRequest("query: a parameter is given twice")
            given[key] = value
        return convert(given, _Paging)

    def tenant(self) -> Tenant:
        """The tenant asked about."""
        return Tenant(self.query().tenant or wire.DEFAULT_TENANT)

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


Handler = Callable[["Operate", Call], Awaitable[msgspec.Struct]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the routing table; `{}` in the template is its one variable segment."""

    method: str
    template: str
    handler: Handler

    def match(self, method: str, path: str) -> str | None:
        """The variable segment, "" where the template has none, None where it does not match."""
        if method != self.method:
            return None
        pattern = re.escape(API + self.template).replace(r"\{\}", r"([^/]{1,256})")
        found = re.fullmatch(pattern, path)
        if found is None:
            return None
        return found[1] if found.re.groups else ""


def admin_routes() -> frozenset[str]:
    """Every route that telemetry may name."""
    fixed = {"/healthz", "/readyz", "/metrics", UNKNOWN_ROUTE}
    return frozenset(fixed | {API + route.template for route in ROUTES})


class AdminFront:
    """Serves the admin listener and the admin socket. Event loop only."""

    name = "admin"

    def __init__(
        self,
        operate: Operate,
        authenticator: Authenticator,
        render_metrics: Callable[[], bytes],
        halt: Callable[[], None],
    ) -> None:
        self._operate = operate
        self._authenticator = authenticator
        self._render_metrics = render_metrics
        self._halt = halt
        self.routes = admin_routes()

    async def answer(self, incoming: Incoming) -> Answered:
        """The answer; failures as problem details."""
        route, argument = self._route(incoming.head)
        who = [""]
        done = await attempt(self._serve(incoming, route, argument, who), self._halt)
        error_type = ""
        if isinstance(done, Failure):
            error_type = done.error_type
            done = problem(done.refusal, incoming.answering)
        template = self._template(incoming.head, route)
        return Answered(reply=done, route=template, principal=who[0], error_type=error_type)

    def _route(self, head: HttpRequest) -> tuple[Route | None, str]:
        method = "GET" if head.method == "HEAD" else head.method
        for route in ROUTES:
            argument = route.match(method, head.path)
            if argument is not None:
                return route, argument
        return None, ""

    def _template(self, head: HttpRequest, route: Route | None) -> str:
        if route is not None:
            return API + route.template
        return head.path if head.path in self.routes else UNKNOWN_ROUTE

    async def _serve(
        self, incoming: Incoming, route: Route | None, argument: str, who: list[str]
    ) -> HttpReply:
        head = incoming.head
        if head.method in {"GET", "HEAD"}:
            match head.path:
                case "/healthz":
                    # No dependencies: it says that the process answers, and nothing else.
                    return HttpReply(status=200, body=b"ok\n", content_type="text/plain")
                case "/readyz":
                    return self._readiness()
                case "/metrics":
                    return HttpReply(
                        status=200, body=self._render_metrics(), content_type=_PROMETHEUS
                    )
                case _:
                    pass
        by = operator_of(self._principal(head, incoming.peer))
        who[0] = by.principal_id
        if route is None:
            raise NotFound if head.method in _SAFE else UnknownWrite
        request = await incoming.complete()
        call = Call(by=by, incoming=incoming, request=request, argument=argument)
        view = await route.handler(self._operate, call)
        return HttpReply(status=200, body=_ENCODER.encode(view))

    def _principal(self, head: HttpRequest, peer: Peer) -> Principal:
        header = head.headers.get("authorization")
        if header is None and peer.uid is not None and peer.uid in {os.geteuid(), 0}:
            # The admin socket: whoever runs as the sidecar itself can edit its files anyway.
            return Principal(
                principal_id=PrincipalId(f"uid:{peer.uid}"),
                tenant=Tenant(wire.DEFAULT_TENANT),
                channel=Channel.OPERATOR,
            )
        if header is None:
            return self._authenticator.require(None, peer)
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated
        return self._authenticator.require(credential.strip(" "), peer)

    def _readiness(self) -> HttpReply:
        status = self._operate.status()
        body = _Readiness(status="ready" if status.writable else "degraded", reason=status.reason)
        return HttpReply(status=200 if status.writable else 503, body=_ENCODER.encode(body))


def _number(text: str, name: str, high: int) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text) is None or int(text) > high:
        raise MalformedRequest(f"{name}: a whole number up to {high}")
    return int(text)


async def _status(operate: Operate, call: Call) -> msgspec.Struct:
    call.query()
    return operate.status()


async def _memories(operate: Operate, call: Call) -> msgspec.Struct:
    asked = call.query()
    offset = _number(asked.offset, "offset", 10**9)
    limit = _number(asked.limit, "limit", PAGE_MAX)
    return await operate.memories(call.tenant(), asked.user_id, offset, limit)


async def _memory(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.memory(call.tenant(), call.memory_id())


async def _history(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.history(call.tenant(), call.memory_id())


async def _purge(operate: Operate, call: Call) -> msgspec.Struct:
    asked = call.body(wire.PurgeRequest)
    return await operate.purge(call.by, call.memory_id(), asked, call.incoming.trace)


async def _review(operate: Operate, call: Call) -> msgspec.Struct:
    tenant = call.query().tenant
    return operate.review(None if tenant is None else Tenant(tenant))


async def _held(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.held(call.candidate_id())


async def _release(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.release(call.by, call.candidate_id())


async def _deny(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.deny(call.by, call.candidate_id())


async def _all_trust(operate: Operate, call: Call) -> msgspec.Struct:
    call.query()
    return operate.all_trust()


async def _trust(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.trust(PrincipalId(call.argument))


async def _restore(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.restore_trust(call.by, PrincipalId(call.argument))


async def _keys(operate: Operate, call: Call) -> msgspec.Struct:
    call.query()
    return operate.credentials.all()


async def _key_add(operate: Operate, call: Call) -> msgspec.Struct:
    return await operate.credentials.add(call.by, call.body(wire.KeyRequest))


async def _key_rotate(operate: Operate, call: Call) -> msgspec.Struct:
    asked = call.body(wire.RotateRequest)
    return await operate.credentials.rotate(call.by, call.argument, asked)


async def _key_revoke(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.credentials.revoke(call.by, call.argument)


async def _token(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.credentials.mint_token(call.body(wire.TokenRequest))


async def _anchors(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.anchors(call.tenant())


async def _anchor_put(operate: Operate, call: Call) -> msgspec.Struct:
    return await operate.put_anchor(call.by, call.body(wire.AnchorRequest))


async def _leaves(operate: Operate, call: Call) -> msgspec.Struct:
    asked = call.query()
    offset = _number(asked.offset, "offset", 10**15)
    return await operate.leaves(offset, _number(asked.limit, "limit", PAGE_MAX))


async def _proof(operate: Operate, call: Call) -> msgspec.Struct:
    return await operate.prove(_number(call.query().leaf or "", "leaf", 10**15))


async def _checkpoint(operate: Operate, call: Call) -> msgspec.Struct:
    call.query()
    return operate.checkpoint()


async def _policy(operate: Operate, call: Call) -> msgspec.Struct:
    call.query()
    return operate.policy()


async def _explain(operate: Operate, call: Call) -> msgspec.Struct:
    return operate.explain(call.body(wire.ExplainRequest))


async def _check(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.check()


async def _compact(operate: Operate, call: Call) -> msgspec.Struct:
    call.body(wire.Empty)
    return await operate.compact()


ROUTES: Final = tuple(
    Route(method=method, template=template, handler=handler)
    for method, template, handler in (
        ("GET", "/status", _status),
        ("GET", "/memories", _memories),
        ("GET", "/memories/{}", _memory),
        ("GET", "/memories/{}/history", _history),
        ("POST", "/memories/{}/purge", _purge),
        ("GET", "/review", _review),
        ("GET", "/review/{}", _held),
        ("POST", "/review/{}/release", _release),
        ("POST", "/review/{}/deny", _deny),
        ("GET", "/trust", _all_trust),
        ("GET", "/trust/{}", _trust),
        ("POST", "/trust/{}/restore", _restore),
        ("GET", "/keys", _keys),
        ("POST", "/keys", _key_add),
        ("POST", "/keys/{}/rotate", _key_rotate),
        ("POST", "/keys/{}/revoke", _key_revoke),
        ("POST", "/tokens", _token),
        ("GET", "/anchors", _anchors),
        ("POST", "/anchors", _anchor_put),
        ("GET", "/audit/leaves", _leaves),
        ("GET", "/audit/proof", _proof),
        ("GET", "/audit/checkpoint", _checkpoint),
        ("GET", "/policy", _policy),
        ("POST", "/policy/explain", _explain),
        ("POST", "/check", _check),
        ("POST", "/compact", _compact),
    )
)
