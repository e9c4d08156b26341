"""Serves the gate's socket, on which relays in other processes ask the guard."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from policy.model import CandidateId, Principal, PrincipalId, Tenant
from proxy.dialects.problem import problem
from proxy.guard import wire
from proxy.guard.local_guard import LocalGuard
from proxy.guard.store_requests import require_store_request
from proxy.intercept.operations import Operations
from proxy.model.call_judge import HostCalls
from proxy.seams.access import check_no_floor
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound, UnknownWrite
from proxy.seams.guard import (
    ForwardStatus,
    GuardedCall,
    HostCall,
    ItemVerdict,
    RefusedCall,
    RelayedText,
)
from proxy.seams.operation import FindInGraph, HttpReply, ReadGraph
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.seams.waits import ReleaseBell
from proxy.settle.forwarder import admitted_of
from proxy.transport.auth import Authenticator, Visit
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, RequestHead
from proxy.transport.responses import AnswerFailure, attempt
from telemetry.events import TraceContext

DIALECT: Final = "mcp_store"
PRESENCE: Final = "presence"
RELAYS_MAX: Final = 4_096
_RELAY: Final = re.compile(r"[0-9a-f]{32}")
_PREFIX: Final = f"{wire.API}/"


def guard_routes() -> frozenset[str]:
    """Every route of the gate's socket that telemetry may name."""
    named = {f"guard.{name}" for name in (*wire.ASKS, PRESENCE)}
    return frozenset(named | {"guard.unknown", REFUSED_ROUTE})


