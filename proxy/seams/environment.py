"""The outside world as the proxy sees it: clock, random ids, embeddings, a sink for events.

The environment is injected, so that tests control all of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from proxy.seams.observations import ReviewPage
from proxy.seams.pace import Pace
from proxy.seams.readiness import UpstreamState
from proxy.seams.waits import ReleaseBell
from telemetry.events import Event
from telemetry.propagation import Traces

POOL_LEN = 8_192


class Serving(msgspec.Struct):
    """The open listeners with their addresses, and the servers of tables, for an operator.

    Also the settings and rules that are wider than as shipped, and the names of incident receivers
    for which too many steps wait. `holds` is false once another process may hold the store.
    """

    listeners: dict[str, str] = {}
    upstreams: list[UpstreamState] = []
    wider: Callable[[], tuple[str, ...]] = tuple
    receivers_behind: Callable[[], tuple[str, ...]] = tuple
    holds: Callable[[], bool] = lambda: True


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Clock in Unix nanoseconds; `random_hex(n)` returns 2n hex digits; `record` never blocks.

    Periodic work calls `wait(seconds)` between its rounds, and long work yields to other requests
    through `pace`.
    """

    clock_ns: Callable[[], int]
    random_hex: Callable[[int], str]
    record: Callable[[Event], None]
    # How many verdicts there were since the start, by decision.
    decisions: Callable[[], dict[str, int]] = dict
    wait: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    pace: Pace = msgspec.field(default_factory=Pace)
    # The page on which persons decide on held candidates; known once the sidecar listens.
    page: ReviewPage = msgspec.field(default_factory=ReviewPage)
    releases: ReleaseBell = msgspec.field(default_factory=ReleaseBell)
    serving: Serving = msgspec.field(default_factory=Serving)
    # The key from which trace ids are derived: the store's own key, once a store is open.
    trace_key: bytes = msgspec.field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def traces(self) -> Traces:
        """The maker of trace contexts, one for each request."""
        return Traces(self.trace_key, self.random_hex)

    def now_ms(self) -> int:
        """The current time by the injected clock, in Unix milliseconds."""
        return self.clock_ns() // 1_000_000


class RandomPool:
    """Hex ids out of the kernel's random source, read in blocks. Event loop only.

    A read is a system call that releases the interpreter lock; under load, five reads per request
    cost more than the request's own work. Each byte is used once.
    """

    def __init__(self) -> None:
        self._hex = ""
        self._at = self._end = 0

    def __call__(self, count: int) -> str:
        """Return `count` random bytes as 2 * `count` hex digits."""
        start, self._at = self._at, self._at + 2 * count
        if self._at > self._end:
            self._hex = secrets.token_hex(max(POOL_LEN, count))
            start, self._at, self._end = 0, 2 * count, len(self._hex)
        return self._hex[start : self._at]


class Embedder(Protocol):
    """Turns text into a vector. Two embedders' vectors never mix in one search."""

    embedder_id: str
    dimension: int

    def embed(self, texts: list[str]) -> list[bytes]:
        """Unit-norm float32 little-endian vectors, one per text; safe from any thread."""
        ...
