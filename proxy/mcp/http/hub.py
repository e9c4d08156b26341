"""All relays to one configured server, one for each MCP session, and their background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec

from policy.model import Principal
from proxy.mcp.http.child import Child, ChildGone, ServerCommandLine
from proxy.mcp.http.client_request import Exchange
from proxy.mcp.http.command_server import CommandLine, SharedLine, SharedProcess
from proxy.mcp.http.line import CALL_SECONDS, LineParts, RelayLine
from proxy.mcp.http.url_server import UrlLine
from proxy.mcp.relay import Deliver, Relay
from proxy.seams.access import Access, access_of
from proxy.transport.responses import attempt
from proxy.transport.upstream import Upstream


class NoRoomForSession(Exception):  # noqa: N818 - a state
    """The error where no more sessions, processes or streams fit, or the front is closing."""


class BackgroundWork:
    """Runs background work while its context is open. Event loop only; the work must not raise."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self, end: Callable[[], None]) -> AsyncGenerator[None]:
        """Accept work while open; at the end call `end`, which must stop all work, and wait."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                end()

    def spawn(self, work: Coroutine[None, None, object]) -> None:
        """Start a task in the background.

        Raises:
            NoRoomForSession: The front is closing.
        """
        if self._tasks is None:
            work.close()
            raise NoRoomForSession
        self._tasks.create_task(work)


_LOG: Final = logging.getLogger("mnemogate.mcp")
LANES_IDLE_MAX: Final = 8
# The most streams that stay open: each occupies one request, and other requests need room too.
STREAMS_PER_PRINCIPAL_MAX: Final = 16
SESSIONS_PER_PRINCIPAL_MAX: Final = 64

Owner: TypeAlias = "tuple[str, str, Access]"


class HubLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the sessions, streams and calls to one server."""

    sessions_max: int = 256
    idle_seconds: float = 1_800.0
    streams_max: int = 64
    call_seconds: float = CALL_SECONDS


RelayFor: TypeAlias = Callable[[Principal, Deliver], Relay]
"""Makes relays for one configured server, which are not started yet."""


