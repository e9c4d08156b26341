"""Composition: every concrete object is built here, once, from checked settings."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from policy.gate import GATE, Gate, UnsafeObservingGate
from policy.model import PrincipalId
from proxy.auth import Authenticator, NewKey, first_keys
from proxy.budgets import Budgets, Topics
from proxy.dialects.mem0 import Mem0Oss, Mem0Platform
from proxy.dialects.native import Native
from proxy.evidence import Shadow, Shown
from proxy.explain import Explainer
from proxy.fronts.admin import AdminFront, admin_routes
from proxy.fronts.health import Health, HealthFront, HealthHosts
from proxy.fronts.memory import MemoryFront, routes_of
from proxy.intake import HostRules
from proxy.observing import HEADER, warned
from proxy.operate import Operate, OperateParts
from proxy.retention import Retaining
from proxy.rules import MEM0, Rules, parse_rules
from proxy.server import Listener, tls_context
from proxy.session import Session
from proxy.surroundings import RandomPool, Surroundings
from proxy.tokens import TokenSigner, TokenVerifier
from proxy.vectors import takes_client_vectors
from proxy.writing import Gatherers, Writing
from storage.audit_reading import EmbeddedAudit
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.embedding import resolve_embedder
from storage.objections import Objections
from storage.steady import SteadyClock
from telemetry.events import StoreGauges
from telemetry.facade import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from policy.facts import AnchorProbe
    from policy.model import Tenant
    from policy.ruleset import ClassMap, Ruleset
    from proxy.dialects.operation import Dialect
    from proxy.exchange import Front
    from proxy.settings import Address, Settings
    from storage.interfaces import Embedder, Failpoint, StoreStatus

START: Final = PrincipalId("mnemogate:start")
READ_THREADS: Final = 2
ADMIN_SOCKET: Final = "admin.sock"


def no_failpoint(_name: str) -> None:
    """The shipped failpoint: nothing happens."""


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """What tests and the evaluation put in other parts for; `run` uses it as it stands.

    No flag, variable or file reaches these fields.
    """

    gate: Gate = GATE
    failpoint: Failpoint = no_failpoint
    clock_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    listen: bool = True  # False: the admin socket only, for commands on a stopped state directory


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


SHIPPED: Final = Composition()


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
        routes = routes_of(dialects) | admin_routes()
        telemetry = Telemetry(settings.telemetry, routes)
        stack.push_async_callback(asyncio.to_thread, telemetry.close)
        surroundings = Surroundings(
            clock_ns=clock, random_hex=RandomPool(), record=telemetry.record
        )
        keys = await _first_keys(settings, store, surroundings)
        executor = stack.enter_context(
            ThreadPoolExecutor(max_workers=READ_THREADS, thread_name_prefix="mnemogate-read")
        )
        rules = Rules(
            text,
            read=settings.ruleset_text,
            writer=store.writer,
            in_force=lambda: store.ruleset,
        )
        ground = _Ground(settings=settings, composition=composition, store=store, embedder=embedder)
        parts = _Parts(ground, surroundings, executor, rules)
        memory_front = MemoryFront(dialects, parts.session, parts.authenticator, halted.set)
        health = Health(lambda: _told(store, clock), _Scrape(store, telemetry))
        admin_front = AdminFront(Operate(parts.operate), parts.authenticator, health, halted.set)
        listening = _Listening(settings, surroundings, halted)
        data, admin = await listening.open(stack, memory_front, admin_front, composition)
        health_address = await listening.open_health(stack, health, composition)
        # Last: what fails inside a task group comes out of it as a group, and a port that is taken
        # has to come out as that.
        await stack.enter_async_context(warned(observing=settings.observe and composition.listen))
        if composition.listen:
            sweeping = parts.retaining.sweeping(settings.retention_seconds)
            await stack.enter_async_context(sweeping)
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
        )


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


class _Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What everything else is built on."""

    settings: Settings
    composition: Composition
    store: EmbeddedStore
    embedder: Embedder


