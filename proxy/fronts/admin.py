"""The admin front: routes requests to health, metrics, console, and the operator API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from policy.model import Channel, OperatorScope, Principal, PrincipalId, Tenant
from proxy.admin.operator_call import Handler, OperatorCall
from proxy.admin.wire.operator_routes import API, ROUTES
from proxy.admin.wire.route import AnyRoute
from proxy.dialects.described import query_as
from proxy.dialects.openapi import document
from proxy.dialects.problem import problem
from proxy.dialects.strict_json.strict import decode_as
from proxy.fronts.health import HEALTH_PATHS, READING, UNKNOWN_ROUTE, Health
from proxy.seams.faults import MethodNotAllowed, NotFound, Unauthenticated, UnknownWrite
from proxy.seams.operation import HttpReply, HttpRequest, Refusal, segment_of
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.transport.auth import Authenticator, Visit, check_scope, operator_of
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt

OPENAPI: Final = f"{API}/openapi.json"
_SAFE: Final = READING | {"OPTIONS"}
_NO_KEY: Final = frozenset({401, 429})
_ENCODER: Final = msgspec.json.Encoder()


def admin_routes() -> frozenset[str]:
    """Every route of the admin listener that telemetry may name, but those of the console."""
    fixed = HEALTH_PATHS | {OPENAPI, UNKNOWN_ROUTE, REFUSED_ROUTE}
    return frozenset(fixed | {API + route.counted_as for route in ROUTES})


def _matching(path: str) -> Iterator[tuple[AnyRoute, str]]:
    """The routes of any method that match a path, each with the path's variable segment."""
    if path.startswith(API):
        for route in ROUTES:
            argument = route.match(path.removeprefix(API))
            if argument is not None:
                yield route, argument


class Pages(Protocol):
    """The console: it answers for its own paths, failures included."""

    routes: frozenset[str]

    def route_of(self, path: str) -> str | None:
        """The route of a path that the console answers; None for any other path."""
        ...

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The page that is asked for, or one with the reason why it is not shown."""
        ...

    def nowhere(self, head: HttpRequest, refusal: Refusal) -> HttpReply:
        """The refusal of a request that is not for a page, as a page that leads to the first."""
        ...


class AdminFront:
    """Serves the admin listener and the admin socket. Event loop only."""

    name = "admin"

    def __init__(
        self,
        handlers: Mapping[AnyRoute, Handler],
        authenticator: Authenticator,
        health: Health,
        pages: Pages,
        halt: Callable[[], None],
    ) -> None:
        self._pages = pages
        self._handlers = handlers
        self._authenticator = authenticator
        self._health = health
        self._halt = halt
        self.routes = admin_routes() | pages.routes

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a request; failures are problem details."""
        if self._pages.route_of(incoming.head.path) is not None:
            return await self._pages.answer(incoming)
        route, argument = self._route(incoming.head)
        who = [""]
        done = await attempt(self._serve(incoming, route, argument, who), self._halt)
        error_type = ""
        if isinstance(done, AnswerFailure):
            error_type, refusal = done.error_type, done.refusal
            # A person who mistyped an address sent no Bearer key, and needs a way on.
            person = "text/html" in incoming.head.headers.get("accept", "")
            if person and refusal.status in _NO_KEY:
                done = self._pages.nowhere(incoming.head, refusal)
            else:
                done = problem(refusal, incoming.answering)
        template = self._template(incoming.head, route)
        changes = not error_type and incoming.head.method not in _SAFE
        return AnsweredReply(
            reply=done, route=template, principal=who[0], error_type=error_type, done=changes
        )

    def _route(self, head: HttpRequest) -> tuple[AnyRoute | None, str]:
        method = "GET" if head.method == "HEAD" else head.method
        for route, argument in _matching(head.path):
            if route.method == method:
                return route, argument
        return None, ""

    def _template(self, head: HttpRequest, route: AnyRoute | None) -> str:
        if route is not None:
            return API + route.counted_as
        return head.path if head.path in self.routes else UNKNOWN_ROUTE

    async def _serve(
        self, incoming: RequestHead, route: AnyRoute | None, argument: str, who: list[str]
    ) -> HttpReply:
        head = incoming.head
        healthy = self._health.answer(head)
        if healthy is not None:
            return healthy
        by = operator_of(self._principal(head, incoming))
        who[0] = by.principal_id
        incoming.enter(by)
        if head.path == OPENAPI and head.method in READING:
            return HttpReply(status=200, body=document("Mnemogate operator API", API, ROUTES))
        if route is None:
            allowed = tuple(one.method for one, _ in _matching(head.path))
            if allowed:
                raise MethodNotAllowed(allowed)
            raise NotFound if head.method in _SAFE else UnknownWrite
        check_scope(by, route.least)
        request = await incoming.complete()
        asked = query_as(request.query, route.takes)
        if route.asks is not None:
            # An empty body is read as an empty object.
            asked = decode_as(request.body or b"{}", route.asks)
        call = OperatorCall(by=by, asked=asked, argument=segment_of(argument), trace=incoming.trace)
        view = await self._handlers[route](call)
        return HttpReply(status=200, body=_ENCODER.encode(view))

    def _principal(self, head: HttpRequest, visit: Visit) -> Principal:
        peer = visit.peer
        header = head.headers.get("authorization")
        if header is None and peer.uid is not None and peer.uid in {os.geteuid(), 0}:
            # The admin socket needs no key: a process of the sidecar's own uid can edit its files
            # anyway.
            return Principal(
                principal_id=PrincipalId(f"uid:{peer.uid}"),
                tenant=Tenant(DEFAULT_TENANT),
                channel=Channel.OPERATOR,
            )
        if header is None:
            return self._authenticator.require(None, visit, OperatorScope.VIEW)
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated
        return self._authenticator.require(credential.strip(" "), visit, OperatorScope.VIEW)
