"""The rows that readers could be shown at an earlier version of the store, for replays.

Rows are immutable and linked backwards, so the past is read from the present rows. A purged row is
left out. A memory that is quarantined or expired today is left out too, because a replay must not
show what no read may show.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from policy.model import ChangeKind, MemoryId, MemoryStatus, Tenant
from storage.derived.catalogue import Mask
from storage.tables.codec import NO_ORDINAL
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.rows import read_id, read_row
from storage.values import Row


def marks_at(view: View, tenant: Tenant, live: Mask, version: int) -> Mask:
    """A mask, indexed by ordinal, of the rows that were a memory's newest at a version.

    `live` is the mask of today. The cost grows with the number of commits since that version.
    """
    header = view.header()
    last = 0 if header is None else header.next_ordinal
    end = _first_after(view, version, last)
    marks = live[:end].copy()
    marks.resize(end)
    for ordinal in range(end, last):
        row = read_row(view, ordinal)
        if row.tenant != tenant:
            continue
        before = row.prev_ordinal
        while before >= end:
            before = read_row(view, before).prev_ordinal
        if before != NO_ORDINAL and read_row(view, before).change is not ChangeKind.DELETE:
            marks[before] = True
    return marks


def without_memories(
    view: View, names: KeyedNames, tenant: Tenant, marks: Mask, left_out: Iterable[MemoryId]
) -> Mask:
    """A copy of the mask that is False at every row of the memories in `left_out`."""
    rows = [one for memory in left_out for one in _states(view, names, tenant, memory)]
    marks = marks.copy()
    marks[[one for one in rows if one < len(marks)]] = False
    return marks


def stood(
    view: View,
    ordinal: int,
    tenant: Tenant,
    *,
    names: KeyedNames,
    statuses: Container[MemoryStatus],
) -> tuple[Row, MemoryStatus] | None:
    """One row with the status of its memory; None if the row is purged or has another status."""
    row = read_row(view, ordinal)
    if row.tenant != tenant or row.erased:
        return None
    known = read_id(view, names.memory(tenant, row.memory_id))
    return None if known is None or known.status not in statuses else (row, known.status)


def _first_after(view: View, version: int, last: int) -> int:
    """The first ordinal of a later version than `version`; versions rise with ordinals."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if read_row(view, middle).version <= version:
            low = middle + 1
        else:
            high = middle
    return low


def _states(view: View, names: KeyedNames, tenant: Tenant, memory_id: MemoryId) -> Iterator[int]:
    known = read_id(view, names.memory(tenant, memory_id))
    ordinal = NO_ORDINAL if known is None else known.ordinal
    while ordinal != NO_ORDINAL:
        yield ordinal
        ordinal = read_row(view, ordinal).prev_ordinal
