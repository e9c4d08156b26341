"""Reads the embedded store's files without a gate (`OfflineStore`)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from storage.audit import InterceptedLeaf, Leaf, VerdictLeaf
from storage.ground.state_directory import SECRET_LEN, STORE_KEY
from storage.ground.trusted_files import Trust, read_file
from storage.read.audit import EmbeddedView
from storage.tables.change import read_leaf
from storage.tables.codec import Digests, refuse_unknown
from storage.tables.lmdb_store import View
from storage.tables.read_only import read_only
from storage.upkeep.backup import take
from storage.values import BackupSummary


class EmbeddedFiles:
    """The files of one state directory; each call reads one snapshot.

    Digests are compared under `store_key`, else under the directory's own key, else not at all.
    """

    def __init__(self, state: Path, store_key: bytes | None = None) -> None:
        self._state = state
        self._digests = Digests(store_key or _own_key(state))

    @contextmanager
    def viewed(self) -> Generator[EmbeddedView]:
        """One consistent view for an auditor."""
        with read_only(self._state / "store", self._digests) as view:
            yield EmbeddedView(view)

    def leaves(self, since: int, limit: int) -> list[tuple[Leaf, InterceptedLeaf | None]]:
        """Committed leaves from `since` on, each verdict with its interception leaf."""
        with read_only(self._state / "store", self._digests) as view:
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


def _own_key(state: Path) -> bytes | None:
    try:
        return read_file(state / "secrets" / STORE_KEY, SECRET_LEN, Trust.PLAIN)
    except OSError:
        return None  # It is elsewhere, or this user may not read it.


def _told(view: View, index: int) -> tuple[Leaf, InterceptedLeaf | None]:
    leaf = read_leaf(view, index)
    if not isinstance(leaf, VerdictLeaf):
        return leaf, None
    told = read_leaf(view, leaf.intercepted_index)
    return leaf, told if isinstance(told, InterceptedLeaf) else None
