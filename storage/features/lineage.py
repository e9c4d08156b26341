"""The memories that a memory was derived from, and those derived from it, without any text."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from itertools import islice

import msgspec

from policy.model import Basis, MemoryClass, MemoryId, PrincipalId, SourceKind, Tenant
from storage.tables.change import read_verdict
from storage.tables.lmdb_store import View
from storage.tables.rows import children_of, memory_of, read_id, read_row, subject_of
from storage.write.seam import Feature

PURGED = "purged"


class Kinship(enum.Enum):
    """How a memory is related to the one that was asked about."""

    ITSELF = "itself"
    SOURCE = "source"  # it was derived from this memory, directly or through others
    DESCENDANT = "descendant"


class LineageNode(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a lineage, as its newest version is labelled; it contains no text.

    `memory` is an id, or "candidate" and an id where a client chose the memory's id. `through` is
    the memory by which it was reached. `status`: "live", "quarantined", "deleted", or "purged", of
    which nothing else is known. `leaf_index`: the leaf of the verdict on the newest version.
    """

    memory: str
    kinship: Kinship
    through: str | None = None
    status: str = PURGED
    memory_class: MemoryClass | None = None
    source: SourceKind | None = None
    basis: Basis | None = None
    principal: PrincipalId | None = None
    at_ms: int | None = None
    leaf_index: int | None = None
    session: str | None = None
    # The server and tool, or the kind of source, in which the text was seen before; "" for none.
    origin: str = ""


class _Step(msgspec.Struct, frozen=True):
    memory_id: MemoryId
    kinship: Kinship
    through: MemoryId | None = None


class Lineage(Feature):
    """Walks from a memory to its sources and to its descendants. Any thread."""

    def nodes(
        self, tenant: Tenant, memory_id: MemoryId, offset: int, limit: int
    ) -> tuple[LineageNode, ...]:
        """A slice of the lineage: the memory, its sources, its descendants, nearest first.

        () if the tenant never had a memory with this id.
        """
        with self._store.reading() as view:
            if read_id(view, self._names.memory(tenant, memory_id)) is None:
                return ()
            steps = islice(self._walk(view, tenant, memory_id), offset, offset + limit)
            return tuple(self._node(view, tenant, one) for one in steps)

    def _walk(self, view: View, tenant: Tenant, memory_id: MemoryId) -> Iterator[_Step]:
        yield _Step(memory_id, Kinship.ITSELF)
        for kinship, following in (
            (Kinship.SOURCE, self._sources),
            (Kinship.DESCENDANT, self._descendants),
        ):
            seen, waiting = {memory_id}, deque([memory_id])
            while waiting:
                through = waiting.popleft()
                for found in following(view, tenant, through):
                    if found not in seen:
                        seen.add(found)
                        waiting.append(found)
                        yield _Step(found, kinship, through)

    def _sources(self, view: View, tenant: Tenant, memory_id: MemoryId) -> Iterator[MemoryId]:
        known = read_id(view, self._names.memory(tenant, memory_id))
        row = None if known is None else read_row(view, known.ordinal)
        if known is not None and row is not None and not row.erased:
            yield from memory_of(row, known.status).derived_from

    def _descendants(self, view: View, tenant: Tenant, memory_id: MemoryId) -> Iterator[MemoryId]:
        for _, row in children_of(view, self._names, tenant, memory_id):
            yield row.memory_id

    def _node(self, view: View, tenant: Tenant, step: _Step) -> LineageNode:
        known = read_id(view, self._names.memory(tenant, step.memory_id))
        row = None if known is None else read_row(view, known.ordinal)
        candidate_id = "" if row is None else row.candidate_id
        memory = subject_of(step.memory_id, candidate_id)
        if known is None or row is None or row.erased:
            return LineageNode(memory=memory, kinship=step.kinship, through=step.through)
        leaf = read_verdict(view, row.leaf_index)
        culprit = leaf.culprit
        origin = "" if culprit is None else "/".join(filter(None, (culprit.server, culprit.tool)))
        return LineageNode(
            memory=memory,
            kinship=step.kinship,
            through=step.through,
            status=known.status.value,
            memory_class=row.memory_class,
            source=row.source,
            basis=row.basis,
            principal=row.principal_id,
            at_ms=row.at_ms,
            leaf_index=row.leaf_index,
            session=leaf.session,
            origin=origin,
        )
