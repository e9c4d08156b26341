"""What is to be done on servers behind about quarantined memories, and what was done."""

from __future__ import annotations

from collections.abc import Iterator

from policy.model import ChangeKind, Hiding, MemoryStatus, Tenant
from storage.hidden_behind import HiddenThere, HidingDue
from storage.tables.change import Change
from storage.tables.closed_keys import place_of
from storage.tables.codec import decode_hidden_there
from storage.tables.lmdb_store import HIDDEN_THERE, KEYED, QUARANTINES, View
from storage.tables.rows import GuardedRow, candidate_of, chain, guarded_row, read_id
from storage.write.engine import Engine
from storage.write.hidden_items import hidden_there, put_hidden_there
from storage.write.writer import EmbeddedWriter

_STANDING = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED, MemoryStatus.FORWARDING})


class EmbeddedHiddenBehind:
    """Implements `HiddenBehind` on the embedded engine."""

    def __init__(self, engine: Engine, writer: EmbeddedWriter) -> None:
        self._engine = engine
        self._store = engine.parts.store
        self._names = engine.parts.names
        self._writer = writer

    @property
    def changes(self) -> int:
        """A counter that moves with whatever can make something due."""
        return self._engine.quarantine_changes

    def due(
        self, target: str, hiding: Hiding, only: frozenset[bytes] | None = None
    ) -> tuple[HidingDue, ...]:
        """What is to be done on a server, of all tenants, or of these keys only."""
        with self._store.reading() as view:
            keys = frozenset(self._keys(view, target, hiding)) if only is None else only
            found = (self._of(view, target, keyed, hiding) for keyed in sorted(keys))
            return tuple(one for one in found if one is not None)

    async def record(self, done: tuple[tuple[bytes, Tenant, HiddenThere | None], ...]) -> None:
        """Record what is asked of a server, or what it confirmed."""

        def work(change: Change) -> None:
            for keyed, tenant, record in done:
                put_hidden_there(change, keyed, tenant, record)

        await self._writer.run(lambda: self._engine.transact(work))

    def _keys(self, view: View, target: str, hiding: Hiding) -> Iterator[bytes]:
        for keyed, payload in view.scan(HIDDEN_THERE):
            if decode_hidden_there(payload).target == target:
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
        record = hidden_there(view, keyed)
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
