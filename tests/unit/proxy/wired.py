"""The interceptor over a real store and embedder, with clock and ids in the test's hands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.gate import Gate
from proxy.compose.agent_memory import convictions_of
from proxy.intercept.budgets import Topics, WriteCounts
from proxy.intercept.interceptor import Interceptor
from proxy.intercept.shadow import Shadow, TokenVerifier
from proxy.ledger.sessions import Sessions
from proxy.seams.environment import Embedder, Environment
from proxy.seams.pace import Pace
from proxy.withhold.withholding import Withholding
from storage.embedded import EmbeddedStore, open_embedded
from storage.interfaces import MemoryReader
from telemetry.events import Event, TraceContext
from tests.embedder import shared_embedder
from tests.unit.storage.opening import RULESET, Bench

NOW_MS = 1_750_000_000_000
TRACE = TraceContext(trace_id="0a" * 16, span_id="0b" * 8)


class Wired(NamedTuple):
    """The parts that a request passes, and what they told."""

    store: EmbeddedStore
    embedder: Embedder
    surroundings: Environment
    writing: Interceptor
    events: list[Event]
    budgets: WriteCounts


@contextmanager
def wired(
    root: Path,
    gate: Gate,
    embedder: str = "static",
    sessions: Sessions | None = None,
    watches: Callable[[EmbeddedStore], Withholding] | None = None,
    *,
    pace: Pace | None = None,
    reader: Callable[[MemoryReader], MemoryReader] | None = None,
) -> Generator[Wired]:
    """An interceptor in front of an open store; `reader` stands before the store's own."""
    bench = Bench(root)
    model = shared_embedder(embedder)
    store = open_embedded(
        state=bench.state,
        checkpoint=bench.checkpoint,
        gate=gate,
        ruleset=RULESET,
        embedder_id=model.embedder_id,
        dimension=model.dimension,
        clock=bench.clock,
    )
    numbers = itertools.count(1)
    events: list[Event] = []
    surroundings = Environment(
        clock_ns=lambda: NOW_MS * 1_000_000,
        random_hex=lambda count: f"{next(numbers):0{2 * count}x}",
        record=events.append,
        pace=pace or Pace(),
    )
    budgets = WriteCounts(Topics(model.dimension))
    public = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    writing = Interceptor(
        writer=store.writer,
        reader=store.reader if reader is None else reader(store.reader),
        embedder=model,
        shadow=Shadow(store.reader, model),
        budgets=budgets,
        tokens=TokenVerifier(public),
        ruleset=lambda: store.ruleset,
        sessions=sessions,
        watches=None if watches is None else watches(store),
        outcomes=store.writer,
        convictions=convictions_of(store),
        surroundings=surroundings,
    )
    yield Wired(store, model, surroundings, writing, events, budgets)
    surroundings.pace.close()
    store.close()
