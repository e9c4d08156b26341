"""Reads the embedded store's files without a gate (`OfflineStore`, `AuditedView`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from policy.model import MemoryStatus
from storage.audit import InterceptedLeaf, Leaf, VerdictLeaf, decode_leaf
from storage.ground.errors import StoreCorrupt
from storage.read.audit import stored_leaf
from storage.tables.change import Nodes
from storage.tables.codec import ordinal_key, refuse_unknown
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import IDS, LEAVES, ROWS, View
from storage.tables.read_only import read_only
from storage.tables.rows import earlier_rows
from storage.upkeep.backup import take
from storage.values import BackupSummary, Row


class EmbeddedFiles:
    """The files of one state directory; each call reads one snapshot."""

    def __init__(self, state: Path) -> None:
        self._state = state

    @contextmanager
    def viewed(self) -> Generator[EmbeddedView]:
        """One consistent view for an auditor."""
        with read_only(self._state / "store") as view:
            yield EmbeddedView(view)

    def leaves(self, since: int, limit: int) -> list[tuple[Leaf, InterceptedLeaf | None]]:
        """Committed leaves from `since` on, each verdict with its interception leaf."""
        with read_only(self._state / "store") as view:
            header = view.header()
            refuse_unknown(header)
            size = 0 if header is None else header.leaf_count
            return [_told(view, index) for index in range(since, min(size, since + limit))]

    def back_up(
        self, target: Path, now_ms: int, *, with_secrets: bool, with_held: bool
    ) -> BackupSummary:
        """Copy one generation of the store, with a signed list of the files."""
        manifest = take(self._state, target, now_ms, with_secrets=with_secrets, with_held=with_held)
        return manifest.summary(target)


class EmbeddedView:
    """One snapshot of the tables, for an auditor."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.leaf_count = view.count(LEAVES)
        self.row_count = view.count(ROWS)
        self.checkpoint = view.checkpoint
        self.node = Nodes(view).get

    def head(self) -> tuple[int, int] | None:
        """The leaf count and the version in the header; None before the first commit."""
        try:
            header = self._view.header()
        except msgspec.DecodeError as error:
            raise StoreCorrupt(str(error)) from error
        refuse_unknown(header)
        return None if header is None else (header.leaf_count, header.version)

    def made_with(self, store_key: bytes) -> bool:
        """Whether nonces and ids are hashed under this key; True if that is not recorded."""
        header = self._view.header()
        known = "" if header is None else header.key_check
        return not known or known == KeyedNames(store_key).check()

    def leaf(self, index: int) -> bytes | None:
        """The bytes of one leaf."""
        return self._view.get(LEAVES, ordinal_key(index))

    def named(self) -> dict[int, MemoryStatus]:
        """The ordinals of the rows that ids name, with the status of each memory."""
        try:
            return {known.ordinal: known.status for _, known in self._view.records(IDS)}
        except msgspec.DecodeError as error:
            raise StoreCorrupt(str(error)) from error

    def earlier(self, ordinal: int, row: Row) -> Iterator[Row]:
        """The rows of a memory before the one at `ordinal`, newest first."""
        return earlier_rows(self._view, ordinal, row)

    def rows(self) -> Iterator[Row | StoreCorrupt | None]:
        """Every row in order; the error for an unreadable row, after which the rows continue."""
        for key in self._view.keys(ROWS):
            yield self._row(key)

    def _row(self, key: bytes) -> Row | StoreCorrupt | None:
        try:
            return self._view.read(ROWS, key)
        except (StoreCorrupt, msgspec.DecodeError) as error:
            return StoreCorrupt(str(error))


def _told(view: View, index: int) -> tuple[Leaf, InterceptedLeaf | None]:
    leaf = decode_leaf(stored_leaf(view, index))
    if not isinstance(leaf, VerdictLeaf):
        return leaf, None
    told = decode_leaf(stored_leaf(view, leaf.intercepted_index))
    return leaf, told if isinstance(told, InterceptedLeaf) else None
