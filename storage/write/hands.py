"""Who hides a memory: an operator, and incidents by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.model import MemoryStatus
from storage.tables.codec import OPERATOR, decode_hidden_by
from storage.tables.lmdb_store import QUARANTINES

if TYPE_CHECKING:
    from storage.tables.codec import IdRecord
    from storage.tables.lmdb_store import View


def hidden_by(view: View, name: bytes, known: IdRecord) -> frozenset[str]:
    """Who hides a memory: `OPERATOR`, or incidents by their ids.

    Empty for a memory that is shown.
    """
    payload = view.get(QUARANTINES, name)
    if payload is not None:
        return frozenset(decode_hidden_by(payload).by)
    return frozenset({OPERATOR} if known.status is MemoryStatus.QUARANTINED else ())
