"""Serves upstream memory servers that speak HTTP, at the paths of their own APIs.

This is the only driver of guard mode for HTTP. It authenticates, finds the route in the adapter's
table, and has reads sifted and writes judged. A route that is not in the table, or administers the
server, is refused. The driver decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Final

from policy.bounded import Bounded
from policy.labels.forwarded_call import HTTP
from policy.model import Principal, Reads
from proxy.fronts.backend_hiding import BackendHiding
from proxy.fronts.backend_reads import BackendReads
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.fronts.backend_writes import BackendWrites
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.access import at_least
from proxy.seams.faults import MalformedRequest, NotFound, UnknownWrite
from proxy.seams.guard import DeletesUpstream
from proxy.seams.http_backend import Does, RoutedRequest, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.transport.auth import Authenticator
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt

REFUSED: Final = "backend.refused"
_OF: Final = {does: f"backend.{does.value}" for does in Does}
ROUTES: Final = frozenset({REFUSED, *_OF.values()})
_ADMIN: Final = "admin_route: this route administers the memory server, which is an operator's act"
_SHARED: Final = (
    "shared_server: this shows what every tenant has on the memory server; it is served where the "
    'table names its one `tenant`, with `before = "show"`'
)
_FLOORED: Final = (
    "reads: no part of this answer can be left out, so it is not served with a floor for reads"
)
_TRACEPARENT_LEN_MAX: Final = 64
_PLACES_MAX: Final = 4_096
_ANSWERED: Final = range(200, 300)


class BackendFront:
    """Serves every configured memory server. Event loop only."""

    name = "data"
    routes = ROUTES

    def __init__(
        self,
        behind: tuple[BackendServerFront, ...],
        guard: LocalGuard,
        authenticator: Authenticator,
        *,
        keys: KeyOwners,
        spawn: Callable[[Coroutine[None, None, None]], None],
        halt: Callable[[], None],
    ) -> None:
        """No two servers in `behind` may share a path segment."""
        servers = tuple(_Server(one, guard, keys, spawn) for one in behind)
        self._by_segment: Mapping[str, _Server] = {
            segment: server for server in servers for segment in server.behind.adapter.segments
        }
        # The first segments of paths that belong to a configured server.
        self.names = frozenset(self._by_segment)
        self.erases: Mapping[str, DeletesUpstream] = {
            HTTP + one.behind.settings.name: one.writes.erase for one in servers
        }
        self._servers = servers
        self._keys = keys
        self._authenticator = authenticator
        self._halt = halt

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a request; failures have the form that the server's API gives them."""
        server = self._by_segment[_first(incoming.head.path)]
        progress = _BackendProgress(incoming.head)
        done = await attempt(self._serve(server, incoming, progress), self._halt)
        if isinstance(done, AnswerFailure):
            return AnsweredReply(
                reply=server.behind.adapter.refuse(progress.request, done.refusal),
                route=REFUSED,
                principal=progress.principal,
                error_type=done.error_type,
            )
        return AnsweredReply(
            reply=done,
            route=progress.route,
            principal=progress.principal,
            done=progress.route in {_OF[Does.WRITE], _OF[Does.REMOVE]},
        )

    async def tend(self) -> None:
        """On every server, send released items, look up lost ones, and hide quarantined ones."""
        for server in self._servers:
            tenants = self._keys.tenants_waiting(server.behind.settings.name)
            await server.writes.tend(tenants)
            await server.hiding.round()

    async def _serve(
        self, server: _Server, incoming: RequestHead, progress: _BackendProgress
    ) -> HttpReply:
        behind, adapter = server.behind, server.behind.adapter
        admitted = self._authenticator.require(adapter.credential(incoming.head), incoming)
        progress.principal = admitted.principal_id
        incoming.enter(admitted)
        principal = at_least(admitted, behind.settings.reads)
        floored = principal.reads is not Reads.ALL
        if floored and "reads" in adapter.unable:
            raise MalformedRequest(f"reads: {adapter.unable['reads']}", status=403)
        if behind.settings.tenant not in {None, principal.tenant}:
            raise NotFound
        allowed = behind.settings.principals
        if allowed is not None and principal.principal_id not in allowed:
            raise NotFound
        request = await incoming.complete()
        progress.request = request
        # Without this check, a key of this sidecar would reach the server and the audit log.
        behind.check_keyless(request)
        routed = adapter.classify(request)
        if routed is None:
            raise UnknownWrite
        progress.route = _OF[routed.does]
        if routed.does is Does.ADMIN:
            raise MalformedRequest(_ADMIN, status=403)
        if routed.whole and not behind.settings.shows_whole:
            raise MalformedRequest(_SHARED, status=403)
        if routed.whole and floored:
            raise MalformedRequest(_FLOORED, status=403)
        if not adapter.is_open_to(request, principal.tenant):
            raise NotFound
        await self._check_folder(server, principal, request)
        failure = await server.failure_of_place(request)
        if failure is not None:
            return failure
        return await self._done(server, principal, request, routed, incoming)

    async def _done(
        self,
        server: _Server,
        principal: Principal,
        request: HttpRequest,
        routed: RoutedRequest,
        incoming: RequestHead,
    ) -> HttpReply:
        match routed.does:
            case Does.READ:
                call_id = incoming.answering.request_id
                return await server.reads.answer(principal, request, routed, call_id)
            case Does.WRITE | Does.REMOVE:
                given = request.headers.get("traceparent", "")
                trace = given if 0 < len(given) <= _TRACEPARENT_LEN_MAX else None
                return await server.writes.answer(principal, request, routed, trace)
            case Does.MAKE | Does.OTHER | Does.ADMIN:
                if routed.does is Does.MAKE:
                    await server.behind.check_version(self._keys, principal)
                reply = await server.behind.ask(server.behind.adapter.asking(request))
                return server.behind.shown(request, reply)

    async def _check_folder(
        self, server: _Server, principal: Principal, request: HttpRequest
    ) -> None:
        folder = server.behind.adapter.folder(request)
        if not folder:
            return
        asked = (ShownMemory(key=folder, strings=(), place=0, is_prefix=True),)
        name = server.behind.settings.name
        if any(await self._keys.belongs_to_others(principal, name, asked)):
            raise NotFound


class _Server:
    """One configured server, with the parts that answer its reads and writes."""

    def __init__(
        self,
        behind: BackendServerFront,
        guard: LocalGuard,
        keys: KeyOwners,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self.behind = behind
        self.reads = BackendReads(behind, guard, keys)
        self.writes = BackendWrites(behind, guard, keys, spawn)
        self.hiding = BackendHiding(behind, keys, self.writes.places)
        # The places that exist on the server, the latest last. They are taken to exist for good, so
        # the server is asked for each place once.
        self._places = Bounded[str, None](_PLACES_MAX)

    async def failure_of_place(self, request: HttpRequest) -> HttpReply | None:
        """The server's failure if the place of the request does not exist there; else None.

        Raises:
            UpstreamError: The server does not answer.
        """
        question = self.behind.adapter.place(request)
        name = "" if question is None else f"{question.method} {question.path}"
        if question is None or name in self._places:
            return None
        reply = await self.behind.ask(question)
        if reply.status not in _ANSWERED:
            return self.behind.shown(request, reply)
        self._places[name] = None
        return None


class _BackendProgress:
    """The facts known so far about one request, for telemetry and for the form of a failure."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.principal = ""
        self.route = REFUSED


def _first(path: str) -> str:
    return path[1:].partition("/")[0]
