"""Which memory servers stand behind the gate, and the front that drives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from proxy.backends.chroma.chroma import Chroma
from proxy.backends.http_backend import HttpBackend
from proxy.backends.langgraph.langgraph import LangGraph
from proxy.backends.mem0_server.mem0_server import Mem0Server
from proxy.compose.periodic import Periodic, every
from proxy.fronts.backend import BackendFront
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.fronts.backend_writes import TEND_S
from proxy.guard.key_owners import KeyOwners
from proxy.guard.local_guard import LocalGuard
from proxy.seams.environment import Environment
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
    """The adapter of each server, after a check that no two of them share a path.

    A memory API that is imitated here gives way: below a segment of an adapter, the server behind
    is served in its place.

    Raises:
        SettingsError: An adapter is not known or cannot do what its table asks for, or its paths
            are those of another table.
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
    """The adapter of each server, by the name of its table, for an operator's commands.

    Raises:
        SettingsError: An adapter is not known.
    """
    found = zip(servers, adapters_of(servers, ()), strict=True)
    return {server.name: adapter for server, adapter in found}


class BackendServing:
    """The configured memory servers, built once. Event loop only."""

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
    ) -> None:
        self._servers = tuple(zip(servers, adapters, strict=True))
        self._guard = guard
        self._keys = keys
        self._authenticator = authenticator
        self._surroundings = surroundings
        self._halt = halt
        self._tasks: asyncio.TaskGroup | None = None
        self._jobs = set[asyncio.Task[None]]()

    async def open(self, stack: AsyncExitStack) -> BackendFront:
        """The front of the servers, with a pool of connections to each."""
        behind: list[BackendServerFront] = []
        for server, adapter in self._servers:
            limits = UpstreamLimits(
                head_seconds=server.answer_seconds, body_seconds=server.answer_seconds
            )
            upstream = Upstream(server.url, headers=server.headers, limits=limits)
            await stack.enter_async_context(upstream)
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
        return self._front

    def _now_s(self) -> float:
        return self._surroundings.clock_ns() / 1e9

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Do what requests leave to be done while the block runs."""
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
            # What it would have recorded is looked up at the next start.
            job.close()
            return
        task = self._tasks.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def periodic(self) -> tuple[Periodic, ...]:
        """The work that settles what was lost or released."""
        return (every(TEND_S if self._servers else 0, self._front.tend, TENDING, at_once=True),)
