"""Who hides a memory: an operator, and incidents by their ids."""

from __future__ import annotations

from policy.model import MemoryStatus
from storage.tables.codec import OPERATOR, IdRecord, decode_case, decode_hidden_by
from storage.tables.lmdb_store import CASES, QUARANTINES, View


def hidden_by(view: View, name: bytes, known: IdRecord) -> frozenset[str]:
    """Who hides a memory: `OPERATOR`, or incidents by their ids.

    Empty for a memory that is shown.
    """
    payload = view.get(QUARANTINES, name)
    if payload is not None:
        return frozenset(decode_hidden_by(payload).by)
    return frozenset({OPERATOR} if known.status is MemoryStatus.QUARANTINED else ())


def convicted_by(view: View, name: bytes, known: IdRecord) -> tuple[str, ...]:
    """The rules for which alone a memory is hidden; () if somebody hides it for another reason."""
    rule_ids: list[str] = []
    for by in sorted(hidden_by(view, name, known)):
        case = None if by == OPERATOR else view.get(CASES, bytes.fromhex(by))
        rule_id = "" if case is None else decode_case(case).anchor_id
        if not rule_id:
            return ()
        rule_ids.append(rule_id)
    return tuple(rule_ids)
