"""Fills two tables, once, in a store written before they were: children, and who hides a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.model import MemoryStatus
from storage.tables.codec import decode_id, decode_row
from storage.tables.lmdb_store import IDS, QUARANTINES, ROWS
from storage.tables.rows import candidate_of
from storage.write.commit import file_lineage
from storage.write.hands import keep_hands

if TYPE_CHECKING:
    from storage.tables.change import Change
    from storage.write.engine import Engine

_NAMED: Final = b"derived_from"


def file_all_lineage(engine: Engine) -> None:
    """Enter every row under the parents that it names, in one transaction; once for each store.

    It runs before the writer starts, reads every row, and writes only for those that name a parent.
    In the same pass each quarantined memory gets the record of who hides it.
    """
    with engine.parts.store.reading() as view:
        if view.header() is None or view.lineage_filed():
            return

    def work(change: Change) -> None:
        for key, payload in change.draft.scan(ROWS):
            # Most rows name no parent: their bytes are not decoded.
            if _NAMED not in payload:
                continue
            row = decode_row(payload)
            if not row.erased:
                ordinal = int.from_bytes(key, "big")
                file_lineage(change.draft, engine.parts.names, ordinal, candidate_of(row))
        hidden = [
            (name, known)
            for name, payload in change.draft.scan(IDS)
            if (known := decode_id(payload)).status is MemoryStatus.QUARANTINED
            and not change.draft.has(QUARANTINES, name)
        ]
        for name, known in hidden:
            keep_hands(change.draft, name, known)
        change.draft.mark_lineage_filed()

    engine.transact(work)
