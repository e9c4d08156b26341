"""The memories of upstream servers as this store knows them, key by key.

An operator's command compares them with what the server has (`mnemogate backend check`).
"""

from __future__ import annotations

from typing import Final

from policy.labels.forwarded_call import call_of
from policy.model import ChangeKind, MemoryStatus, Tenant
from storage.audit import candidate_of
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import ROWS
from storage.tables.rows import (
    GuardedRow,
    guarded_row,
    guarded_rows,
    read_row,
)
from storage.values import ForwardState, UpstreamMemory
from storage.write.seam import Feature

_STANDS: Final = {
    MemoryStatus.LIVE: ForwardState.LIVE,
    MemoryStatus.QUARANTINED: ForwardState.QUARANTINED,
    MemoryStatus.FORWARDING: ForwardState.FORWARDING,
}


class UpstreamMemories(Feature):
    """The memories of an upstream server as the store knows them. Any thread."""

    def under(
        self, target: str, keys: tuple[str, ...], tenants: tuple[Tenant, ...]
    ) -> tuple[UpstreamMemory | None, ...]:
        """For each key of a server: the newest memory under it, of whichever tenant, or None."""
        with self._store.reading() as view:
            return tuple(self._of_any(view, target, key, tenants) for key in keys)

    def after(
        self, target: str, number: int, count: int, *, every: bool = False
    ) -> tuple[tuple[UpstreamMemory, ...], int | None]:
        """The memories of a server among the `count` rows from row `number` on.

        Returns the memories, and the `number` for the next call; None at the end. Of several
        memories under a key only the newest is returned, unless `every` is true.
        """
        found: list[UpstreamMemory] = []
        with self._store.reading() as view:
            for at, (key, _) in enumerate(view.scan(ROWS, ordinal_key(number))):
                ordinal = int.from_bytes(key, "big")
                if at >= count:
                    return tuple(found), ordinal
                kept = self._at(view, target, ordinal, every=every)
                if kept is not None:
                    found.append(kept)
        return tuple(found), None

    def _at(self, view: View, target: str, ordinal: int, *, every: bool) -> UpstreamMemory | None:
        """The memory of this row, if the row is the newest under its key or `every`; else None."""
        row = read_row(view, ordinal)
        if not row.keyed or row.erased or row.change is ChangeKind.DELETE:
            return None
        candidate = candidate_of(row)
        call = call_of(candidate)
        key = row.assigned_key or ("" if call is None else call.key)
        if candidate.target != target or not key:
            return None
        if every:
            one = guarded_row(view, self._names, ordinal)
            stands = _STANDS.get(one.status)
            return None if stands is None else _memory(one, key, stands)
        kept = self._of(view, target, key, row.tenant)
        return kept if kept is not None and kept.number == ordinal else None

    def _of_any(
        self, view: View, target: str, key: str, tenants: tuple[Tenant, ...]
    ) -> UpstreamMemory | None:
        found = (self._of(view, target, key, tenant) for tenant in tenants)
        return next((one for one in found if one is not None), None)

    def _of(self, view: View, target: str, key: str, tenant: Tenant) -> UpstreamMemory | None:
        newest: GuardedRow | None = None
        moving = False
        for one in guarded_rows(view, self._names, tenant, target, key):
            if one.status not in _STANDS:
                continue
            moving = moving or one.status is MemoryStatus.FORWARDING
            if one.sent.change is not ChangeKind.DELETE or newest is None:
                newest = one
        if newest is None:
            return None
        # While a change under the key is on its way, it is not known what the server has.
        return _memory(newest, key, ForwardState.FORWARDING if moving else _STANDS[newest.status])


def _memory(one: GuardedRow, key: str, stands: ForwardState) -> UpstreamMemory:
    return UpstreamMemory(
        number=one.ordinal,
        tenant=one.sent.tenant,
        memory_id=one.sent.memory_id,
        candidate_id=one.sent.candidate_id,
        key=key,
        stands=stands,
        candidate=candidate_of(one.sent),
    )
