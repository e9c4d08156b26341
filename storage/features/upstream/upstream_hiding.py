"""Quarantined memories that their upstream server is asked to hide as well, or to show again.

The acts that are due are not queued. They are the difference between the state of the newest memory
under a key and the record of what was done on the server, so that a crash loses none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from policy.model import Candidate, CandidateId, ChangeKind, Hiding, MemoryStatus, Tenant
from storage.audit import candidate_of
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.upstream.closed_keys import place_of
from storage.tables.change import Change
from storage.tables.codec import encode
from storage.tables.lmdb_store import View
from storage.tables.names import KEYED, RecordTable
from storage.tables.rows import (
    GuardedRow,
    chain,
    filed_rows,
    read_id,
)
from storage.write.seam import Feature

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED, MemoryStatus.FORWARDING})


class UpstreamHidingRecord(msgspec.Struct, frozen=True, array_like=True):
    """The last act on an upstream server about the memory under one key.

    The act is recorded before the server is asked (`done` False), and again when a read of the
    server shows that it is done. `kept` is the removed item in the adapter's own format; b"" for a
    tag, and for a memory that was purged since.
    """

    tenant: Tenant
    target: str
    hiding: Hiding
    done: bool
    kept: bytes = b""


class HidingDue(msgspec.Struct, frozen=True, kw_only=True):
    """One act that an upstream server has not confirmed yet.

    `keyed` is the keyed hash of the server's `key`, under which the act is recorded. `candidate` is
    the newest memory under that key. `hides` False undoes what `hiding` did. `kept` is copied from
    the record.
    """

    keyed: bytes
    key: str
    candidate_id: CandidateId
    candidate: Candidate
    hiding: Hiding
    hides: bool
    kept: bytes = b""


HIDDEN_THERE: Final = RecordTable(b"hidden_there", UpstreamHidingRecord)


class RecordHiding(msgspec.Struct, frozen=True):
    """An order to the writer: record what a server is asked for, or confirmed, without a leaf.

    Each entry is the record of one key of a tenant; None deletes the record, because the server
    hides the memory no more. The content of a memory that is purged by now is dropped.
    """

    done: tuple[tuple[bytes, Tenant, UpstreamHidingRecord | None], ...]

    def carry_out(self, change: Change) -> None:
        """Write or delete each record."""
        for keyed, tenant, record in self.done:
            put_hidden_there(change, keyed, tenant, record)


class UpstreamHiding(Feature):
    """What upstream servers were asked about quarantined memories. Reads run on any thread."""

    @property
    def changes(self) -> int:
        """A counter that grows with every change that can make an act due."""
        return self._access.moves[QUARANTINES]

    def due(
        self, target: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[HidingDue, ...]:
        """The acts that are due on a server, for all tenants, or for the keys in `only`.

        No act is due for a key while a change under the key is on its way. None is due either if no
        memory is left under the key, for example after a purge: the server keeps it as it is.

        Raises:
            StorageError: The store could not be read.
        """
        with self._store.reading() as view:
            keys = frozenset(self._keys(view, target, hiding)) if only is None else only
            found = (self._of(view, target, keyed, hiding) for keyed in sorted(keys))
            return tuple(one for one in found if one is not None)

    def _keys(self, view: View, target: str, hiding: Hiding) -> Iterator[bytes]:
        for keyed, record in view.records(HIDDEN_THERE):
            if record.target == target:
                yield keyed
        if hiding is Hiding.SIFT:
            return
        for name in view.keys(QUARANTINES):
            known = read_id(view, name)
            if known is not None and known.status is MemoryStatus.QUARANTINED:
                yield from (row.keyed for row in chain(view, known.ordinal) if row.keyed)

    def _of(self, view: View, target: str, keyed: bytes, hiding: Hiding) -> HidingDue | None:
        newest = self._newest(view, target, keyed)
        if newest is None or newest.status is MemoryStatus.FORWARDING:
            return None
        record = view.read(HIDDEN_THERE, keyed)
        hidden = newest.status is MemoryStatus.QUARANTINED
        acts: Hiding | None
        if record is None:
            acts = hiding if hidden and hiding is not Hiding.SIFT else None
        elif hidden and record.hiding is hiding:
            acts = None if record.done else hiding
        else:
            hidden, acts = False, record.hiding
        place = place_of(newest.sent)
        if acts is None or place is None:
            return None
        return HidingDue(
            keyed=keyed,
            key=place.key,
            candidate_id=newest.sent.candidate_id,
            candidate=candidate_of(newest.sent),
            hiding=acts,
            hides=hidden,
            kept=b"" if record is None else record.kept,
        )

    def _newest(self, view: View, target: str, keyed: bytes) -> GuardedRow | None:
        """The newest memory under a key that the server has, or may soon have, or None."""
        newest: GuardedRow | None = None
        for one in filed_rows(view, self._names, keyed):
            if one.sent.change is ChangeKind.DELETE or one.status not in _STANDING:
                continue
            if candidate_of(one.sent).target == target:
                newest = one
        return newest


def put_hidden_there(
    change: Change, keyed: bytes, tenant: Tenant, record: UpstreamHidingRecord | None
) -> None:
    """Write the record of the memory under a key; None deletes it."""
    draft = change.draft
    change.charges[tenant] -= len(draft.get(HIDDEN_THERE, keyed) or b"")
    if record is None:
        draft.delete(HIDDEN_THERE, keyed)
        return
    if record.kept and not is_filed(draft, keyed):
        # The memory was purged since the server was asked to hide it.
        record = msgspec.structs.replace(record, kept=b"")
    payload = encode(record)
    change.charges[tenant] += len(payload)
    draft.put(HIDDEN_THERE, keyed, payload)


def forget_kept(change: Change, keyed: bytes) -> None:
    """Drop the stored content of a purged memory, which stays hidden on the server as it is."""
    record = change.draft.read(HIDDEN_THERE, keyed)
    if record is not None and record.kept:
        emptied = msgspec.structs.replace(record, kept=b"")
        put_hidden_there(change, keyed, record.tenant, emptied)


def is_filed(view: View, keyed: bytes) -> bool:
    """Whether any memory is filed under a key of an upstream server."""
    return next(view.under(KEYED, keyed), None) is not None