class Hub:
    """All relay lines (relays with their connections) to one server. Event loop only.

    Only the principal and the credential that opened a session can use the session. When the
    credential ends, its relay lines and their processes end.
    """

    def __init__(
        self,
        name: str,
        behind: Upstream | ServerCommandLine,
        relay_for: RelayFor,
        *,
        limits: HubLimits,
        spawn: Callable[[Coroutine[None, None, object]], None],
        halt: Callable[[], None],
        now_s: Callable[[], float],
        random_hex: Callable[[int], str],
    ) -> None:
        self.name = name
        self._behind = behind
        self._relay_for = relay_for
        self._limits = limits
        self._spawn_beside = spawn
        self._halt = halt
        self._now_s = now_s
        self._random_hex = random_hex
        self._sessions: dict[str, tuple[Owner, RelayLine]] = {}
        self._lines: set[RelayLine] = set()
        self._idle: dict[Owner, list[RelayLine]] = {}
        self._shared: dict[Owner, SharedProcess] = {}
        self._streams: dict[tuple[str, str], set[Exchange]] = {}
        self._sharing = asyncio.Lock()
        self._closed = False

    async def open(self, principal: Principal) -> RelayLine:
        """Open a relay line for a client that sends `initialize`.

        Raises:
            NoRoomForSession: Too many relay lines are open, and none of this principal's is idle.
        """
        owner = _owner(principal)
        self._make_room(owner)
        if isinstance(self._behind, ServerCommandLine):
            return await self._open_command(self._behind, principal)
        behind = self._behind
        parts = self._line_parts(principal)
        line = UrlLine(parts, behind, lambda named, own: self._adopt(owner, named, own))
        await self._run(line, access_of(principal))
        return line

    def find(self, principal: Principal, session_id: str) -> RelayLine | None:
        """The principal's relay line of a session; None if the principal has no such session."""
        owner, line = self._sessions.get(session_id, (None, None))
        if line is None or owner != _owner(principal) or line.closed:
            return None
        return line

    def forget(self, session_id: str) -> None:
        """Forget a session that has ended."""
        _, line = self._sessions.pop(session_id, (None, None))
        if line is not None:
            line.close()

    async def borrow(self, principal: Principal) -> RelayLine:
        """Open a relay line for one exchange that belongs to no session, or reuse an idle one.

        Raises:
            NoRoomForSession: Too many relay lines are open, and none of this principal's is idle.
        """
        idle = self._idle.get(_owner(principal), [])
        while idle:
            line = idle.pop()
            if not line.closed:
                return line
        owner = _owner(principal)
        self._make_room(owner)
        parts = self._line_parts(principal)
        if isinstance(self._behind, ServerCommandLine):
            command = self._behind
            line = SharedLine(parts, lambda: self._share(command, owner))
        else:
            line = UrlLine(parts, self._behind, lambda _sid, _own: False)
        await self._run(line, access_of(principal))
        return line

    def give_back(self, principal: Principal, line: RelayLine) -> None:
        """Keep the relay line of a finished exchange for the principal's next one, or close it."""
        idle = self._idle.setdefault(_owner(principal), [])
        if line.closed or line.busy or len(idle) >= LANES_IDLE_MAX:
            line.close()
        else:
            idle.append(line)

    def keep_open(self, principal: Principal, exchange: Exchange) -> None:
        """Count a stream that stays open until its client leaves.

        Raises:
            NoRoomForSession: The principal has too many streams, or all principals together have.
        """
        mine = self._streams.setdefault((principal.tenant, principal.principal_id), set())
        count = sum(len(streams) for streams in self._streams.values())
        if len(mine) >= STREAMS_PER_PRINCIPAL_MAX or count >= self._limits.streams_max:
            raise NoRoomForSession
        mine.add(exchange)
        exchange.when_over(lambda: mine.discard(exchange))

    @property
    def serves_sessions_only(self) -> bool:
        """Whether handshake-era clients need a session: they do if the sidecar runs the server."""
        return isinstance(self._behind, ServerCommandLine)

    def sweep(self) -> None:
        """End sessions, relay lines and shared processes that were idle for too long."""
        oldest_s = self._now_s() - self._limits.idle_seconds
        for line in tuple(self._lines):
            if line.used_s < oldest_s and not line.busy:
                line.close()
        self._idle = {owner: idle for owner, idle in self._idle.items() if idle}
        lanes = self._idle.keys()
        for owner in tuple(self._shared):
            if owner not in lanes and not self._shared[owner].busy:
                shared = self._shared.pop(owner)
                owner[-1].forget(shared.close)
                shared.close()

    def close(self) -> None:
        """End all sessions, relay lines and shared processes."""
        self._closed = True
        for line in tuple(self._lines):
            line.close()
        for shared in self._shared.values():
            shared.close()

    # ---- opening and ending relay lines ----------------------------------------------------------

    def _line_parts(self, principal: Principal) -> LineParts:
        return LineParts(
            open_relay=lambda deliver: self._relay_for(principal, deliver),
            halt=self._halt,
            now_s=self._now_s,
            call_seconds=self._limits.call_seconds,
        )

    async def _run(self, line: RelayLine, access: Access) -> None:
        self._lines.add(line)
        access.tell(line.close)
        self._spawn(self._ran(line, access))
        await line.started()

    async def _ran(self, line: RelayLine, access: Access) -> None:
        try:
            await line.run()
        finally:
            access.forget(line.close)
            self._lines.discard(line)
            for session_id, (_, other) in tuple(self._sessions.items()):
                if other is line:
                    del self._sessions[session_id]

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._spawn_beside(attempt(work, self._halt))

    def _adopt(self, owner: Owner, session_id: str, line: RelayLine) -> bool:
        """Register a session id for a relay line; return False if another one has the id."""
        if session_id in self._sessions:
            _LOG.error("mcp server named a session twice", extra={"fields": {"server": self.name}})
            return False
        self._sessions[session_id] = (owner, line)
        return True

    def _make_room(self, owner: Owner) -> None:
        # Sessions are counted per principal, so that a second key gives no second share.
        mine = [line for found, line in self._sessions.values() if found[:2] == owner[:2]]
        if len(self._lines) < self._limits.sessions_max and len(mine) < SESSIONS_PER_PRINCIPAL_MAX:
            return
        idle = [line for line in mine if not line.busy and not line.closed]
        if not idle:
            raise NoRoomForSession
        min(idle, key=lambda line: line.used_s).close()

    # ---- processes of servers that the sidecar runs itself ---------------------------------------

    async def _open_command(self, command: ServerCommandLine, principal: Principal) -> RelayLine:
        child = await self._started(command)
        line = CommandLine(self._line_parts(principal), child)
        line.session_id = self._random_hex(16)
        self._sessions[line.session_id] = (_owner(principal), line)
        await self._run(line, access_of(principal))
        line.spawn(line.serve())
        return line

    async def _share(self, command: ServerCommandLine, owner: Owner) -> SharedProcess:
        # The lock allows one start at a time: two first calls at once would start two processes,
        # of which one would be useless.
        async with self._sharing:
            shared = self._shared.get(owner)
            if shared is None or shared.over:
                if shared is not None:
                    owner[-1].forget(shared.close)
                shared = self._shared[owner] = SharedProcess(await self._started(command))
                owner[-1].tell(shared.close)
                self._spawn(shared.serve())
                self._spawn(shared.silence())
            return shared

    async def _started(self, command: ServerCommandLine) -> Child:
        child = await Child.start(command, self.name)
        if self._closed:
            await child.end()
            raise ChildGone
        return child


def _owner(principal: Principal) -> Owner:
    return (principal.tenant, principal.principal_id, access_of(principal))
