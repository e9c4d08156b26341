"""Composition: every concrete object is built here, once, from checked settings."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import blake2b
from typing import Any, Final

import msgspec

from policy.gate import GATE, Gate, UnsafeObservingGate
from policy.model import PrincipalId
from policy.ruleset import Ruleset
from proxy.admin.rules_in_force import Rules, parse_rules
from proxy.compose.agent_memory import ModelMemory, convictions_of
from proxy.compose.backends import BackendServing, adapters_of
from proxy.compose.dialects import dialects_of, unhidden
from proxy.compose.hardening import shield
from proxy.compose.mcp import McpServing
from proxy.compose.outboxes import tellers
from proxy.compose.periodic import repeating
from proxy.compose.scrape import Scrape
from proxy.compose.services import Foundation, Services
from proxy.compose.sockets import ADMIN_SOCKET, Fronts, Sockets
from proxy.console.console import console_routes
from proxy.embed.embedding import resolve_embedder
from proxy.fronts.admin import admin_routes
from proxy.fronts.backend import ROUTES as BACKEND_ROUTES
from proxy.fronts.guard_socket import guard_routes
from proxy.fronts.health import Health
from proxy.fronts.mcp_http import ROUTES as MCP_ROUTES
from proxy.fronts.memory import routes_of
from proxy.fronts.model import ROUTES as MODEL_ROUTES
from proxy.guard.local_guard import LocalGuard
from proxy.intercept.interceptor import Submits
from proxy.mcp.relay import RelayLimits
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.model_replays import ModelReplays
from proxy.seams.environment import Embedder, Environment, RandomPool, Serving
from proxy.seams.operation import Dialect
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import Address
from proxy.settings.wider import wider_rules, wider_settings
from proxy.transport.auth import NewKey, first_keys
from proxy.transport.connection import check_aiohttp
from storage.features.registered import PutKey
from storage.ground.clock import SteadyClock
from storage.interfaces import Store
from storage.opening import open_store
from storage.shard import ShardMember
from storage.values import StoreStatus
from telemetry.logs import Telemetry

_LOG: Final = logging.getLogger("mnemogate.app")
START: Final = PrincipalId("mnemogate:start")
READ_THREADS: Final = 2
OWN_UID: Final = (
    "an agent of the sidecar's own uid can allow its own writes: run the agent under another uid, "
    "and `mnemogate doctor` there"
)
"""The first line in the log of each sidecar."""


def no_failpoint(_name: str) -> None:
    """Do nothing where tests inject a fault (a failpoint)."""


def gate_first(store: Store) -> Submits:
    """The writer of a store, which asks the gate before it writes; tests replace it."""
    return store.writer


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that tests replace; `run` uses the defaults.

    No flag, variable or file sets these fields.
    """

    gate: Gate = GATE
    failpoint: Callable[[str], None] = no_failpoint
    # The writer that receives the interceptor's candidates.
    placing: Callable[[Store], Submits] = gate_first
    clock_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    # A function that waits so many seconds between two rounds of periodic work.
    wait: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    relay_limits: RelayLimits = RelayLimits()
    # If false, only the operator's socket is opened, for commands on a stopped state directory.
    listen: bool = True
    # A function that wraps the coupling of ledger and withholding around a model front; control
    # runs leave it out.
    couple: Callable[[LedgerCoupling], LedgerCoupling] = lambda coupling: coupling


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A running sidecar, for the code that started it: addresses, first keys, store and guard."""

    data: Address | None
    admin: Address | None
    health: Address | None
    shown_keys: tuple[NewKey, ...]
    store: Store
    telemetry: Telemetry
    # Set when an invariant of the code is broken, so that the process must stop.
    halted: asyncio.Event
    # A function to call after keys were changed without the operator API.
    keys_changed: Callable[[], None]
    rules: Rules
    # The guard for relays in this process, for the principal of a credential.
    guard: LocalGuard


SHIPPED: Final = Composition()

__all__ = ["ADMIN_SOCKET", "SHIPPED", "Composition", "Sidecar", "compose"]


@asynccontextmanager
async def compose(
    settings: Settings, composition: Composition = SHIPPED, shard: ShardMember | None = None
) -> AsyncGenerator[Sidecar]:
    """Open the store, start every listener, and yield; then close all in the opposite order.

    `shard` is the configured shard, whose store this process holds.

    Raises:
        RulesetError, SettingsError: The ruleset, or the installed aiohttp, cannot be used; or the
            store is a shard's, and this process does not hold it.
        EmbedderUnavailable: The embedder's weights are not installed.
        StorageError: The state directory cannot be opened.
        OSError: An address cannot be bound.
    """
    text = settings.ruleset_text()
    embedder = resolve_embedder(settings.embedder)
    async with AsyncExitStack() as stack:
        store, clock = await _opened(stack, settings, composition, text, embedder, shard)
        halted = asyncio.Event()
        dialects = unhidden(dialects_of(lambda: store.ruleset), settings.model)
        telemetry = Telemetry(settings.telemetry, _routes(dialects))
        stack.push_async_callback(asyncio.to_thread, telemetry.close)
        surroundings = _surroundings(composition, clock, telemetry, store, shard)
        stack.push_async_callback(asyncio.to_thread, surroundings.pace.close)
        rules = Rules(
            text, read=settings.ruleset_text, writer=store.writer, in_force=lambda: store.ruleset
        )
        foundation = await _foundation(stack, settings, composition, store, embedder, surroundings)
        services = Services(foundation, stack.enter_context(_readers()), rules)
        told = await tellers(settings, store, surroundings)
        serving, scrape = surroundings.serving, services.scrape(telemetry, told)
        health = _health(settings, clock, services, scrape, serving)
        mcp = _mcp(settings, composition, services, surroundings, halted)
        couple = composition.couple if composition.listen else None
        model = await services.model_front(stack, couple, halted.set)
        fronts = Fronts(
            data=await mcp.open(stack, services.memory_front(dialects, halted.set), model),
            admin=services.admin_front(health, halted.set),
            guard=services.guard_front(halted.set),
        )
        listening = Sockets(settings, surroundings, halted, shard)
        data, admin = await listening.open(stack, fronts, listen=composition.listen)
        services.page_served_at(admin, tls=composition.listen and settings.tls_cert is not None)
        health_address = await listening.open_health(stack, health) if composition.listen else None
        addresses = {"data": data, "admin": admin, "health": health_address}
        serving.listeners.update(_urls(settings, addresses))
        # The task groups are entered after the ports are open: a task group wraps an exception in a
        # group, and the error of a port that is in use must be reported unwrapped.
        if composition.listen:
            await stack.enter_async_context(mcp.running())
        await stack.enter_async_context(services.watching(listens=composition.listen))
        jobs = (*services.periodic(told), *mcp.periodic(), *listening.periodic())
        await stack.enter_async_context(
            repeating(jobs if composition.listen else (), wait=composition.wait, halt=halted.set)
        )
        keys = await _first_keys(foundation, services) if composition.listen else ()
        await listening.serve()
        yield Sidecar(
            data=data,
            admin=admin,
            health=health_address,
            shown_keys=keys,
            store=store,
            telemetry=telemetry,
            halted=halted,
            keys_changed=services.authenticator.invalidate,
            rules=rules,
            guard=services.guards.mcp,
        )


async def _opened(
    stack: AsyncExitStack,
    settings: Settings,
    composition: Composition,
    rules: str,
    embedder: Embedder,
    shard: ShardMember | None,
) -> tuple[Store, SteadyClock]:
    """Open the store, which is closed with the stack, and a clock that is never behind it."""
    ruleset = parse_rules(rules)
    clock = SteadyClock(composition.clock_ns, composition.monotonic_ns)
    store = await asyncio.to_thread(
        _store, settings, composition, clock, ruleset, embedder, shard=shard
    )
    stack.push_async_callback(asyncio.to_thread, store.close)
    _tell(settings, composition, ruleset)
    clock.not_before(store.time_ms)
    return store, clock


def _urls(settings: Settings, addresses: Mapping[str, Address | None]) -> dict[str, str]:
    """The address of each listener that is open, by its name; the one for health has no TLS."""
    scheme = "http" if settings.tls_cert is None else "https"
    return {
        name: one.url("http" if name == "health" else scheme)
        for name, one in addresses.items()
        if one is not None
    }


def _tell(settings: Settings, composition: Composition, ruleset: Ruleset) -> None:
    """Log that agents of the same uid can bypass the gate, and settings wider than shipped."""
    if composition.listen:
        _LOG.warning(OWN_UID, extra={"fields": {"uid": os.geteuid()}})
    for one in (*wider_settings(settings), *wider_rules(ruleset)):
        _LOG.warning("wider than as shipped", extra={"fields": {"what": one}})


async def _foundation(
    stack: AsyncExitStack,
    settings: Settings,
    composition: Composition,
    store: Store,
    embedder: Embedder,
    surroundings: Environment,
) -> Foundation:
    memory, convictions = None, convictions_of(store)
    if settings.model:
        replays = ModelReplays(
            settings.model, settings.after.replay, surroundings.now_ms, surroundings.serving.holds
        )
        # Observe mode takes no line out.
        places = "tell" if settings.observe and settings.places == "hold" else settings.places
        memory = await ModelMemory.opened(store, surroundings, replays, convictions, places)
        stack.push_async_callback(memory.close)
    return Foundation(
        settings=settings,
        gate=composition.gate,
        store=store,
        writer=composition.placing(store),
        embedder=embedder,
        surroundings=surroundings,
        memory=memory,
        convictions=convictions,
    )


def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="mnemogate-read")


def _surroundings(
    composition: Composition,
    clock: SteadyClock,
    telemetry: Telemetry,
    store: Store,
    shard: ShardMember | None,
) -> Environment:
    made = Environment(
        clock_ns=clock,
        random_hex=RandomPool(),
        record=telemetry.record,
        decisions=telemetry.metrics.decisions,
        wait=composition.wait,
        trace_key=blake2b(b"traces", key=store.prints_key, digest_size=32).digest(),
    )
    if shard is not None:
        made.serving.holds = shard.journal.holds
    return made


def _mcp(
    settings: Settings,
    composition: Composition,
    services: Services,
    surroundings: Environment,
    halted: asyncio.Event,
) -> McpServing:
    return McpServing(
        settings.mcp if composition.listen else (),
        guard=services.guards.mcp,
        authenticator=services.authenticator,
        surroundings=surroundings,
        backends=_backends(settings, composition, services, surroundings, halted),
        limits=composition.relay_limits,
        halt=halted.set,
    )


def _backends(
    settings: Settings,
    composition: Composition,
    services: Services,
    surroundings: Environment,
    halted: asyncio.Event,
) -> BackendServing:
    servers = settings.backend if composition.listen else ()
    return BackendServing(
        servers,
        adapters_of(servers, settings.model),
        guard=services.guards.http,
        keys=services.guards.keys,
        authenticator=services.authenticator,
        surroundings=surroundings,
        halt=halted.set,
        erases=services.erasing.upstream,
    )


def _routes(dialects: tuple[Dialect, ...]) -> frozenset[str]:
    """The templates of all routes, the only names of routes that telemetry may record."""
    fronts = MCP_ROUTES | MODEL_ROUTES | BACKEND_ROUTES
    return routes_of(dialects) | admin_routes() | console_routes() | guard_routes() | fronts


def _store(
    settings: Settings,
    composition: Composition,
    clock: SteadyClock,
    ruleset: Ruleset,
    embedder: Embedder,
    *,
    shard: ShardMember | None,
) -> Store:
    """Open the store with a clock that never goes backwards; return it.

    Opening blocks, so it runs in a thread.
    """
    if settings.shard is not None and shard is None:
        raise SettingsError("shard: only `mnemogate run` opens the store of a shard")
    # A dump would write undecided candidates, and the keys that decrypt them, to disk.
    shield()
    # aiohttp is checked before anything is on disk, because a failure later could leave a store
    # whose first keys were never shown.
    check_aiohttp()
    return open_store(
        state=settings.state,
        checkpoint=settings.checkpoint,
        gate=_gate(settings, composition),
        ruleset=ruleset,
        embedder_id=embedder.embedder_id,
        dimension=embedder.dimension,
        clock=clock.now_ms,
        failpoint=composition.failpoint,
        quota_bytes=settings.quota_bytes,
        tenant_share=settings.tenant_share,
        adopts_mode=composition.listen,
        recalls=settings.after.recalls,
        origin=settings.log_origin,
        shard=shard,
    )


def _health(
    settings: Settings, clock: SteadyClock, services: Services, scrape: Scrape, serving: Serving
) -> Health:
    beyond, store = wider_settings(settings), scrape.store
    serving.wider = lambda: (*beyond, *wider_rules(store.ruleset))
    serving.receivers_behind = scrape.told.behind
    return Health(
        lambda: _told(store, clock),
        scrape,
        around=lambda ready: msgspec.structs.replace(
            scrape.told.witnesses.shown(ready),
            unmapped_tools=services.unmapped_tools(),
            unread_places=store.places.unread_count(),
            unbound_uids=services.unbound_uids(),
            people_with_agents=len(services.ledger.people_with_agents),
            wider=serving.wider(),
            receivers_behind=serving.receivers_behind(),
        ),
    )


def _told(store: Store, clock: SteadyClock) -> StoreStatus:
    """The store's status; its `reason` also reports a machine's clock that is behind the store."""
    status = store.reader.status()
    behind_s = clock.behind_s()
    if not behind_s:
        return status
    note = f"the clock of this machine is {behind_s:.0f} s behind what was written"
    reason = note if status.reason is None else f"{status.reason}; {note}"
    return msgspec.structs.replace(status, reason=reason)


def _gate(settings: Settings, composition: Composition) -> Gate:
    # A command on a stopped state directory serves no agent, so it runs without observe mode.
    if settings.observe and composition.listen:
        return UnsafeObservingGate(composition.gate)
    return composition.gate


async def _first_keys(foundation: Foundation, services: Services) -> tuple[NewKey, ...]:
    """Store the keys that a first start makes; return those to show.

    They are made after every step that can fail, so that each key is shown, and before any request
    is answered, so that no client is told that its key is unknown. Only a start with listeners
    makes keys.
    """
    settings, store = foundation.settings, foundation.store
    authenticator, now_ms = services.authenticator, foundation.surroundings.now_ms()
    known = tuple(authenticator.keys.by_id.values())
    first = first_keys(known, settings.agent_key, settings.operator_key, now_ms)
    for record in first.records:
        with authenticator.storing(record):
            await store.writer.order(PutKey(record, START))
    return first.shown
