"""Elects the process that serves a state directory's gate: the one that holds its lock.

Other processes use that gate. Every process stays connected to the gate's socket, the gate's own
process too, so that all of them learn of the gate's end in the same way. Requests of the gate's
own process need not cross the socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from policy.model import CandidateId, Principal
from proxy.guard.direct import Direct
from proxy.seams.guard import (
    ForwardStatus,
    Guard,
    GuardedCall,
    ItemVerdict,
    PinnedTool,
    PinState,
    RelayedText,
    UnsettledItem,
)
from proxy.seams.operation import DeleteWhere, GraphOperation, GraphResult, Operation, Result, Write
from storage.ground.errors import OutcomeUnknown, StoreLocked, StoreUnavailable

_LOG: Final = logging.getLogger("mnemogate.election")
# Seconds between two attempts, while another process has the lock and does not serve yet.
PAUSE_S: Final = 0.1
READY_S: Final = 30.0
# Seconds that a wrapper which handed over the gate waits for the sidecar that asked for the gate.
# Less than `READY_S`, so that requests still find a gate here if no sidecar takes over.
STAND_BACK_S: Final = 20.0

_T = TypeVar("_T")


class OpenedGate(NamedTuple):
    """The gate that this process serves, because no other process served one."""

    # Set when the gate must stop.
    halted: asyncio.Event
    direct: Direct
    # Set when a sidecar of the same user asked this process to hand over the gate.
    asked_for: asyncio.Event


class OpenGate(Protocol):
    """Opens the state directory and serves its socket."""

    def __call__(self) -> AbstractAsyncContextManager[OpenedGate]:
        """The gate, while its context is open. Raises `StoreLocked` if another process has it."""
        ...


class Election:
    """Keeps a gate available at the socket while `run` runs, in this process or another one.

    Event loop only.
    """

    def __init__(
        self,
        socket: Path,
        open_gate: OpenGate,
        pause_s: float = PAUSE_S,
        stand_back_s: float = STAND_BACK_S,
    ) -> None:
        self._stand_back_s = stand_back_s
        self._socket = socket
        self._open_gate = open_gate
        self._pause_s = pause_s
        self._may_lead = True
        # The loop's time until which this process leaves the gate to a sidecar that asked for it.
        self._back_until_s = 0.0
        self._there = asyncio.Event()
        self.leads = False
        self._own: Direct | None = None

    @property
    def own(self) -> Direct | None:
        """The gate, if this very process is the gate; else None."""
        return self._own

    async def run(self) -> None:
        """Stay connected to the gate; whenever no process serves one, become the gate.

        Raises:
            StorageError, RulesetError, SettingsError, OSError: No process holds the state
                directory, but it cannot be opened.
        """
        while True:
            await self._follow()
            if self._may_lead and asyncio.get_running_loop().time() >= self._back_until_s:
                await self._lead()
            await asyncio.sleep(self._pause_s)

    async def ready(self, seconds: float = READY_S) -> None:
        """Wait until some process serves the gate.

        Raises:
            StoreUnavailable: None did within `seconds`.
        """
        if self._there.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._there.wait()
        except TimeoutError:
            raise StoreUnavailable("nobody is the gate of this state directory") from None

    async def _follow(self) -> None:
        """Stay connected to the gate; return when no process serves it."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._socket))
            except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
                self._there.clear()
                return
            self._there.set()
            try:
                # This connection only shows when the gate ends: its request is never completed, and
                # never answered. A living gate also closes a silent connection; then this process
                # connects again.
                await reader.read()
            except ConnectionError:
                pass
            finally:
                writer.close()

    async def _lead(self) -> None:
        """Become the gate until it stops or is handed over; return if another process is it."""
        try:
            async with self._open_gate() as (halted, self._own, asked_for):
                self.leads = True
                self._there.set()
                _LOG.info("this process is the gate")
                await _first(halted, asked_for)
                # From here on requests wait for the next gate, because this gate may end before it
                # answers them.
                self._there.clear()
                if not halted.is_set():
                    self._back_until_s = asyncio.get_running_loop().time() + self._stand_back_s
                    _LOG.info("this process hands the gate over to a sidecar")
                    return
                # The gate stopped because an invariant broke, so this process must not become the
                # gate again.
                self._may_lead = False
                _LOG.error("the gate of this process had to stop")
        except StoreLocked:
            return
        finally:
            self.leads = False
            self._own = None
            self._there.clear()


async def _first(*events: asyncio.Event) -> None:
    """Return when one of the events is set."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(event.wait()) for event in events]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


class ElectedGuard:
    """Asks the guard of the current gate (`proxy.seams.guard.Guard`). Event loop only.

    Each method first waits for a gate. If the gate's process ends, harmless requests are repeated.
    A request for a verdict is not: the call is not sent, and its outcome is looked up later.
    """

    def __init__(self, election: Election, guard: Guard) -> None:
        self._election = election
        self._guard = guard
        self.releases = guard.releases

    async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge each item; return the verdicts in order. Admitted items' intents are durable."""
        await self._election.ready()
        return await self._guard.judge(principal, call)

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        """Record the outcome of each sent item, as one result leaf of the audit log."""
        await self._twice(lambda: self._guard.settle(principal, server, settled))

    async def sift(
        self, principal: Principal, server: str, strings: tuple[str, ...]
    ) -> tuple[bool, ...]:
        """For each string of a server's answer: True if it must not reach the agent."""
        return await self._twice(lambda: self._guard.sift(principal, server, strings))

    async def saw(self, principal: Principal, segment: RelayedText) -> None:
        """Note a text in the agent's context, as a possible origin of the agent's later writes."""
        await self._twice(lambda: self._guard.saw(principal, segment))

    async def pin(
        self, principal: Principal, server: str, tools: tuple[PinnedTool, ...]
    ) -> PinState:
        """Compare a server's tools with the approved ones; its first list counts as approved."""
        return await self._twice(lambda: self._guard.pin(principal, server, tools))

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        """Items to send or to look up. If this answer is lost, its items are looked up later."""
        await self._election.ready()
        return await self._guard.unsettled(principal, server)

    async def decided(self, principal: Principal, candidate_id: CandidateId) -> ItemVerdict:
        """The decision on a held candidate: still "hold", or a person's decision."""
        return await self._twice(lambda: self._guard.decided(principal, candidate_id))

    async def _twice(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        await self._election.ready()
        try:
            return await ask()
        except (StoreUnavailable, OutcomeUnknown):
            await self._election.ready()
            return await ask()


class GateStore(Protocol):
    """The gate's own store, as a relay in store mode asks it over the gate's socket."""

    async def perform(
        self, operation: Operation | GraphOperation, traceparent: str | None = None
    ) -> Result | GraphResult:
        """Carry out one operation on the gate's own store; return its result."""
        ...


class ElectedStore:
    """Asks the store of the process that is the gate now. Event loop only."""

    def __init__(self, election: Election, store: GateStore) -> None:
        self._election = election
        self._store = store

    async def perform(
        self, operation: Operation | GraphOperation, traceparent: str | None = None
    ) -> Result | GraphResult:
        """Carry out an operation; return its result.

        If the gate's process ends meanwhile, a read is repeated, a write never.

        Raises:
            MalformedRequest: The operation cannot be carried out as asked.
            StorageError: The store did not answer; if `OutcomeUnknown`, a write may be committed.
        """
        await self._election.ready()
        try:
            return await self._store.perform(operation, traceparent)
        except (StoreUnavailable, OutcomeUnknown):
            if isinstance(operation, Write | DeleteWhere):
                raise
            await self._election.ready()
            return await self._store.perform(operation, traceparent)
