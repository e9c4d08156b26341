"""Fills the table of each memory's children, once, in a store written before there was one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.tables.codec import decode_row
from storage.tables.lmdb_store import ROWS
from storage.tables.rows import candidate_of
from storage.write.commit import file_lineage

if TYPE_CHECKING:
    from storage.tables.change import Change
    from storage.write.engine import Engine

_NAMED: Final = b"derived_from"


def file_all_lineage(engine: Engine) -> None:
    """Enter every row under the parents that it names, in one transaction; once for each store.

    It runs before the writer starts, reads every row, and writes only for those that name a parent.
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
        change.draft.mark_lineage_filed()

    engine.transact(work)