class GuardFront:
    """Serves the gate's socket. Event loop only.

    The socket's listener decides who may connect. The principal is the one bound to the peer's uid,
    else an agent named after the uid; nothing in a request changes the principal.
    """

    name = "guard"

    def __init__(
        self,
        *,
        guard: LocalGuard,
        operations: Operations,
        host_calls: HostCalls,
        authenticator: Authenticator,
        surroundings: Environment,
        halt: Callable[[], None],
        link_of: Callable[[CandidateId], str | None],
        own_uid: int,
        unbound: set[int],
    ) -> None:
        """`link_of` makes the link to a candidate's page, where a person decides without a key.

        Only relays that run as `own_uid` get such a link. `unbound` collects the uids of peers that
        are bound to no principal.
        """
        self._guard = guard
        self._operations = operations
        self._host_calls = host_calls
        self._authenticator = authenticator
        self._surroundings = surroundings
        self._halt = halt
        self._link_of = link_of
        self._own_uid = own_uid
        self.routes = guard_routes()
        # Maps each relay to the items that were admitted for it and that are not settled.
        self._sending: dict[str, set[CandidateId]] = {}
        self._present: Counter[str] = Counter()
        self._unbound = unbound

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a relay's request; failures are problem details."""
        name = incoming.head.path.removeprefix(_PREFIX)
        known = incoming.head.path.startswith(_PREFIX) and (name in wire.ASKS or name == PRESENCE)
        route = f"guard.{name}" if known else "guard.unknown"
        principal = self._principal(incoming)
        if known and name == PRESENCE and incoming.head.method == "GET":
            return await self._presence(incoming, route, principal)
        done = await attempt(self._serve(incoming, name, principal, known=known), self._halt)
        error_type = ""
        if isinstance(done, AnswerFailure):
            error_type = done.error_type
            done = problem(done.refusal, incoming.answering)
        return AnsweredReply(
            reply=done, route=route, principal=principal.principal_id, error_type=error_type
        )

    def _principal(self, visit: Visit) -> Principal:
        peer = visit.peer
        if self._authenticator.authenticate(None, peer) is not None:
            return self._authenticator.require(None, visit)
        if peer.uid is not None:
            self._unbound.add(peer.uid)
        return Principal(principal_id=PrincipalId(f"uid:{peer.uid}"), tenant=Tenant(DEFAULT_TENANT))

    async def _serve(
        self, incoming: RequestHead, name: str, principal: Principal, *, known: bool
    ) -> HttpReply:
        incoming.enter(principal)
        if not known:
            raise NotFound
        if incoming.head.method != "POST":
            raise UnknownWrite
        request = await incoming.complete()
        try:
            asked = msgspec.json.decode(request.body, type=wire.ASKS[name])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            # The decoder's message is dropped, because it may quote the body, whose strings are the
            # agent's.
            raise MalformedRequest("body: not what this route takes") from None
        answer = await self._answered(asked, principal, incoming)
        return HttpReply(status=200, body=wire.ENCODER.encode(answer))

    async def _answered(  # noqa: PLR0911 - one line for each question
        self, asked: object, principal: Principal, incoming: RequestHead
    ) -> object:
        if isinstance(asked, GuardedCall | wire.Strings):
            check_no_floor(principal)
        match asked:
            case GuardedCall():
                return await self._judge(asked, principal, incoming)
            case wire.ServerName():
                given = await self._guard.unsettled(principal, asked.server)
                self._note(incoming, tuple(one.candidate_id for one in given if not one.sent))
                return given
            case wire.Performance():
                return await self._perform(asked, principal, incoming)
            case HostCall():
                refused = await self._host_calls.judge(principal, asked, incoming.trace)
                return wire.HostAnswer(refused=refused)
            case wire.Strings():
                return await self._guard.sift(principal, asked.server, asked.strings, asked.seen)
            case wire.ToolList():
                return await self._guard.pin(principal, asked.server, asked.tools)
            case wire.OneCandidate():
                return await self._guard.decided(principal, CandidateId(asked.candidate_id))
            case _:
                await self._noted(asked, principal)
                return wire.EmptyAnswer()

    async def _noted(self, asked: object, principal: Principal) -> None:
        """Carry out a request that has no result: a settlement, or a text that was seen."""
        match asked:
            case wire.Settlement():
                await self._guard.settle(principal, asked.server, asked.pairs())
                for waiting in self._sending.values():
                    waiting.difference_update(name for name, _ in asked.pairs())
            case RelayedText():
                await self._guard.saw(principal, asked)
            case RefusedCall():
                await self._guard.refused(principal, asked)
            case _:
                raise NotFound

    async def _judge(
        self, call: GuardedCall, principal: Principal, incoming: RequestHead
    ) -> tuple[ItemVerdict, ...]:
        gone = asyncio.Event()
        incoming.welcome.gone.tell(gone.set)
        try:
            judged = await self._guard.judge(principal, call)
        finally:
            incoming.welcome.gone.forget(gone.set)
        admitted = admitted_of(judged)
        if gone.is_set():
            # The relay has disconnected, so no one will send the items that this verdict admits.
            failed = tuple((candidate_id, ForwardStatus.FAILED) for candidate_id in admitted)
            await self._guard.settle(principal, call.server, failed)
        else:
            self._note(incoming, admitted)
        return tuple(map(self._linked, judged)) if incoming.peer.uid == self._own_uid else judged

    def _linked(self, judged: ItemVerdict) -> ItemVerdict:
        if judged.confirm_url is None or judged.candidate_id is None:
            return judged
        link = self._link_of(judged.candidate_id)
        return msgspec.structs.replace(judged, confirm_url=link or judged.confirm_url)

    def _note(self, incoming: RequestHead, admitted: tuple[CandidateId, ...]) -> None:
        waiting = self._sending.get(incoming.head.headers.get(wire.RELAY_HEADER.lower(), ""))
        if waiting is not None:
            waiting.update(admitted)

    async def _perform(
        self, asked: wire.Performance, principal: Principal, incoming: RequestHead
    ) -> object:
        operation, trace = asked.operation, self._trace(asked, incoming)
        if isinstance(operation, ReadGraph | FindInGraph):
            return await self._operations.graph(principal, operation, dialect=DIALECT, trace=trace)
        require_store_request(operation)
        return await self._operations.perform(principal, operation, dialect=DIALECT, trace=trace)

    def _trace(self, asked: wire.Performance, incoming: RequestHead) -> TraceContext:
        if asked.traceparent is None:
            return incoming.trace
        return self._surroundings.traces.accept([asked.traceparent])

    # ---- noticing whether relays are connected ---------------------------------------------------

    async def _presence(
        self, incoming: RequestHead, route: str, principal: Principal
    ) -> AnsweredReply:
        """Answer with a body that never ends, so that a lost connection shows the relay's end."""
        relay = incoming.head.headers.get(wire.RELAY_HEADER.lower(), "")
        done = await attempt(_named(incoming, principal, relay), self._halt)
        if isinstance(done, AnswerFailure):
            refused = problem(done.refusal, incoming.answering)
            return AnsweredReply(reply=refused, route=route, error_type=done.error_type)
        self._present[relay] += 1
        self._guard.resume(tuple(self._sending.setdefault(relay, set())))
        return AnsweredReply(
            reply=HttpReply(status=200),
            route=route,
            principal=principal.principal_id,
            pieces=_Presence(self._surroundings.releases, lambda: self._left(relay)),
        )

    def _left(self, relay: str) -> None:
        self._present[relay] -= 1
        if self._present[relay] > 0:
            return  # the relay reconnected before the end of its old connection was noticed
        del self._present[relay]
        waiting = self._sending.get(relay, set())
        self._guard.abandon(tuple(waiting))
        # The items are stored until the relay returns. Beyond `RELAYS_MAX` relays, those of the
        # oldest one are dropped.
        if not waiting or len(self._sending) > RELAYS_MAX:
            gone = relay if not waiting else next(iter(self._sending))
            self._sending.pop(gone, None)


async def _named(incoming: RequestHead, principal: Principal, relay: str) -> None:
    incoming.enter(principal)
    if _RELAY.fullmatch(relay) is None:
        raise MalformedRequest("header: a relay names itself")


class _Presence:
    """The body of an answer that stays open for as long as a relay is connected.

    One byte is sent at once, and one after each release, until the connection ends.
    """

    def __init__(self, releases: ReleaseBell, left: Callable[[], None]) -> None:
        self._releases = releases
        self._left = left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            released = self._releases.next
            yield b"\n"
            await released.wait()

    async def aclose(self) -> None:
        self._left()
