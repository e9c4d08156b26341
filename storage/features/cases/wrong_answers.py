"""Reads of the cases of wrong answers, and of the memories that a case is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policy.after.closure import BLAST_MAX, Act, Relation
from policy.model import MemoryId, MemoryStatus, Tenant
from storage.features.cases import CASES, Case, CaseMemory, ConvictedMemory
from storage.features.cases.case_facts import CaseFacts, named
from storage.features.cases.case_records import read_case
from storage.features.incidents.reached_memories import reached
from storage.features.selections import alike
from storage.questions import LIKE_MIN, Selection
from storage.tables.change import read_verdict
from storage.tables.lmdb_store import View
from storage.tables.rows import read_id, read_row
from storage.values import Row
from storage.write.seam import Feature


class Cases(Feature):
    """The cases of one store. Coroutines may run on any loop; other calls block, on any thread.

    Coroutines raise what `MemoryWriter.submit` raises; each is one transaction with its leaves.
    """

    def all(self) -> tuple[Case, ...]:
        """Every case, oldest first."""
        with self._store.reading() as view:
            found = [case for _, case in view.records(CASES, sound_only=True)]
        return tuple(sorted(found, key=lambda one: (one.opened_at_ms, one.case_id)))

    def get(self, case_id: str) -> Case:
        """One case by its id.

        Raises:
            UnknownIncident: No case has that id.
        """
        with self._store.reading() as view:
            return read_case(view, case_id)

    def preview(
        self, tenant: Tenant, accused: Sequence[ConvictedMemory], *, blast_max: int = BLAST_MAX
    ) -> tuple[CaseMemory, ...]:
        """The memories that `Convict` would name, with the act on each; nothing is changed."""
        with self._store.reading() as view:
            following = CaseFacts(view, self._names, tenant, self._clock())
            closure = following.closure(accused, blast_max=blast_max)
            return tuple(map(following.named, closure.consequences))

    def related(self, tenant: Tenant, accused: Sequence[ConvictedMemory]) -> tuple[CaseMemory, ...]:
        """Memories that share a session or origin with an accused memory, or are like it.

        The call reads every row of the store.
        """
        found: dict[MemoryId, Relation] = {}
        with self._store.reading() as view:
            following = CaseFacts(view, self._names, tenant, self._clock())
            closed = following.closure(accused).consequences
            for one in closed:
                if one.relation is not Relation.CULPRIT:
                    continue
                row = read_row(view, one.fact.step)
                like = _alike(view, tenant, one.fact.step, row)
                for memory_id, relation in (*self._beside(view, tenant, row), *like):
                    found.setdefault(memory_id, relation)
        for known in closed:
            found.pop(known.fact.memory_id, None)
        with self._store.reading() as view:
            return tuple(self._named(view, tenant, found))

    def _beside(self, view: View, tenant: Tenant, row: Row) -> Iterator[tuple[MemoryId, Relation]]:
        leaf = read_verdict(view, row.leaf_index)
        if leaf.culprit is not None:
            origin = Selection(tenant=tenant, server=leaf.culprit.server, tool=leaf.culprit.tool)
            for memory_id in reached(view, self._names, origin).own.values():
                yield memory_id, Relation.ORIGIN
        if leaf.session is not None:
            session = Selection(tenant=tenant, session=leaf.session)
            for memory_id in reached(view, self._names, session).own.values():
                yield memory_id, Relation.SESSION

    def _named(
        self, view: View, tenant: Tenant, found: dict[MemoryId, Relation]
    ) -> Iterator[CaseMemory]:
        for memory_id, relation in found.items():
            known = read_id(view, self._names.memory(tenant, memory_id))
            if known is None or known.status is MemoryStatus.DELETED:
                continue
            row = read_row(view, known.ordinal)
            if not row.erased:
                yield named(view, row, relation, Act.NOTHING)


def _alike(
    view: View, tenant: Tenant, ordinal: int, accused: Row
) -> Iterator[tuple[MemoryId, Relation]]:
    """Memories that are like an accused one, except memories with a more trusted label."""
    for key in alike(view, ordinal, LIKE_MIN):
        row = read_row(view, int.from_bytes(key, "big"))
        if row.tenant == tenant and row.source.trust <= accused.source.trust:
            yield row.memory_id, Relation.ALIKE
