"""Memories that observe mode admitted although an enforcing gate would have refused them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from policy.model import MemoryStatus, Tenant
from storage.ground.errors import StoreCorrupt
from storage.tables.change import read_verdict
from storage.tables.lmdb_store import View
from storage.tables.names import IDS
from storage.tables.rows import chain, memory_of, read_row
from storage.values import AdmittedObjection
from storage.write.seam import Feature


class Objections(Feature):
    """Memories that observe mode admitted over an objection. Any thread; reads every memory."""

    def find(self, tenant: Tenant) -> tuple[AdmittedObjection, ...]:
        """Memories of a tenant that were admitted over an objection, oldest first."""
        with self._store.reading() as view:
            found = list(self._found(view, tenant))
        return tuple(sorted(found, key=lambda objection: objection.leaf_index))

    def _found(self, view: View, tenant: Tenant) -> Iterator[AdmittedObjection]:
        for _, known in view.records(IDS, sound_only=True):
            if known.status is MemoryStatus.DELETED:
                continue
            with suppress(StoreCorrupt):
                newest = read_row(view, known.ordinal)
                if newest.tenant != tenant or newest.erased:
                    continue
                for row in chain(view, known.ordinal):
                    leaf = read_verdict(view, row.leaf_index)
                    if leaf.objection is not None:
                        yield AdmittedObjection(
                            memory=memory_of(newest, known.status),
                            decision=leaf.objection,
                            reason=leaf.reason,
                            step=leaf.step,
                            leaf_index=row.leaf_index,
                        )
                        break
