"""Composition: every concrete object is built here, once, from checked settings."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from policy.gate import GATE, Gate, UnsafeObservingGate
from policy.model import PrincipalId
from proxy.auth import NewKey, first_keys
from proxy.dialects.mem0 import Mem0Oss, Mem0Platform
from proxy.dialects.native import Native
from proxy.fronts.admin import admin_routes
from proxy.fronts.guard_socket import guard_routes
from proxy.fronts.health import Health
from proxy.fronts.mcp_http import ROUTES as MCP_ROUTES
from proxy.fronts.memory import MemoryFront, routes_of
from proxy.fronts.model import ROUTES as MODEL_ROUTES
from proxy.listening import ADMIN_SOCKET, Fronts, Listening
from proxy.mcp.relay import limits_of
from proxy.mcp_serving import McpServing, ServingParts
from proxy.model_memory import ModelMemory
from proxy.observing import warned
from proxy.parts import Ground, Parts, Scrape
from proxy.rules import MEM0, Rules, parse_rules
from proxy.surroundings import RandomPool, Surroundings
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.embedding import resolve_embedder
from storage.steady import SteadyClock
from telemetry.facade import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from policy.ruleset import ClassMap, Ruleset
    from proxy.dialects.operation import Dialect
    from proxy.guarding import Guarding
    from proxy.model.coupling import Coupling
    from proxy.settings import Address, Settings
    from proxy.writing import Submits
    from storage.interfaces import Embedder, Failpoint, StoreStatus

START: Final = PrincipalId("mnemogate:start")
READ_THREADS: Final = 2


def no_failpoint(_name: str) -> None:
    """The shipped failpoint: nothing happens."""


def gate_first(store: EmbeddedStore) -> Submits:
    """Where the shipped gate stands: before anything is written, in the writer itself."""
    return store.writer


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """What tests and the evaluation put in other parts for; `run` uses it as it stands.

    No flag, variable or file reaches these fields.
    """

    gate: Gate = GATE
    failpoint: Failpoint = no_failpoint
    # What the interceptor hands its candidates to.
    placing: Callable[[EmbeddedStore], Submits] = gate_first
    clock_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    # Between two turns of what happens every so often.
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    # False: no port, and no socket but the operator's: for commands on a stopped state directory.
    listen: bool = True
    # What the model front asks about memory; a control takes it away.
    couple: Callable[[Coupling], Coupling] = lambda coupling: coupling
    # The gate's own socket, and a free loopback port for the admin listener alone: a wrapper that
    # was elected to be the gate.
    guards: bool = False

    @property
    def guarding(self) -> bool:
        """Whether relays of other processes find the gate."""
        return self.listen or self.guards


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A running sidecar, as its owner sees it."""

    data: Address | None
    admin: Address | None
    health: Address | None
    shown_keys: tuple[NewKey, ...]
    store: EmbeddedStore
    telemetry: Telemetry
    # Set when an invariant broke: the process must stop.
    halted: asyncio.Event
    # To be called after a change of keys that did not go through the operator API.
    keys_changed: Callable[[], None]
    rules: Rules
    # For relays in this very process.
    guard: Guarding


SHIPPED: Final = Composition()

__all__ = ["ADMIN_SOCKET", "SHIPPED", "Composition", "Sidecar", "compose"]


@asynccontextmanager
async def compose(
    settings: Settings, composition: Composition = SHIPPED
) -> AsyncGenerator[Sidecar]:
    """Open the store, start every listener, and yield; close all in the opposite order.

    Raises:
        RulesetError: The ruleset cannot be used.
        EmbedderUnavailable: The embedder's weights are not installed.
        StorageError: The state directory cannot be opened.
        OSError: An address cannot be bound.
    """
    text = settings.ruleset_text()
    ruleset = parse_rules(text)
    embedder = resolve_embedder(settings.embedder)
    async with AsyncExitStack() as stack:
        clock = SteadyClock(composition.clock_ns, composition.monotonic_ns)
        opening = _Opening(settings, composition, clock)
        store = await asyncio.to_thread(opening.store, ruleset, embedder)
        clock.not_before(store.time_ms)
        stack.push_async_callback(asyncio.to_thread, store.close)
        halted = asyncio.Event()
        dialects = _dialects(store)
        telemetry = Telemetry(settings.telemetry, _routes(dialects))
        stack.push_async_callback(asyncio.to_thread, telemetry.close)
        surroundings = _surroundings(composition, clock, telemetry)
        keys = await _first_keys(settings, store, surroundings)
        executor = stack.enter_context(
            ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="mnemogate-read")
        )
        rules = Rules(
            text, read=settings.ruleset_text, writer=store.writer, in_force=lambda: store.ruleset
        )
        opened = _Opened(store=store, embedder=embedder, surroundings=surroundings)
        ground = await _ground(stack, settings, composition, opened)
        parts = Parts(ground, surroundings, executor, rules)
        health = Health(lambda: _told(store, clock), Scrape(store, telemetry))
        mcp = _mcp(settings, composition, parts, surroundings, halted)
        memory = MemoryFront(dialects, parts.session, parts.authenticator, halted.set)
        couple = composition.couple if composition.listen else None
        model = await parts.model_front(stack, couple, halted.set)
        fronts = Fronts(
            data=await mcp.open(stack, memory, model),
            admin=parts.admin_front(health, halted.set),
            guard=parts.guard_front(halted.set),
        )
        listening = Listening(settings, surroundings, halted)
        data, admin = await listening.open(
            stack, fronts, listen=composition.listen, guards=composition.guarding
        )
        parts.confirming.serve_at(admin, tls=composition.listen and settings.tls is not None)
        health_address = await listening.open_health(stack, health) if composition.listen else None
        # Last: what fails inside a task group comes out of it as a group, and a port that is taken
        # has to come out as that.
        observing = settings.observe and composition.listen
        await stack.enter_async_context(warned(observing=observing, wait=composition.wait))
        if composition.listen:
            await stack.enter_async_context(mcp.running())
            await stack.enter_async_context(parts.tending(settings.retention_seconds))
        yield Sidecar(
            data=data,
            admin=admin,
            health=health_address,
            shown_keys=keys,
            store=store,
            telemetry=telemetry,
            halted=halted,
            keys_changed=parts.authenticator.invalidate,
            rules=rules,
            guard=parts.guard,
        )


