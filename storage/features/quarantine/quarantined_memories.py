"""Memories in quarantine: stored as evidence, and readable for an operator alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from policy.model import HistoryEntry, Memory, MemoryId, MemoryStatus, PrincipalId, Tenant
from policy.withheld.pieces import Piece
from storage.audit import OperatorLeaf, decode_leaf
from storage.features.cases.case_records import convicted_by
from storage.features.incidents import INCIDENTS
from storage.features.quarantine.hiding import QUARANTINES, hidden_by
from storage.features.upstream.forgotten_texts import forgotten_texts
from storage.ground.errors import StoreCorrupt
from storage.tables.codec import IdRecord, ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import LEAVES
from storage.tables.rows import chain, history_of, memory_of, read_id, read_row, subject_of, text_of
from storage.values import QUARANTINE, QUARANTINE_END, HidingActor, QuarantinedText, Row
from storage.write.seam import Feature

_INCIDENT: Final = re.compile(r"incident ([0-9a-f]{16})")
_HISTORY_BYTES: Final = 8 * 1024 * 1024
TEXTS_MAX: Final = 10_000
"""How many memories in quarantine, of the last written, have their texts withheld."""
_TEXT_BYTES: Final = 64 * 1024


class QuarantinedMemories(Feature):
    """Memories in quarantine, which only an operator may read. Any thread."""

    @property
    def changes(self) -> int:
        """A counter that grows with each quarantine or end of one, before its caller is answered.

        0 as long as no memory is in quarantine and none was since the start.
        """
        return self._access.moves[QUARANTINES]

    def texts(self, tenant: Tenant) -> tuple[QuarantinedText, ...]:
        """The texts of a tenant's memories in quarantine, in every version.

        At most `TEXTS_MAX` memories, the newest first. A memory that was deleted while it was
        hidden is included, and a purged one is not. The cost grows with the number of memories in
        quarantine.
        """
        with self._store.reading() as view:
            hidden = ((name, read_id(view, name)) for name in view.keys(QUARANTINES))
            known = [(one.ordinal, name, one) for name, one in hidden if one is not None]
            newest_first = sorted(known, key=lambda one: one[0], reverse=True)
            own = (one for one in newest_first if read_row(view, one[0]).tenant == tenant)
            return tuple(
                text
                for _, name, one in islice(own, TEXTS_MAX)
                for text in _said(view, one.ordinal, convicted_by(view, name, one))
            )

    def purged(self, tenant: Tenant) -> dict[Piece, int]:
        """Map each piece of purged MCP memories to its lowest ordinal in `EndedText.pieces`."""
        found: dict[Piece, int] = {}
        with self._store.reading() as view:
            for one in forgotten_texts(view, self._names):
                for piece, until in one.pieces.items() if one.tenant == tenant else ():
                    found[piece] = min(until, found.get(piece, until))
        return found

    def count(self, tenant: Tenant) -> int:
        """How many memories of a tenant are in quarantine."""
        with self._store.reading() as view:
            return sum(1 for _ in _hidden(view, tenant))

    def find(self, tenant: Tenant) -> tuple[Memory, ...]:
        """All quarantined memories of a tenant, oldest first."""
        with self._store.reading() as view:
            found = [memory_of(row, MemoryStatus.QUARANTINED) for row in _hidden(view, tenant)]
        return tuple(sorted(found, key=lambda memory: memory.updated_at_ms))

    def get(self, tenant: Tenant, memory_id: MemoryId) -> Memory | None:
        """One quarantined memory; None if the tenant has no quarantined memory with this id."""
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = self._known(view, tenant, memory_id)
            return None if known is None else memory_of(read_row(view, known.ordinal), known.status)
        return None

    def history(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HistoryEntry, ...]:
        """The committed versions of a quarantined memory, oldest first; () if there is none."""
        with self._store.reading() as view, suppress(StoreCorrupt):
            known = self._known(view, tenant, memory_id)
            return () if known is None else history_of(chain(view, known.ordinal, _HISTORY_BYTES))
        return ()

    def hands(self, tenant: Tenant, memory_id: MemoryId) -> tuple[HidingActor, ...]:
        """Who hides a quarantined memory, oldest first; () if it is not hidden. Reads the log."""
        with self._store.reading() as view:
            name = self._names.memory(tenant, memory_id)
            known = self._known(view, tenant, memory_id)
            if known is None:
                return ()
            rows = chain(view, known.ordinal, _HISTORY_BYTES)
            subjects = {subject_of(row.memory_id, row.candidate_id) for row in rows}
            first = min(row.leaf_index for row in rows)
            by = hidden_by(view, name, known)
            found: dict[tuple[PrincipalId, str], HidingActor] = {}
            for _, data in view.scan(LEAVES, ordinal_key(first)):
                leaf = decode_leaf(data)
                if not isinstance(leaf, OperatorLeaf) or leaf.subject not in subjects:
                    continue
                of, _, why = leaf.detail.partition(": ")
                if of != tenant or leaf.action not in {QUARANTINE, QUARANTINE_END}:
                    continue
                if leaf.action == QUARANTINE_END:
                    found.clear()
                    continue
                found[leaf.by, why] = HidingActor(
                    by=leaf.by, at_ms=leaf.at_ms, why=why, incident_id=_incident_of(view, why)
                )
        # The undoing of an isolation writes no leaf for a memory that is hidden for another reason.
        return tuple(
            one for one in found.values() if one.incident_id is None or one.incident_id in by
        )

    def _known(self, view: View, tenant: Tenant, memory_id: MemoryId) -> IdRecord | None:
        known = read_id(view, self._names.memory(tenant, memory_id))
        return known if known and known.status is MemoryStatus.QUARANTINED else None


def _hidden(view: View, tenant: Tenant) -> Iterator[Row]:
    """The newest row of each hidden memory, if its values match their digests."""
    for name in view.keys(QUARANTINES):
        with suppress(StoreCorrupt):
            known = read_id(view, name)
            if known is not None and known.status is MemoryStatus.QUARANTINED:
                row = read_row(view, known.ordinal)
                if row.tenant == tenant:
                    yield row


def _incident_of(view: View, why: str) -> str | None:
    """The id of the isolation or rewind that a leaf names; None for the case of a wrong answer."""
    named = _INCIDENT.fullmatch(why)
    known = named is not None and view.has(INCIDENTS, bytes.fromhex(named[1]))
    return named[1] if named is not None and known else None


def _said(view: View, ordinal: int, rule_ids: tuple[str, ...]) -> Iterator[QuarantinedText]:
    """The text of each version of a memory, newest first."""
    for row in reversed(chain(view, ordinal, _TEXT_BYTES)):
        if not row.erased:
            text, metadata_json, candidate = text_of(row)
            yield QuarantinedText(
                candidate_id=row.candidate_id,
                memory_class=row.memory_class,
                candidate=msgspec.structs.replace(
                    candidate, text=text, metadata_json=metadata_json
                ),
                ordinal=ordinal,
                rule_ids=rule_ids,
            )
        ordinal = row.prev_ordinal
