"""Indexes in memory of each tenant's graph (store mode), keyed by entity.

The work of a call grows with the memories that it reads, not with the size of the graph.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import msgspec

from policy.model import Memory, Reads, Tenant
from proxy.dialects.mcp.store.graph import WHOLE_GRAPH, GraphAnswer, GraphIndex, Orphan
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import FindInGraph, GraphLookupResult, ReadGraph
from proxy.withhold.screens import Screen
from storage.interfaces import MemoryReader

GRAPH_MEMORIES_MAX: Final = 100_000
"""The most memories of one graph, and of all graphs in memory; the least recent are dropped."""
GRAPH_BYTES_MAX: Final = 16 * 1024 * 1024
TOO_LARGE: Final = "The knowledge graph is too large to be read at once. Search memories instead."
_EACH_BYTES: Final = 64


class _Kept(msgspec.Struct, eq=False):
    index: GraphIndex = msgspec.field(default_factory=GraphIndex)
    seen: object = None


class Graphs:
    """The graphs of all tenants; each call first applies the store's changes to the graph it reads.

    Any thread; a lock allows one call at a time.
    """

    def __init__(self, reader: MemoryReader) -> None:
        self._reader = reader
        self._kept: OrderedDict[tuple[Tenant, Reads], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self,
        tenant: Tenant,
        asked: ReadGraph,
        screen: Screen | None = None,
        reads: Reads = Reads.ALL,
    ) -> GraphAnswer:
        """The part of a tenant's graph that a call asks for and `screen` and `reads` may show.

        Raises:
            MalformedRequest: The part is larger than any answer may be.
            StorageError: The rows cannot be read.
        """
        with self._lock:
            shown = _screened(self._current(tenant, reads), asked, screen)
        if sum(_EACH_BYTES + len(one.text) for one in shown.memories) > GRAPH_BYTES_MAX:
            raise MalformedRequest(TOO_LARGE, status=413)
        return shown

    def find(
        self, tenant: Tenant, asked: FindInGraph, reads: Reads = Reads.ALL
    ) -> GraphLookupResult:
        """The parts of a tenant's graph that a call would change and that exist.

        Raises what `read` raises.
        """
        with self._lock:
            return self._current(tenant, reads).find(asked)

    def orphans(self, tenant: Tenant) -> tuple[Orphan, ...]:
        """Observations whose entity no longer exists, each with the entity's name.

        Raises what `read` raises.
        """
        with self._lock:
            return tuple(self._current(tenant, Reads.ALL).orphans())

    def _current(self, tenant: Tenant, reads: Reads) -> GraphIndex:
        name = (tenant, reads)
        kept = self._kept.setdefault(name, _Kept())
        self._kept.move_to_end(name)
        room = GRAPH_MEMORIES_MAX - len(kept.index)
        changed = self._reader.at(reads).turnover(tenant, WHOLE_GRAPH, kept.seen, room)
        if changed is None:
            del self._kept[name]
            raise MalformedRequest(TOO_LARGE, status=413)
        for ordinal in changed.gone:
            kept.index.drop(ordinal)
        for ordinal, memory in changed.came:
            kept.index.take(ordinal, memory)
        kept.seen = changed.seen
        while sum(len(one.index) for one in self._kept.values()) > GRAPH_MEMORIES_MAX:
            self._kept.popitem(last=False)
        return kept.index


def _screened(index: GraphIndex, asked: ReadGraph, screen: Screen | None) -> GraphAnswer:
    """The part of a graph that is asked for, as if memories that the screen hides did not exist.

    They are put back into the index, because writes have to name every memory of an entity.
    """
    shown = index.read(asked.names, asked.query)
    left_out: dict[int, Memory] = {}
    while screen is not None:
        found = {one.ordinal: one for one in shown.memories if not screen.shows(one)}
        if not found:
            break
        left_out |= found
        for ordinal in found:
            index.drop(ordinal)
        shown = index.read(asked.names, asked.query)
    for ordinal, memory in left_out.items():
        index.take(ordinal, memory)
    return shown
