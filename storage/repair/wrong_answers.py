"""Implements `Cases` (wrong answers that are looked into) on the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policy.after.closure import BLAST_MAX, Act, Relation
from policy.model import MemoryId, MemoryStatus, PrincipalId, SourceKind, Tenant
from policy.query import EVERYTHING
from storage.audit import VerdictLeaf
from storage.cases import Accused, Case, CaseStep, Named, Opening, Progress
from storage.incidents import Reach
from storage.interfaces import MemoryReader
from storage.repair.reaching import reached
from storage.tables.change import read_leaf
from storage.tables.codec import decode_case, ordinal_key
from storage.tables.lmdb_store import CASES, VECTORS, View
from storage.tables.rows import read_id, read_row
from storage.values import Row
from storage.write.case_records import CaseRecords, read_case
from storage.write.engine import Engine
from storage.write.following import Following, named
from storage.write.writer import EmbeddedWriter

NEAR_MIN: Final = 0.9
"""The cosine from which on two memories count as near copies."""
_NEAR_LEN: Final = 100


class EmbeddedCases:
    """Reads cases on the caller's thread, and has the writer do each step."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter, reader: MemoryReader) -> None:
        self._store = engine.parts.store
        self._names = engine.parts.names
        self._clock = engine.parts.clock
        self._writer = writer
        self._reader = reader
        self._records = CaseRecords(engine)

    def all(self) -> tuple[Case, ...]:
        """Every case, oldest first."""
        with self._store.reading() as view:
            found = [decode_case(payload) for _, payload in view.scan(CASES)]
        return tuple(sorted(found, key=lambda one: (one.opened_at_ms, one.case_id)))

    def get(self, case_id: str) -> Case:
        """One case by its id."""
        with self._store.reading() as view:
            return read_case(view, case_id)

    async def open(self, opening: Opening) -> Case:
        """Record a new case, durably, before any memory is changed for it."""
        return await self._writer.run(lambda: self._records.open(opening))

    async def move(
        self, case_id: str, step: CaseStep, by: PrincipalId, progress: Progress | None = None
    ) -> Case:
        """Set how far a case is (`Cases.move`)."""
        return await self._writer.run(lambda: self._records.move(case_id, step, by, progress))

    async def convict(
        self,
        case_id: str,
        accused: Sequence[Accused],
        by: PrincipalId,
        progress: Progress,
        *,
        proposes: bool = False,
        blast_max: int = BLAST_MAX,
    ) -> Case:
        """Hide these memories and what was derived from them, in one transaction."""
        return await self._writer.run(
            lambda: self._records.convict(
                case_id, accused, by, progress, proposes=proposes, blast_max=blast_max
            )
        )

    async def name_related(self, case_id: str, related: Sequence[Named]) -> Case:
        """Store the first of these memories with the case, and how many there are."""
        return await self._writer.run(lambda: self._records.name_related(case_id, related))

    def preview(
        self, tenant: Tenant, accused: Sequence[Accused], *, blast_max: int = BLAST_MAX
    ) -> tuple[Named, ...]:
        """The memories that `convict` would name, with what it would do to each."""
        with self._store.reading() as view:
            following = Following(view, self._names, tenant, self._clock())
            closure = following.closure(accused, blast_max=blast_max)
            return tuple(map(following.named, closure.consequences))

    def related(self, tenant: Tenant, accused: Sequence[Accused]) -> tuple[Named, ...]:
        """Memories of the same session or origin, and near copies; walks every row."""
        found: dict[MemoryId, Relation] = {}
        vectors: list[tuple[bytes, SourceKind]] = []
        with self._store.reading() as view:
            following = Following(view, self._names, tenant, self._clock())
            closed = following.closure(accused).consequences
            for one in closed:
                if one.relation is not Relation.CULPRIT:
                    continue
                row = read_row(view, one.fact.step)
                for memory_id, relation in self._beside(view, tenant, row):
                    found.setdefault(memory_id, relation)
                vector = view.get(VECTORS, ordinal_key(one.fact.step))
                if vector:
                    vectors.append((vector, row.source))
        for vector, label in vectors:
            for memory_id in self._near(tenant, vector, label):
                found.setdefault(memory_id, Relation.NEAR_COPY)
        for known in closed:
            found.pop(known.fact.memory_id, None)
        with self._store.reading() as view:
            return tuple(self._named(view, tenant, found))

    def _beside(self, view: View, tenant: Tenant, row: Row) -> Iterator[tuple[MemoryId, Relation]]:
        leaf = read_leaf(view, row.leaf_index)
        if isinstance(leaf, VerdictLeaf):
            if leaf.culprit is not None:
                origin = Reach(tenant=tenant, server=leaf.culprit.server, tool=leaf.culprit.tool)
                for memory_id in reached(view, self._names, origin).own.values():
                    yield memory_id, Relation.ORIGIN
            if leaf.session is not None:
                session = Reach(tenant=tenant, session=leaf.session)
                for memory_id in reached(view, self._names, session).own.values():
                    yield memory_id, Relation.SESSION

    def _near(self, tenant: Tenant, vector: bytes, label: SourceKind) -> Iterator[MemoryId]:
        """Live memories with nearly the same text, except those that are trusted more."""
        hits = self._reader.search(tenant, vector, EVERYTHING, _NEAR_LEN, NEAR_MIN, exact=True)
        for hit in hits:
            if hit.memory.source.trust <= label.trust:
                yield hit.memory.memory_id

    def _named(
        self, view: View, tenant: Tenant, found: dict[MemoryId, Relation]
    ) -> Iterator[Named]:
        for memory_id, relation in found.items():
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or known.status is MemoryStatus.DELETED:
                continue
            row = read_row(view, known.ordinal)
            if not row.erased:
                yield named(view, row, relation, Act.NOTHING)
