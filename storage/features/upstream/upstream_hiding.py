"""Quarantined memories whose own server is told to hide them as well, or gets them back.

What is to be done is no queue. It is the difference between how the newest memory under a key
stands and what was recorded as done on the server, so nothing that a crash leaves undone is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from policy.model import Candidate, CandidateId, ChangeKind, Hiding, MemoryStatus, Tenant
from storage.features.quarantine.hiding import QUARANTINES
from storage.features.upstream.closed_keys import place_of
from storage.tables.change import Change
from storage.tables.codec import encode
from storage.tables.lmdb_store import KEYED, RecordTable, View
from storage.tables.rows import GuardedRow, candidate_of, chain, guarded_row, read_id
from storage.write.seam import Feature

_STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED, MemoryStatus.FORWARDING})


class UpstreamHidingRecord(msgspec.Struct, frozen=True, array_like=True):
    """What was done on a server behind about the memory under one key.

    It is recorded before the server is asked (`done` False), and again when a read of the server
    shows that it is done. `kept` is the removed item in the adapter's own words; b"" for a tag, and
    for a memory that was purged since.
    """

    tenant: Tenant
    target: str
    hiding: Hiding
    done: bool
    kept: bytes = b""


class HidingDue(msgspec.Struct, frozen=True, kw_only=True):
    """One act that a server behind has not confirmed yet.

    `keyed` names the record of the server's `key`, `candidate` is the newest memory under that key.
    `hides` False undoes what `hiding` did. `kept` is what was recorded last.
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
    """The order to record what is asked of a server, or what it confirmed, without a leaf.

    Each is the record of one key of a tenant; None: nothing is done any more. What was kept of a
    memory that is purged by now is dropped.
    """

    done: tuple[tuple[bytes, Tenant, UpstreamHidingRecord | None], ...]

    def carry_out(self, change: Change) -> None:
        """Record all of it."""
        for keyed, tenant, record in self.done:
            put_hidden_there(change, keyed, tenant, record)


class UpstreamHiding(Feature):
    """What servers behind were told of quarantined memories. Reads on any thread."""

    @property
    def changes(self) -> int:
        """A counter that moves with whatever can make something due."""
        return self._access.moves[QUARANTINES]

    def due(
        self, target: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[HidingDue, ...]:
        """What is to be done on a server, of all tenants, or of these keys only.

        Nothing is due of a key while a change of it is on its way, nor of one under which nothing
        is left, such as that of a purged memory: what was done about it stays.

        Raises:
            StorageError: The answer is unknown.
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
        """The newest memory under a key that the server has, or may have soon."""
        newest: GuardedRow | None = None
        for key, _ in view.scan(KEYED, keyed):
            if not key.startswith(keyed):
                break
            one = guarded_row(view, self._names, int.from_bytes(key[len(keyed) :], "big"))
            if one.sent.change is ChangeKind.DELETE or one.status not in _STANDING:
                continue
            if candidate_of(one.sent).target == target:
                newest = one
        return newest


def put_hidden_there(
    change: Change, keyed: bytes, tenant: Tenant, record: UpstreamHidingRecord | None
) -> None:
    """Record what was done about the memory under a key; None: nothing is done any more."""
    draft = change.draft
    change.charges[tenant] -= len(draft.get(HIDDEN_THERE, keyed) or b"")
    if record is None:
        draft.delete(HIDDEN_THERE, keyed)
        return
    if record.kept and not is_filed(draft, keyed):
        # The memory was purged since the server was asked for it.
        record = msgspec.structs.replace(record, kept=b"")
    payload = encode(record)
    change.charges[tenant] += len(payload)
    draft.put(HIDDEN_THERE, keyed, payload)


def forget_kept(change: Change, keyed: bytes) -> None:
    """Drop the content that was kept of a purged memory. It stays hidden as it is."""
    record = change.draft.read(HIDDEN_THERE, keyed)
    if record is not None and record.kept:
        emptied = msgspec.structs.replace(record, kept=b"")
        put_hidden_there(change, keyed, record.tenant, emptied)


def is_filed(view: View, keyed: bytes) -> bool:
    """Whether any memory is filed under a key of a server behind."""
    first = next(view.scan(KEYED, keyed), None)
    return first is not None and first[0].startswith(keyed)
