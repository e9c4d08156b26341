"""Builds the adapters of the configured memory servers, and the front that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from proxy.backends.chroma.chroma import Chroma
from proxy.backends.http_backend import HttpBackend
from proxy.backends.langgraph.langgraph import LangGraph
from proxy.backends.mem0_server.mem0_server import Mem0Server
from proxy.compose.periodic import Periodic, reaching
from proxy.fronts.backend import BackendFront
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.fronts.backend_writes import TEND_S
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.environment import Environment
from proxy.seams.guard import DeletesUpstream
from proxy.settings.backend import BackendServer, Collections
from proxy.settings.model import ModelUpstream
from proxy.settings.table import SettingsError
from proxy.transport.auth import Authenticator
from proxy.transport.upstream import Upstream, UpstreamLimits

TENDING: Final = "settling with memory servers"
ADAPTERS: Final[Mapping[str, Callable[[BackendServer], HttpBackend]]] = {
    "chroma": lambda server: Chroma(creates=server.collections is Collections.CREATE),
    "langgraph": lambda _: LangGraph(),
    "mem0_server": lambda _: Mem0Server(),
}


def adapters_of(
    servers: tuple[BackendServer, ...], models: tuple[ModelUpstream, ...]
) -> tuple[HttpBackend, ...]:
    """The adapter of each server, after a check that no two tables share a path segment.

    Below an adapter's segments the upstream server is served, and no dialect with the same paths.

    Raises:
        SettingsError: An adapter is unknown or lacks what its table asks for, or its paths belong
            to another table.
    """
    taken = {model.name: f'the [[model]] table "{model.name}"' for model in models}
    found: list[HttpBackend] = []
    for server in servers:
        make = ADAPTERS.get(server.adapter)
        if make is None:
            known = ", ".join(sorted(ADAPTERS))
            raise SettingsError(f"backend {server.name!r}: adapter: one of {known}")
        adapter = make(server)
        for chosen in server.chosen:
            if chosen in adapter.unable:
                raise SettingsError(f"backend {server.name!r}: {chosen}: {adapter.unable[chosen]}")
        for segment in sorted(adapter.segments):
            if segment in taken:
                raise SettingsError(
                    f"backend {server.name!r}: {taken[segment]} is served below /{segment} as well"
                )
            taken[segment] = f'the [[backend]] table "{server.name}"'
        found.append(adapter)
    return tuple(found)


def adapters_by_name(servers: tuple[BackendServer, ...]) -> dict[str, HttpBackend]:
    """A mapping of the names of `[[backend]]` tables to adapters, for an operator's commands.

    Raises:
        SettingsError: As `adapters_of` raises it.
    """
    found = zip(servers, adapters_of(servers, ()), strict=True)
    return {server.name: adapter for server, adapter in found}


class BackendServing:
    """The configured memory servers: front, connections, background work. Event loop only."""

    def __init__(
        self,
        servers: tuple[BackendServer, ...],
        adapters: tuple[HttpBackend, ...],
        *,
        guard: LocalGuard,
        keys: KeyOwners,
        authenticator: Authenticator,
        surroundings: Environment,
        halt: Callable[[], None],
        erases: dict[str, DeletesUpstream | None],
    ) -> None:
        """`erases` gets each server's deletions, once they are connected."""
        self._servers = tuple(zip(servers, adapters, strict=True))
        self._guard = guard
        self._keys = keys
        self._authenticator = authenticator
        self._surroundings = surroundings
        self._halt = halt
        self._erases = erases
        self._tasks: asyncio.TaskGroup | None = None
        self._jobs = set[asyncio.Task[None]]()
        self._upstreams = list[Upstream]()

    async def open(self, stack: AsyncExitStack) -> BackendFront:
        """Open a pool of connections to each server; return the front of all servers."""
        behind: list[BackendServerFront] = []
        for server, adapter in self._servers:
            limits = UpstreamLimits(
                head_seconds=server.answer_seconds, body_seconds=server.answer_seconds
            )
            upstream = Upstream(
                server.url,
                headers=server.headers,
                limits=limits,
                way=server,
                serving=self._surroundings.serving,
            )
            self._upstreams.append(await stack.enter_async_context(upstream))
            check = self._authenticator.check_sent_on
            behind.append(
                BackendServerFront(server, adapter, upstream, self._now_s, check_sent_on=check)
            )
        self._front = BackendFront(
            tuple(behind),
            self._guard,
            self._authenticator,
            keys=self._keys,
            spawn=self._spawn,
            halt=self._halt,
        )
        self._erases.update(self._front.erases)
        return self._front

    def _now_s(self) -> float:
        return self._surroundings.clock_ns() / 1e9

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the background jobs that requests start, while the block runs; then cancel them."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for job in tuple(self._jobs):
                    job.cancel()

    def _spawn(self, job: Coroutine[None, None, None]) -> None:
        if self._tasks is None:
            # The outcome that the job would have recorded is looked up after the next start.
            job.close()
            return
        task = self._tasks.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def periodic(self) -> tuple[Periodic, ...]:
        """The job that settles changes whose answers were lost, and sends released ones."""
        return (
            Periodic(
                seconds=TEND_S if self._servers else 0,
                work=self._front.tend,
                name=TENDING,
                at_once=True,
                releases=self._surroundings.releases,
            ),
            *reaching(self._upstreams),
        )
