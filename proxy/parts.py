"""The objects between the store and the fronts, each built once; `proxy.app` puts them together."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from proxy.auth import Authenticator
from proxy.behind import ServersBehind
from proxy.budgets import Budgets, Topics
from proxy.confirming import Confirming
from proxy.evidence import Shadow, Shown
from proxy.explain import Explainer
from proxy.fronts.admin import AdminFront
from proxy.fronts.confirm_page import ConfirmPage, ConfirmParts
from proxy.fronts.guard_socket import GuardFront, GuardSocketParts
from proxy.fronts.model import ModelParts
from proxy.guarding import Guarding, GuardParts
from proxy.model.coupling import UnsafeUncoupled
from proxy.model.extraction import Extraction
from proxy.model.veto import Veto
from proxy.model.vetoing import Vetoing
from proxy.model_serving import open_model_front
from proxy.operate import Operate, OperateParts
from proxy.relays import Relays
from proxy.retention import Retaining
from proxy.seeing import NoSessions
from proxy.session import Session
from proxy.sessions import Sessions
from proxy.sifting import Sieve
from proxy.tokens import TokenSigner, TokenVerifier
from proxy.vectors import takes_client_vectors
from proxy.watching import Unwatched
from proxy.writing import Gatherers, Writing
from storage.audit_reading import EmbeddedAudit
from storage.objections import Objections
from storage.session_log import prints_key
from telemetry.events import StoreGauges

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AsyncExitStack

    from policy.facts import AnchorProbe
    from policy.gate import Gate
    from policy.model import Tenant
    from proxy.fronts.health import Health
    from proxy.fronts.model import ModelFront
    from proxy.model.coupling import Coupling
    from proxy.model_memory import ModelMemory
    from proxy.rules import Rules
    from proxy.settings import Settings
    from proxy.surroundings import Surroundings
    from proxy.writing import Submits
    from storage.embedded import EmbeddedStore
    from storage.interfaces import Embedder
    from telemetry.facade import Telemetry


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What everything else is built on."""

    settings: Settings
    gate: Gate  # an enforcing one, in observe mode as well
    store: EmbeddedStore
    writer: Submits
    embedder: Embedder
    # None where no model front is configured: nobody sees what enters a context.
    model_memory: ModelMemory | None = None


class Parts:
    """The objects between the store and the fronts."""

    def __init__(
        self,
        ground: Ground,
        surroundings: Surroundings,
        executor: ThreadPoolExecutor,
        rules: Rules,
    ) -> None:
        settings, store, embedder = ground.settings, ground.store, ground.embedder
        memory = ground.model_memory
        sessions = _sessions(ground, surroundings)
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
            sessions=NoSessions() if memory is None else memory.sessions,
            watches=Unwatched() if memory is None else memory.withholding,
        )
        self.confirming = Confirming(
            store.secrets.token_key, store.reader.held_candidate, surroundings
        )
        self._store = store
        self._models = settings.models
        self._memory = memory
        writing = Writing(ground.writer, store.reader, gatherers, surroundings)
        self.relays = Relays()
        self.guard = _guarding(ground, writing, (self.confirming, self.relays), sessions)
        self.session = Session(
            reader=store.reader,
            writing=writing,
            embedder=embedder,
            surroundings=surroundings,
            executor=executor,
            recalled=None if memory is None else memory.recalled,
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
            explainer=Explainer(gate=ground.gate, probe=_TextProbe(shadow, embedder)),
            rules=rules,
            retaining=self.retaining,
            behind=ServersBehind(store.pins, store.forwards),
            sessions=sessions,
            surroundings=surroundings,
        )

    @asynccontextmanager
    async def tending(self, retention_s: float) -> AsyncGenerator[None]:
        """What is done every so often, for as long as the block runs."""
        async with self.operate.sessions.compacting(), self.retaining.sweeping(retention_s):
            yield

    def admin_front(self, health: Health, halt: Callable[[], None]) -> AdminFront:
        """What the admin listener and the admin socket serve."""
        confirm_page = ConfirmPage(
            ConfirmParts(
                confirming=self.confirming,
                reader=self._store.reader,
                writer=self._store.writer,
                followed=self._store.followed,
                authenticator=self.authenticator,
            )
        )
        operate = Operate(self.operate)
        return AdminFront(operate, self.authenticator, health, confirm_page, halt)

    async def model_front(
        self,
        stack: AsyncExitStack,
        couple: Callable[[Coupling], Coupling] | None,
        halt: Callable[[], None],
    ) -> ModelFront:
        """What is served below the names of `[[model]]` tables; without `couple` none is."""
        coupling: Coupling = UnsafeUncoupled()
        if self._memory is not None:
            coupling = self._memory.coupled(coupling)
        coupling = Vetoing(coupling, Veto(self.guard, self.relays))
        parts = ModelParts(
            authenticator=self.authenticator,
            coupling=coupling if couple is None else couple(coupling),
            extraction=Extraction(self.guard),
            halt=halt,
            surroundings=self.operate.surroundings,
        )
        return await open_model_front(self._models if couple else (), parts, stack)

    def guard_front(self, halt: Callable[[], None]) -> GuardFront:
        """What the gate's own socket serves."""
        return GuardFront(
            GuardSocketParts(
                guard=self.guard,
                relays=self.relays,
                session=self.session,
                authenticator=self.authenticator,
                surroundings=self.operate.surroundings,
                halt=halt,
                link_of=self.confirming.link_of,
                own_uid=os.geteuid(),
            )
        )


def _sessions(ground: Ground, surroundings: Surroundings) -> Sessions:
    """The ledger; without a model front it knows of no session, and what relays see is in it."""
    if ground.model_memory is not None:
        return ground.model_memory.sessions
    return Sessions(None, prints_key(ground.store.secrets.store_key), surroundings)


def _guarding(
    ground: Ground,
    writing: Writing,
    beside: tuple[Confirming, Relays],
    sessions: Sessions,
) -> Guarding:
    confirming, relays = beside
    store = ground.store
    sieve = Sieve(store.followed.since)
    # What waits may be refused before anybody reads, and then its prints cannot be taken any more.
    sieve.take(store.followed.held())
    return Guarding(
        GuardParts(
            writing=writing,
            reader=store.reader,
            forwards=store.forwards,
            followed=store.followed,
            pins=store.pins,
            sieve=sieve,
            ledger=sessions,
            surroundings=sessions.surroundings,
            confirms=confirming,
            relays=relays,
        )
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


class Scrape:
    """Renders the metrics, with the store's gauges as they are at that moment."""

    def __init__(self, store: EmbeddedStore, telemetry: Telemetry) -> None:
        self._store = store
        self._metrics = telemetry.metrics

    def __call__(self) -> bytes:
        """The metrics as text."""
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