class _Parts:
    """The objects between the store and the fronts."""

    def __init__(
        self,
        ground: _Ground,
        surroundings: Surroundings,
        executor: ThreadPoolExecutor,
        rules: Rules,
    ) -> None:
        settings, store, embedder = ground.settings, ground.store, ground.embedder
        self.authenticator = Authenticator(
            store.reader.keys, settings.bindings, surroundings.now_ms
        )
        signer = TokenSigner(store.secrets.token_key)
        shadow = Shadow(store.reader, embedder)
        gatherers = Gatherers(
            embedder=embedder,
            shadow=shadow,
            budgets=Budgets(
                Topics(embedder.dimension), lambda: store.ruleset.budgets.window_s * 1_000
            ),
            tokens=TokenVerifier(signer.public_key),
            ruleset=lambda: store.ruleset,
        )
        self.session = Session(
            reader=store.reader,
            writing=Writing(store.writer, store.reader, gatherers, surroundings),
            embedder=embedder,
            surroundings=surroundings,
            executor=executor,
        )
        self.retaining = Retaining(
            retained=store.retained,
            session=self.session,
            ruleset=lambda: store.ruleset,
            surroundings=surroundings,
        )
        self.operate = OperateParts(
            writer=store.writer,
            reader=store.reader,
            audit=EmbeddedAudit(store.lmdb, store.log_verifier),
            objections=Objections(store.lmdb),
            quarantined=store.quarantined,
            session=self.session,
            signer=signer,
            authenticator=self.authenticator,
            # What an enforcing gate would say, in observe mode as well.
            explainer=Explainer(gate=ground.composition.gate, probe=_TextProbe(shadow, embedder)),
            rules=rules,
            retaining=self.retaining,
            surroundings=surroundings,
        )


class _TextProbe:
    """Asks the shadow about a text that nobody embedded yet."""

    def __init__(self, shadow: Shadow, embedder: Embedder) -> None:
        self._shadow = shadow
        self._embedder = embedder

    def __call__(self, tenant: Tenant, text: str, margin: float) -> tuple[AnchorProbe, ...] | None:
        if takes_client_vectors(self._embedder):
            return None
        return self._shadow.probe(tenant, Shown(text=text), margin)


class _Scrape:
    """Renders the metrics, with the store's gauges as they are at that moment."""

    def __init__(self, store: EmbeddedStore, telemetry: Telemetry) -> None:
        self._store = store
        self._metrics = telemetry.metrics

    def __call__(self) -> bytes:
        status = self._store.reader.status()
        self._metrics.set_store(
            StoreGauges(
                version=status.version,
                epoch=status.epoch,
                live_count=status.live_count,
                held_count=status.held_count,
                leaf_count=status.leaf_count,
                bytes_used=status.bytes_used,
                bytes_quota=status.bytes_quota,
                writable=status.writable,
                observing=status.observing,
            )
        )
        levels: dict[str, int] = {}
        for _, state in self._store.reader.all_trust():
            levels[state.level.value] = levels.get(state.level.value, 0) + 1
        self._metrics.set_trust(levels)
        return self._metrics.render()


class _Listening:
    """Opens the sockets, data late and health last: it tells that everything else stands."""

    def __init__(
        self, settings: Settings, surroundings: Surroundings, halted: asyncio.Event
    ) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._halted = halted

    async def open(
        self,
        stack: AsyncExitStack,
        memory_front: Front,
        admin_front: Front,
        composition: Composition,
    ) -> tuple[Address | None, Address | None]:
        settings = self._settings
        admin = await self._listener(stack, admin_front, settings.admin)
        own = frozenset({os.geteuid(), 0})
        await admin.open_unix(settings.state / ADMIN_SOCKET, own, private=True)
        if not composition.listen:
            return None, None
        tls = None if settings.tls is None else tls_context(settings.tls)
        admin_address = await admin.open_tcp(settings.admin, tls)
        data = await self._listener(stack, memory_front, settings.listen)
        if settings.unix_socket is not None:
            uids = frozenset(settings.unix_uids)
            await data.open_unix(settings.unix_socket, uids, private=False)
        return await data.open_tcp(settings.listen, tls), admin_address

    async def open_health(
        self, stack: AsyncExitStack, health: Health, composition: Composition
    ) -> Address | None:
        address = self._settings.health
        if address is None or not composition.listen:
            return None
        front = HealthFront(health, self._halted.set)
        listener = await self._listener(stack, front, address, HealthHosts)
        # Never TLS: a kubelet has no client certificate, and there is nothing to keep secret.
        return await listener.open_tcp(address)

    async def _listener(
        self,
        stack: AsyncExitStack,
        front: Front,
        address: Address,
        rules: type[HostRules] = HostRules,
    ) -> Listener:
        settings = self._settings
        listener = Listener(
            front,
            limits=settings.limits,
            rules=rules.of(settings.allowed_hosts, settings.allowed_origins, address.host),
            surroundings=self._surroundings,
            halt=self._halted.set,
            headers=(HEADER,) if settings.observe else (),
        )
        stack.push_async_callback(listener.close)
        return listener
