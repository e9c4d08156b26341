"""A member of a shard that waits for the store: it connects clients to the holder, and looks on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from proxy.dialects.problem import problem
from proxy.fronts.health import HealthHosts
from proxy.seams.environment import Environment
from proxy.seams.operation import HttpReply
from proxy.seams.waits import first
from proxy.settings.table import Settings
from proxy.settings.values import Address, address
from proxy.standby.splice import Splice
from proxy.transport.exchange import REFUSED_ROUTE, AnsweredReply, Front, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from proxy.transport.responses import refuse
from storage.ground.errors import StorageError, StoreUnavailable
from storage.shard import ShardMember

_LOG: Final = logging.getLogger("mnemogate.standby")
LOOK_S: Final = 1.0
_DIAL_S: Final = 2.0
# The holder has limits of its own, and makes room by them; these are reached only after those.
_PER_CONNECTION_OF_HOLDER: Final = 2
_HEALTHY: Final = frozenset({"/healthz", "/readyz"})
_STANDBY_ROUTE: Final = "standby"
_REFUSAL: Final = (
    "this process is a standby of its shard, and a Unix socket cannot be forwarded to the holder: "
    "ask over TCP"
)


class Standby:
    """A standby of a shard, from when its listeners are open until it holds the store."""

    def __init__(self, settings: Settings, member: ShardMember, around: Environment) -> None:
        self._settings = settings
        self._member = member
        self._around = around
        self._holder: Address | None = None
        self._why_not = "the database was not asked yet"  # why this is not ready; "" if it is
        self._behind = ""  # why the copy of the store does not follow; "" if it does
        self._splice = Splice(
            lambda: self._holder,
            member.peers_key,
            _PER_CONNECTION_OF_HOLDER * settings.connections_max,
        )

    async def take_over(self, stop: asyncio.Event, *, gave_up: bool = False) -> bool:
        """Stand by until this process holds the store; False: `stop` was set before.

        `gave_up`: this process has just given the store up, so that it lets another member take it.

        Raises:
            UnknownFormat: A later version of this program has written the store.
            OSError: An address cannot be bound.
        """
        if not gave_up and await self._look():
            return True
        _LOG.info("standing by until no other member holds the shard")
        async with AsyncExitStack() as stack:
            await self._open(stack, stop.set)
            while not stop.is_set():
                await self._follow()
                await first(stop.wait(), self._around.wait(LOOK_S))
                if await self._look():
                    return True
        return False

    async def _follow(self) -> None:
        """Keep this machine's copy of the store near the journal.

        Without a copy a takeover begins with nothing, so that a failure is only reported.
        """
        settings, behind = self._settings, ""
        try:
            await asyncio.to_thread(self._member.follow, settings.state, settings.quota_bytes)
        except (StorageError, OSError) as error:
            behind = f"the copy of the store does not follow the journal: {error}"
        if behind and behind != self._behind:
            _LOG.warning(behind)
        self._behind = behind

    async def _open(self, stack: AsyncExitStack, halt: Callable[[], None]) -> None:
        """Open the listeners that a holder has, so that clients find one wherever they ask."""
        settings = self._settings
        stack.callback(self._splice.close)
        await self._splice.listen("data", settings.listen)
        await self._splice.listen("admin", settings.admin)
        if settings.health is not None:
            health = self._listener(stack, halt, HealthHosts)
            await health.open_tcp(settings.health)
        if settings.unix_socket is not None:
            uids = frozenset(settings.unix_uids or ())
            unix = self._listener(stack, halt, HostRules)
            await unix.open_unix(settings.unix_socket, uids, private=False)

    def _listener(
        self, stack: AsyncExitStack, halt: Callable[[], None], rules: type[HostRules]
    ) -> Listener:
        settings = self._settings
        listener = Listener(
            StandbyFront(lambda: self._why_not or self._behind),
            limits=settings,
            rules=rules.of(settings.allowed_hosts, settings.allowed_origins, "localhost"),
            surroundings=self._around,
            halt=halt,
        )
        stack.push_async_callback(listener.close)
        return listener

    async def _look(self) -> bool:
        """Take the lease if it is over; else find the holder. Return whether it was taken."""
        try:
            if await asyncio.to_thread(self._member.acquire):
                return True
            found = await asyncio.to_thread(self._member.holder)
            self._holder = None if found is None else address(found)
            self._why_not = await self._unreachable()
        except StoreUnavailable as error:
            self._why_not = str(error)
        return False

    async def _unreachable(self) -> str:
        """Why the holder cannot be reached; "" if it can."""
        if self._holder is None:
            return "no member holds the shard now"
        try:
            async with asyncio.timeout(_DIAL_S):
                _, writer = await asyncio.open_connection(self._holder.host, self._holder.port)
        except OSError as error:
            return f"the holder cannot be reached: {error.strerror or 'no answer in time'}"
        writer.close()
        return ""


class StandbyFront:
    """Answers health requests of a standby, and refuses all others with the reason."""

    name = "health"
    routes = _HEALTHY | {_STANDBY_ROUTE, REFUSED_ROUTE}

    def __init__(self, why_not: Callable[[], str]) -> None:
        """`why_not` returns why this process is not ready; "" if it is."""
        self._why_not = why_not

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The answer to a request; a failure is problem details."""
        path = incoming.head.path
        if path not in _HEALTHY:
            refusal = refuse(503, _REFUSAL)
            reply = problem(refusal, incoming.answering)
            return AnsweredReply(reply=reply, route=_STANDBY_ROUTE)
        if path == "/healthz":
            reply = HttpReply(status=200, body=b"ok\n", content_type="text/plain")
            return AnsweredReply(reply=reply, route=path)
        reason = self._why_not()
        body = msgspec.json.encode({"status": "standby", "reason": reason or None})
        return AnsweredReply(reply=HttpReply(status=503 if reason else 200, body=body), route=path)


class HeldFront:
    """A front that is asked only while this process holds its shard's store."""

    def __init__(self, front: Front, holds: Callable[[], bool]) -> None:
        self.name, self.routes = front.name, front.routes
        self._front = front
        self._holds = holds

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        """The front's answer, or a refusal: another process may have written since."""
        # Health is that of this process, whoever holds the store.
        if self.name == "health":
            return await self._front.answer(incoming)
        if self._holds():
            answered = await self._front.answer(incoming)
            # The process may have slept meanwhile. A change that was made was appended in time.
            if answered.done or self._holds():
                return answered
            if answered.pieces is not None:
                await answered.pieces.aclose()
        refusal = refuse(503, "this process does not hold its shard any more", retry_after_s=1)
        return AnsweredReply(reply=problem(refusal, incoming.answering), route=REFUSED_ROUTE)
