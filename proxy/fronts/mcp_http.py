"""Serves MCP over Streamable HTTP at `/mcp/<server>`, with and without sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

import msgspec

from policy.model import Principal
from proxy.dialects.mcp.heads import LAST_EVENT, SESSION, check_head, era_of_head
from proxy.dialects.mcp.message import (
    Era,
    Message,
    MessageKind,
    NotRelayed,
    RequestId,
    error_answer,
    parse,
)
from proxy.mcp.http.child import ChildGone
from proxy.mcp.http.client_request import AnswerHead, Exchange
from proxy.mcp.http.command_server import CommandLine
from proxy.mcp.http.hub import Hub, NoRoomForSession
from proxy.mcp.http.line import LISTEN, RelayLine
from proxy.mcp.http.url_server import UrlLine
from proxy.seams.access import check_no_floor
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.operation import HttpReply, HttpRequest
from proxy.transport.auth import Authenticator, Visit
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt, problem, refuse

PREFIX: Final = "/mcp/"
ROUTES: Final = frozenset({"mcp.post", "mcp.listen", "mcp.end", "mcp.refused", REFUSED_ROUTE})
SWEEP_SECONDS: Final = 30.0
LISTENING_MAX: Final = 4
# The prefix of the sidecar's own keys. Even an invalid key with this prefix must not be forwarded
# as if it were meant for the server.
_OUR_KEYS: Final = "mg_"
_PATH: Final = re.compile(r"/mcp/([a-z0-9][a-z0-9._-]{0,62})")
_SESSION_GONE: Final = -32001
_ROUTES: Final = {"POST": "mcp.post", "GET": "mcp.listen", "DELETE": "mcp.end"}


class ServedServer(msgspec.Struct, frozen=True, kw_only=True):
    """One configured server; only `principals` may use it, or all if None."""

    hub: Hub
    principals: frozenset[str] | None = None
    keeps_memory: bool = True


class McpFront:
    """Serves every configured MCP server while its context is open. Event loop only."""

    name = "data"
    routes = ROUTES

    def __init__(
        self,
        servers: Mapping[str, ServedServer],
        authenticator: Authenticator,
        halt: Callable[[], None],
    ) -> None:
        self._servers = dict(servers)
        self._authenticator = authenticator
        self._halt = halt

    async def sweep(self) -> None:
        """End sessions that have been idle for longer than their hub allows."""
        for served in self._servers.values():
            served.hub.sweep()

    def close(self) -> None:
        """End every session."""
        for served in self._servers.values():
            served.hub.close()

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to one HTTP request; failures as problem details."""
        progress = _McpProgress()
        done = await attempt(self._serve(incoming, progress), self._halt)
        if isinstance(done, AnswerFailure):
            return AnsweredReply(
                reply=problem(done.refusal, incoming.answering),
                route="mcp.refused",
                principal=progress.principal,
                error_type=done.error_type,
            )
        reply, pieces = done
        route = _ROUTES.get(incoming.head.method, "mcp.refused")
        return AnsweredReply(reply=reply, route=route, principal=progress.principal, pieces=pieces)

    async def _serve(
        self, incoming: RequestHead, progress: _McpProgress
    ) -> tuple[HttpReply, Exchange | None]:
        principal, headers = self._who(incoming.head, incoming)
        progress.principal = principal.principal_id
        incoming.enter(principal)
        self._authenticator.check_sent_on("header", chain.from_iterable(headers.items()))
        found = _PATH.fullmatch(incoming.head.path)
        served = self._servers.get(found[1]) if found else None
        if served is None or (
            served.principals is not None and principal.principal_id not in served.principals
        ):
            raise NotFound
        if served.keeps_memory:
            check_no_floor(principal)
        if incoming.head.query:
            raise MalformedRequest("query: none is read here", status=400)
        asked = _KnownRequest(
            incoming=incoming, principal=principal, headers=headers, hub=served.hub
        )
        try:
            match incoming.head.method:
                case "POST":
                    return await self._post(asked)
                case "GET" | "DELETE":
                    return await self._of_session(asked)
                case _:
                    return _not_allowed("GET, POST, DELETE"), None
        except NoRoomForSession:
            refusal = refuse(503, "busy: too many MCP sessions", retry_after_s=1)
            return problem(refusal, incoming.answering), None

    def _who(self, head: HttpRequest, visit: Visit) -> tuple[Principal, dict[str, str]]:
        """The principal, and the headers for the server, without the sidecar's own key.

        Raises:
            Unauthenticated: No known principal.
        """
        headers = dict(head.headers)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        bearer = bearer.strip() if scheme.lower() == "bearer" else ""
        owner = self._authenticator.authenticate(bearer, visit.peer) if bearer else None
        if owner is not None or bearer.startswith(_OUR_KEYS):
            del headers["authorization"]
        key = headers.pop("x-api-key", None)
        if key is not None:
            return self._authenticator.require(key, visit), headers
        if owner is not None or bearer.startswith(_OUR_KEYS):
            return self._authenticator.require(bearer, visit), headers
        return self._authenticator.require(None, visit), headers

    # ---- requests by POST ------------------------------------------------------------------------

    async def _post(self, asked: _KnownRequest) -> tuple[HttpReply, Exchange | None]:
        # A client resumes a stream with GET; in a POST the header has no meaning.
        asked.headers.pop(LAST_EVENT, None)
        request = await asked.incoming.complete()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise MalformedRequest("content-type: must be application/json", status=415)
        try:
            message = parse(request.body)
            check_head(asked.headers, message)
        except NotRelayed as refusal:
            return _refused(400, refusal.request_id, refusal.code, refusal.detail), None
        era = message.era if message.kind is MessageKind.REQUEST else era_of_head(asked.headers)
        try:
            if era is Era.STATELESS:
                return await self._stateless(asked, message)
            return await self._handshake(asked, message)
        except ChildGone:
            text = "the MCP server behind Mnemogate cannot be started"
            return _refused(200, message.request_id, -32000, text), None

    async def _stateless(
        self, asked: _KnownRequest, message: Message
    ) -> tuple[HttpReply, Exchange | None]:
        if message.kind is MessageKind.NOTIFICATION:
            # The stateless era has no cancel message: a client cancels a call by closing its
            # stream.
            return HttpReply(status=202), None
        if message.kind is not MessageKind.REQUEST or message.request_id is None:
            return _refused(400, None, -32600, "an answer is not expected here"), None
        asked.headers.pop(SESSION, None)
        return await self._in_lane(asked, message, Era.STATELESS)

    async def _handshake(
        self, asked: _KnownRequest, message: Message
    ) -> tuple[HttpReply, Exchange | None]:
        session_id = asked.headers.get(SESSION)
        if session_id is not None:
            line = asked.hub.find(asked.principal, session_id)
            if line is None:
                return _session_gone(message), None
            return await self._through(asked, message, line)
        if message.kind is MessageKind.REQUEST and message.method == "initialize":
            return await self._through(asked, message, await asked.hub.open(asked.principal))
        if asked.hub.serves_sessions_only:
            text = "mcp-session-id: is needed, send initialize first"
            return _refused(400, message.request_id, -32600, text), None
        return await self._in_lane(asked, message, Era.HANDSHAKE)

    async def _through(
        self, asked: _KnownRequest, message: Message, line: RelayLine
    ) -> tuple[HttpReply, Exchange | None]:
        """Handle one message that belongs to a session, on the session's relay line."""
        exchange = Exchange(message.request_id, asked.headers)
        if message.kind is not MessageKind.REQUEST:
            await line.take(message, exchange)
            exchange.leave()
            return HttpReply(status=202, headers=_named(line)), None
        if isinstance(line, CommandLine):
            exchange.passed = dict(_named(line))
        if line.session_id is None:
            exchange.when_over(lambda: _unnamed(asked, line))
        asked.watch(exchange)
        await line.take(message, exchange)
        return _reply(await exchange.head, exchange)

    async def _in_lane(
        self, asked: _KnownRequest, message: Message, era: Era
    ) -> tuple[HttpReply, Exchange | None]:
        """Handle one message that belongs to no session, on a relay line for this exchange."""
        exchange = Exchange(message.request_id, asked.headers, era)
        if message.method == LISTEN:
            asked.hub.keep_open(asked.principal, exchange)
        line = await asked.hub.borrow(asked.principal)
        if message.kind is not MessageKind.REQUEST:
            await line.take(message, exchange)
            exchange.leave()
            asked.hub.give_back(asked.principal, line)
            return HttpReply(status=202), None
        exchange.when_over(lambda: _over(asked, line, exchange))
        asked.watch(exchange)
        await line.take(message, exchange)
        return _reply(await exchange.head, exchange)

    # ---- requests by GET and DELETE --------------------------------------------------------------

    async def _of_session(self, asked: _KnownRequest) -> tuple[HttpReply, Exchange | None]:
        session_id = asked.headers.get(SESSION)
        if era_of_head(asked.headers) is Era.STATELESS or session_id is None:
            return _not_allowed("POST"), None
        line = asked.hub.find(asked.principal, session_id)
        if line is None:
            return _session_gone(None), None
        if asked.incoming.head.method == "GET":
            return await self._get(asked, line)
        return await self._delete(asked, line, session_id), None

    async def _get(
        self, asked: _KnownRequest, line: RelayLine
    ) -> tuple[HttpReply, Exchange | None]:
        if line.listeners >= LISTENING_MAX:
            return _refused(409, None, -32600, "too many streams of one session"), None
        last = asked.headers.get(LAST_EVENT)
        if last is not None and isinstance(line, UrlLine) and not line.sent_event(last):
            return _refused(400, None, -32600, "last-event-id: no event of this session"), None
        exchange = Exchange(None, asked.headers)
        asked.hub.keep_open(asked.principal, exchange)
        asked.watch(exchange)
        if isinstance(line, UrlLine):
            await line.open_stream(exchange)
        else:
            line.listen(exchange)
        return _reply(await exchange.head, exchange)

    async def _delete(self, asked: _KnownRequest, line: RelayLine, session_id: str) -> HttpReply:
        status = 200
        if isinstance(line, UrlLine):
            status = await line.end_session(Exchange(None, asked.headers))
        if status < 400 or status == 404:  # noqa: PLR2004 - the session is gone
            asked.hub.forget(session_id)
        return HttpReply(status=status)


