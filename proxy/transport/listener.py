"""Listeners: they accept connections, pass checked requests to a front, and send its answers."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from policy.model import Principal
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, Unauthenticated
from proxy.seams.operation import EncodingContext, HttpReply, HttpRequest
from proxy.settings.table import Limits
from proxy.settings.values import Address
from proxy.transport.codings import codings_of, plain_body
from proxy.transport.connection import READ_BYTES_MAX, Connection, ConnectionTerms
from proxy.transport.crowd import BURST, Crowd, RequestTurn, Turns
from proxy.transport.exchange import (
    REFUSED_ROUTE,
    AnswerDeadline,
    AnsweredReply,
    Front,
    RequestHead,
)
from proxy.transport.fixed_answers import CONTINUE
from proxy.transport.head import HostRules, ask_for_body, body_of, check_behind, head_of
from proxy.transport.request import ReceivedRequest
from proxy.transport.responses import AnswerFailure, attempt, problem, refusal_for, refuse
from proxy.transport.stop import Stop
from proxy.transport.streamed_answers import StreamedAnswers
from telemetry import propagation
from telemetry.events import RequestServed, TraceContext

HANDSHAKE_S: Final = 5.0
ACCEPTED_AT_ONCE: Final = 64
"""The most connections that one turn of the event loop accepts (asyncio's `backlog`)."""
QUEUED_MAX: Final = 4_096
"""The most connections that wait in the kernel, unless `net.core.somaxconn` is less. A connection
beyond it is retried by the client's TCP after a second."""
_SMALL_BYTES: Final = 64 * 1024
_WRITES: Final = (".write", ".delete_where")
_REQUEST_ID: Final = re.compile(r"[0-9a-fA-F-]{16,64}")
_UNIX_PATH_BYTES_MAX: Final = 107  # the length of `sun_path` in unix(7), without the final NUL
_PUBLIC_MODE: Final = 0o666
_PRIVATE_MODE: Final = 0o600


def tls_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext | None:
    """The TLS context of a server: TLS 1.2 or later; with `ca`, clients need a certificate.

    None if `cert` is None.

    Raises:
        OSError: A file cannot be read, or its content is invalid (`ssl.SSLError` is an `OSError`).
    """
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert, key)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Listener:
    """One front on any number of sockets. Event loop only.

    Every request is answered, counted once, and bounded in size, time and number.
    """

    def __init__(
        self,
        front: Front,
        *,
        limits: Limits,
        rules: HostRules,
        surroundings: Environment,
        halt: Callable[[], None],
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`headers` are added to every answer of this listener."""
        self._headers = dict(headers)
        self._front = front
        self._limits = limits
        self._rules = rules
        self._out = surroundings
        self._traces = surroundings.traces
        self._halt = halt
        self.in_flight = 0  # requests that are being answered now
        self._streams = StreamedAnswers(halt, surroundings.serving)
        self._sockets: list[asyncio.Server] = []
        self._unix_paths: list[Path] = []
        self._closing = False
        self._turns = Turns(limits.requests_max)
        self._crowd = Crowd(limits.connections_max)
        self._terms = ConnectionTerms(
            answers=self._answers,
            limits=limits,
            crowd=self._crowd,
            window=memoryview(bytearray(READ_BYTES_MAX)),
        )

    async def open_tcp(
        self, address: Address, tls: ssl.SSLContext | None = None, *, serving: bool = True
    ) -> Address:
        """Listen on a TCP address; return it with the port that the system chose for port 0.

        Without `serving`, clients that connect wait in the kernel's queue until `serve` is called.

        Raises:
            OSError: The address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        opened = await loop.create_server(
            lambda: Connection(self._terms, lambda _peer: True),
            address.host,
            address.port,
            ssl=tls,
            backlog=ACCEPTED_AT_ONCE,
            ssl_handshake_timeout=HANDSHAKE_S if tls else None,
            start_serving=False,
        )
        await self._opened(opened, serving=serving)
        return Address(host=address.host, port=opened.sockets[0].getsockname()[1])

    async def open_unix(
        self, path: Path, uids: frozenset[int], *, private: bool, serving: bool = True
    ) -> None:
        """Listen on a Unix socket, and close connections of peers with other user ids than these.

        With `private`, only the sidecar's own user may connect at all. `serving` as in `open_tcp`.

        Raises:
            OSError: The socket cannot be created, or another process serves it.
        """
        listening = _bind_unix(path, _PRIVATE_MODE if private else _PUBLIC_MODE)
        opened = await asyncio.get_running_loop().create_unix_server(
            lambda: Connection(self._terms, lambda peer: peer.uid in uids),
            sock=listening,
            backlog=ACCEPTED_AT_ONCE,
            start_serving=False,
        )
        self._unix_paths.append(path)
        await self._opened(opened, serving=serving)

    async def adopt(
        self, accepted: socket.socket, address: str, tls: ssl.SSLContext | None
    ) -> None:
        """Serve a connection that was accepted elsewhere, of a peer with this address.

        Raises:
            OSError: The TLS handshake failed; the socket is closed.
        """
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(self._terms, lambda _peer: True, address),
            accepted,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_S if tls else None,
        )

    async def _opened(self, opened: asyncio.Server, *, serving: bool) -> None:
        _queue(opened)
        self._sockets.append(opened)
        if serving:
            await self.serve()

    async def serve(self) -> None:
        """Accept the waiting connections and all later ones.

        A socket that accepts already is not changed.

        Raises:
            OSError: The system has no resources to accept connections.
        """
        for opened in self._sockets:
            await opened.start_serving()
            _queue(opened)

    async def close(self) -> None:
        """Stop accepting, end streams, let other requests finish in the drain time, and close."""
        for opened in self._sockets:
            opened.close()
        for path in self._unix_paths:
            path.unlink(missing_ok=True)
        self._closing = True
        self._streams.end()
        async with asyncio.TaskGroup() as group:
            for guest in self._crowd:
                group.create_task(guest.shutdown(self._limits.drain_seconds))
        self._sockets.clear()
        self._unix_paths.clear()

    async def _answers(self, request: ReceivedRequest) -> bool | None:
        connection = request.connection
        turn, welcome = RequestTurn(self._turns), AnswerDeadline(connection.departure)
        self.in_flight += 1
        try:
            done = await attempt(self._served(request, turn, welcome), self._halt)
        finally:
            welcome.close()
            turn.end()
            self.in_flight -= 1
        if isinstance(done, AnswerFailure):
            return None
        raw, stays = done
        await connection.send(raw)
        return stays

    async def _served(
        self, request: ReceivedRequest, turn: RequestTurn, welcome: AnswerDeadline
    ) -> tuple[bytes, bool]:
        """Have the front answer a request; return the answer, and whether the connection is kept.

        A streamed answer has been sent when this returns; b"" is returned for it.
        """
        started_ns = self._out.clock_ns()
        # The peer's request id if it is plain hex, else a new one.
        request_id = request.headers.get("X-Request-ID", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = self._out.random_hex(16)
        trace = self._traces.accept(request.headers.getall("traceparent", []))
        answering = EncodingContext(
            trace_id=trace.trace_id,
            now_ms=started_ns // 1_000_000,
            request_id=request_id,
        )
        answered = await self._answer(request, trace, answering, turn, welcome=welcome)
        size = len(answered.reply.body)
        if size > _SMALL_BYTES and self._unread_are_too_many(
            size, answered.route, request.connection.principal
        ):
            busy = refuse(503, "busy: too many answers wait to be read", retry_after_s=1)
            answered = AnsweredReply(reply=problem(busy, answering), route=answered.route)
        self._out.record(
            RequestServed(
                context=trace,
                listener=self._front.name,
                method=request.method,
                route=answered.route,
                status=answered.reply.status,
                started_ns=started_ns,
                ended_ns=self._out.clock_ns(),
                principal=answered.principal,
                error_type=answered.error_type,
            )
        )
        headers = _headers(answered.reply, trace, answering, self._headers)
        # After an ambiguous request, or one whose body was not read, the connection is closed,
        # because its next bytes must not be parsed as a request. A connection without a credential
        # is closed as well.
        certain = answered.route != REFUSED_ROUTE and request.whole
        known = bool(answered.principal) and not welcome.over
        stays = certain and known and request.stays and not self._closing
        now_ms = answering.now_ms
        if answered.pieces is None:
            return request.answer(answered.reply, headers, now_ms, stays=stays), stays
        # On HTTP/1.0 a streamed answer ends with its connection.
        stays = stays and request.http_11
        head = request.stream_head(answered.reply, headers, now_ms, stays=stays)
        await self._streams.send(request, head, answered.pieces, welcome.gone)
        return b"", stays

    def _unread_are_too_many(self, size: int, route: str, principal: str | None) -> bool:
        """Whether peers left so many bytes unread that one more large answer is not sent.

        A peer that asks for whole pages and reads none of them would fill the memory. An answer to
        a write is always sent, because the write was carried out and its answer is small. One
        principal may leave unread `BURST` times as much as is still free, so that others have room.
        """
        if route.endswith(_WRITES):
            return False
        free = self._limits.unread_bytes_max - self.unread_bytes()
        return size > free or self._crowd.unread_of(principal) + size > BURST * free

    def unread_bytes(self) -> int:
        """The number of bytes of answers, over all connections, that peers have not read."""
        return sum(guest.unread_bytes for guest in self._crowd)

    async def _answer(
        self,
        request: ReceivedRequest,
        trace: TraceContext,
        answering: EncodingContext,
        turn: RequestTurn,
        *,
        welcome: AnswerDeadline,
    ) -> AnsweredReply:
        head = await attempt(self._checked(request, turn), self._halt)
        if isinstance(head, AnswerFailure):
            return AnsweredReply(
                reply=problem(head.refusal, answering),
                route=REFUSED_ROUTE,
                error_type=head.error_type,
            )
        limits = self._limits

        async def read(bytes_max: int) -> bytes:
            named = head.headers.get("content-encoding")
            codings = codings_of(named) if named else ()
            ask_for_body(request, head, bytes_max, lambda: request.connection.say(CONTINUE))
            work = body_of(request, bytes_max, limits.body_seconds)
            # A body that arrived together with its head is read without a timer.
            body = await (work if request.whole else _while_welcome(welcome, work))
            welcome.check()
            turn.whole()
            if codings:
                body = await asyncio.to_thread(plain_body, body, codings, bytes_max)
            return body

        def enter(principal: Principal) -> None:
            name = f"{principal.tenant}/{principal.principal_id}"
            request.connection.enter(name)
            turn.enter(name)

        incoming = RequestHead(
            head=head,
            peer=request.connection.peer,
            trace=trace,
            answering=answering,
            read_up_to=read,
            body_bytes_max=limits.body_bytes_max,
            welcome=welcome,
            enter=enter,
            stands_on=welcome.stands_on,
        )
        answered = await self._front.answer(incoming)
        if not welcome.over or answered.done:
            return answered
        if answered.pieces is not None:
            await attempt(answered.pieces.aclose(), self._halt)
        ended = refusal_for(Unauthenticated())
        return AnsweredReply(
            reply=problem(ended, answering), route=answered.route, principal=answered.principal
        )

    async def _checked(self, request: ReceivedRequest, turn: RequestTurn) -> HttpRequest:
        head = head_of(request)
        self._rules.check(head.headers)
        if request.whole:
            check_behind(request)
            turn.whole()
        return head


async def _while_welcome(welcome: AnswerDeadline, work: Awaitable[bytes]) -> bytes:
    """Read the body, unless its sender's credential ends first; return it.

    Raises:
        Unauthenticated: The credential ended before the whole body had arrived.
        MalformedRequest: The peer left before.
    """
    stop = Stop()
    welcome.gone.tell(stop)
    try:
        async with stop:
            return await work
    except TimeoutError:
        welcome.check()
        raise MalformedRequest("body: did not arrive whole", status=400) from None
    finally:
        welcome.gone.forget(stop)


def _headers(
    reply: HttpReply,
    trace: TraceContext,
    answering: EncodingContext,
    always: dict[str, str],
) -> dict[str, str]:
    headers = {
        **always,
        **dict(reply.headers),
        "Content-Type": reply.content_type,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "traceparent": propagation.format_traceparent(trace),
        "Mnemogate-Trace-Id": trace.trace_id,
        "Server": "mnemogate",
    }
    if trace.caller:
        headers["Mnemogate-Caller"] = trace.caller
    # The upstream's own request id is forwarded, because the upstream's support asks for it.
    if "x-request-id" not in headers:
        headers["X-Request-ID"] = answering.request_id
    return headers


def _queue(opened: asyncio.Server) -> None:
    """Let more connections wait in the kernel's queue than one turn of the event loop accepts."""
    for one in opened.sockets:
        with socket.socket(fileno=os.dup(one.fileno())) as same:
            same.listen(QUEUED_MAX)


def _bind_unix(path: Path, mode: int) -> socket.socket:
    """Bind a socket and set its mode before it listens, so that no wider mode is ever in effect."""
    if len(os.fsencode(path)) > _UNIX_PATH_BYTES_MAX:
        raise OSError(
            errno.ENAMETOOLONG,
            f"the path of the Unix socket {path.name} is longer than {_UNIX_PATH_BYTES_MAX} bytes: "
            "choose a shorter directory",
        )
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(mode)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"{path}: {error.strerror}") from error
    return listening


def _remove_stale(path: Path) -> None:
    """Remove the socket file of a process that has ended.

    Raises:
        OSError: A running process serves the socket.
    """
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise OSError(errno.EADDRINUSE, "another process serves this Unix socket")
