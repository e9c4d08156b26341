"""The memories that an incident reaches: by one pass over the rows, then by descent."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from policy.model import MemoryId, MemoryStatus
from storage.features.incidents import CaughtMemory
from storage.features.selections import Selector, paced
from storage.questions import Selection
from storage.tables.change import read_verdict
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import ROWS
from storage.tables.rows import (
    children_of,
    read_id,
    read_row,
)
from storage.values import Row


class ReachedMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that a filter matches, keyed by their names, in the order of the rows."""

    # `own`: memories of which a version fits the filter. `descended`: memories that only descend
    # from such a memory. Deleted memories are included, because their descendants may still exist.
    own: dict[bytes, MemoryId]
    descended: dict[bytes, MemoryId]

    @property
    def names(self) -> tuple[bytes, ...]:
        """The keys of all memories that the filter matches."""
        return (*self.own, *self.descended)


def reached(view: View, names: KeyedNames, reach: Selection) -> ReachedMemories:
    """Every memory that the filter matches, deleted ones too. Reads every row.

    Descendants of a purged memory are found if the log names that memory. The log names no memory
    whose id a client chose.
    """
    own: dict[bytes, MemoryId] = {}
    purged: dict[MemoryId, None] = {}
    selector = Selector(view, names, reach)
    for row in (
        row for key, row in paced(view.records(ROWS, sound_only=True)) if selector.takes(key, row)
    ):
        if not row.erased:
            own.setdefault(names.memory(row.tenant, row.memory_id), row.memory_id)
        elif (gone := _purged(view, reach, row)) is not None:
            purged[gone] = None
    descended: dict[bytes, MemoryId] = {}
    if reach.with_descendants:
        waiting = [*own.values(), *purged]
        while waiting:
            for _, row in children_of(view, names, reach.tenant, waiting.pop()):
                child = row.memory_id
                name = names.memory(reach.tenant, child)
                if name not in own and name not in descended:
                    descended[name] = child
                    waiting.append(child)
    return ReachedMemories(own=own, descended=descended)


def _purged(view: View, reach: Selection, row: Row) -> MemoryId | None:
    """The id of the purged memory to which an erased row belonged, if the log names that memory.

    None also if the filter asks for a target, because a purge erases the target.
    """
    return read_verdict(view, row.leaf_index).memory_id if reach.under is None else None


def caught(view: View, found: ReachedMemories) -> Iterator[CaughtMemory]:
    """The report to an operator of the matching memories that are not deleted."""
    for name in found.names:
        known = read_id(view, name)
        if known is None or known.status is MemoryStatus.DELETED:
            continue
        row = read_row(view, known.ordinal)
        yield CaughtMemory(
            memory_id=row.memory_id,
            principal_id=row.principal_id,
            memory_class=row.memory_class,
            source=row.source,
            status=known.status,
            descendant=name in found.descended,
        )