class _McpProgress(msgspec.Struct):
    """The facts known so far about one request, for telemetry."""

    principal: str = ""


class _KnownRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticated request, with the headers that may be forwarded to the server."""

    incoming: RequestHead
    principal: Principal
    headers: dict[str, str]
    hub: Hub

    def watch(self, exchange: Exchange) -> None:
        """Notify the exchange when the client disconnects."""
        gone = self.incoming.welcome.gone
        gone.tell(exchange.leave)
        exchange.when_over(lambda: gone.forget(exchange.leave))


def _over(asked: _KnownRequest, line: RelayLine, exchange: Exchange) -> None:
    """Give back the relay line of a finished exchange without a session.

    If the client left, its call is cancelled instead (stateless era), and the line is closed.
    """
    if not exchange.left:
        asked.hub.give_back(asked.principal, line)
    elif exchange.era is Era.STATELESS and exchange.request_id is not None:
        line.spawn(_taken_back(line, exchange.request_id, exchange))
    # In the handshake era a call continues after its client left. Its relay line is not given back,
    # and ends once it has been idle for long.


async def _taken_back(line: RelayLine, request_id: RequestId, exchange: Exchange) -> None:
    await line.take_back(request_id, exchange)
    line.close()


def _unnamed(asked: _KnownRequest, line: RelayLine) -> None:
    """Give back a relay line if the server's answer to `initialize` named no session.

    A server without sessions does not distinguish relay lines, so another exchange may use it.
    """
    if line.session_id is None:
        asked.hub.give_back(asked.principal, line)


def _named(line: RelayLine) -> tuple[tuple[str, str], ...]:
    session_id = line.session_id
    return () if session_id is None else ((SESSION, session_id),)


def _reply(head: AnswerHead, exchange: Exchange) -> tuple[HttpReply, Exchange | None]:
    reply = HttpReply(
        status=head.status,
        body=head.body or b"",
        content_type=head.content_type,
        headers=tuple(head.headers.items()),
    )
    return reply, (exchange if head.body is None else None)


def _refused(status: int, request_id: int | str | None, code: int, text: str) -> HttpReply:
    return HttpReply(status=status, body=error_answer(request_id, code, text).raw)


def _session_gone(message: Message | None) -> HttpReply:
    request_id = (
        None if message is None or message.kind is not MessageKind.REQUEST else message.request_id
    )
    return _refused(404, request_id, _SESSION_GONE, "no such session: send initialize again")


def _not_allowed(allowed: str) -> HttpReply:
    return HttpReply(status=405, headers=(("Allow", allowed),))