class _Opened(msgspec.Struct, frozen=True, kw_only=True):
    store: EmbeddedStore
    embedder: Embedder
    surroundings: Surroundings


async def _ground(
    stack: AsyncExitStack, settings: Settings, composition: Composition, opened: _Opened
) -> Ground:
    memory = None
    if settings.models:
        memory = await ModelMemory.opened(opened.store, settings.state, opened.surroundings)
        stack.push_async_callback(memory.close)
    return Ground(
        settings=settings,
        gate=composition.gate,
        store=opened.store,
        writer=composition.placing(opened.store),
        embedder=opened.embedder,
        model_memory=memory,
    )


def _surroundings(
    composition: Composition, clock: SteadyClock, telemetry: Telemetry
) -> Surroundings:
    return Surroundings(
        clock_ns=clock, random_hex=RandomPool(), record=telemetry.record, wait=composition.wait
    )


def _mcp(
    settings: Settings,
    composition: Composition,
    parts: Parts,
    surroundings: Surroundings,
    halted: asyncio.Event,
) -> McpServing:
    return McpServing(
        settings.mcp if composition.listen else (),
        ServingParts(
            guard=parts.guard,
            authenticator=parts.authenticator,
            surroundings=surroundings,
            limits=limits_of(settings),
            halt=halted.set,
        ),
    )


def _routes(dialects: tuple[Dialect, ...]) -> frozenset[str]:
    """Every route that telemetry may name."""
    return routes_of(dialects) | admin_routes() | guard_routes() | MCP_ROUTES | MODEL_ROUTES


class _Opening:
    """Opens the store under a clock that cannot be turned back."""

    def __init__(self, settings: Settings, composition: Composition, clock: SteadyClock) -> None:
        self._settings = settings
        self._composition = composition
        self._clock = clock

    def store(self, ruleset: Ruleset, embedder: Embedder) -> EmbeddedStore:
        """The open store. Blocks."""
        settings, composition = self._settings, self._composition
        return open_embedded(
            state=settings.state,
            checkpoint=settings.checkpoint,
            gate=_gate(settings, composition),
            ruleset=ruleset,
            embedder_id=embedder.embedder_id,
            dimension=embedder.dimension,
            clock=self._clock.now_ms,
            failpoint=composition.failpoint,
            options=EmbeddedOptions(
                quota_bytes=settings.quota_bytes,
                tenant_share=settings.tenant_share,
                adopts_mode=composition.listen,
            ),
        )


def _told(store: EmbeddedStore, clock: SteadyClock) -> StoreStatus:
    """The store's summary, and whether this machine's clock can be believed."""
    status = store.reader.status()
    behind_s = clock.behind_s()
    if not behind_s:
        return status
    note = f"the clock of this machine is {behind_s:.0f} s behind what was written"
    reason = note if status.reason is None else f"{status.reason}; {note}"
    return msgspec.structs.replace(status, reason=reason)


def _gate(settings: Settings, composition: Composition) -> Gate:
    # A command on a stopped state directory serves no agent that anything could change for.
    if settings.observe and composition.listen:
        return UnsafeObservingGate(composition.gate)
    return composition.gate


def _dialects(store: EmbeddedStore) -> tuple[Dialect, ...]:
    def classes() -> ClassMap:
        return store.ruleset.classes[MEM0]

    return (Native(), Mem0Platform(classes), Mem0Oss(classes))


async def _first_keys(
    settings: Settings, store: EmbeddedStore, surroundings: Surroundings
) -> tuple[NewKey, ...]:
    first = first_keys(
        store.reader.keys(), settings.agent_key, settings.operator_key, surroundings.now_ms()
    )
    for record in first.records:
        await store.writer.put_key(record, START)
    return first.shown
