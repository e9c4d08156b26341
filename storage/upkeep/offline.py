"""Reads the embedded store's files without a gate."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from storage.audit import (
    BAND,
    WITNESSED,
    InterceptedLeaf,
    Leaf,
    VerdictLeaf,
    VerifierKey,
    open_checkpoint,
    range_root,
    tile_name,
    tiles_since,
)
from storage.ground.errors import StoreRolledBack, StoreUnavailable
from storage.ground.state_directory import (
    FILE_MODE,
    LOG_KEY,
    PUBLIC_MODE,
    SECRET_LEN,
    STORE_KEY,
    fsync_directory,
    write_durably,
)
from storage.ground.trusted_files import Trust, read_file, refuse_replaceable
from storage.read.audit import EmbeddedView
from storage.tables.change import Nodes, leaf_source, read_leaf
from storage.tables.codec import Digests, refuse_unknown
from storage.tables.lmdb_store import View
from storage.tables.read_only import read_only
from storage.upkeep.backup import load_secrets, take
from storage.values import AuditHead, BackupSummary
from storage.write.checkpoint_copy import NOTE_LEN_MAX, CheckpointCopy, refuse_other


class EmbeddedFiles:
    """The files of one state directory, read also while a gate is running. Blocks.

    Each call reads one snapshot. Do not use it in the gate's own process.

    Digests are compared under `store_key`, else under the directory's own key, else not at all.
    """

    def __init__(self, state: Path, store_key: bytes | None = None) -> None:
        self._state = state
        self._digests = Digests(store_key or _own_key(state))

    @contextmanager
    def viewed(self) -> Generator[EmbeddedView]:
        """One consistent view for an auditor.

        Raises:
            StoreUnavailable: The store cannot be read, now or while it is viewed.
        """
        with read_only(self._state / "store", self._digests) as view:
            yield EmbeddedView(view)

    def leaves(self, since: int, limit: int) -> list[tuple[Leaf, InterceptedLeaf | None]]:
        """Committed leaves from `since` on, each with the interception it decides; [] past the end.

        Raises:
            StoreUnavailable: The store cannot be read.
            StoreCorrupt: A leaf is missing or damaged.
        """
        with read_only(self._state / "store", self._digests) as view:
            header = view.header()
            refuse_unknown(header)
            size = 0 if header is None else header.leaf_count
            return [_told(view, index) for index in range(since, min(size, since + limit))]

    def export_tiles(self, target: Path, *, entries: bool, witnessed: bool) -> AuditHead:
        """Write the log to a directory as C2SP tlog-tiles; return the head that is there then.

        The head is the newest one; with `witnessed`, the one that the configured witnesses cosigned
        last. With `entries`, the leaves themselves are written too. A complete tile is never
        rewritten.

        Raises:
            StoreRolledBack: This log does not continue the head in the directory, or the cosigned
                one.
            StoreUnavailable: The store cannot be read, another user can write the directory, it is
                in the state directory, or it was begun with or without `entries`, and this is the
                opposite.
            OSError: The directory cannot be written.
        """
        if target.resolve().is_relative_to(self._state.resolve()):
            raise StoreUnavailable(
                "tiles are for others: not in the state directory, with its keys"
            )
        # Exports of one store wait for each other: one that began earlier would put the head of
        # another back. Who may only read the target could hold a lock on that.
        with (self._state / "secrets" / LOG_KEY).open("rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with read_only(self._state / "store", self._digests) as view:
                note = view.checkpoint()
                if note is None:
                    raise StoreUnavailable("the store has no signed checkpoint yet")
                key = VerifierKey.of(
                    note.split(b"\n", 1)[0].decode("utf-8", "replace"),
                    load_secrets(self._state / "secrets").log_signer(),
                )
                published = CheckpointCopy(target / "checkpoint", key)
                published.compare(view, view.header())
                since = before.size if (before := published.read()) else 0
                # The first file tells, because a first run may have ended before its head.
                if (target / "tile/entries").exists() != entries and any(target.glob("tile/[0e]*")):
                    raise StoreUnavailable(
                        f"{target} was begun {'without' if entries else 'with'} entries: take "
                        f"another directory, or give {'no ' if entries else ''}--entries"
                    )
                note = (_cosigned(view, self._state, key, since) if witnessed else None) or note
                size, leaf_at, nodes = (
                    open_checkpoint(note, key).size,
                    leaf_source(view),
                    Nodes(view),
                )
                for level, places in tiles_since(since, size):
                    name, shift = tile_name(places), BAND * level
                    if entries and not level:
                        leaves = [len(one).to_bytes(2, "big") + one for one in map(leaf_at, places)]
                        _put(target, f"entries/{name}", leaves, FILE_MODE)
                    _put(
                        target,
                        f"{level}/{name}",
                        [range_root(at << shift, at + 1 << shift, leaf_at, nodes) for at in places],
                        PUBLIC_MODE,
                    )
                # Last: a reader that has this head finds all of its tiles.
                write_durably(published.path, note, PUBLIC_MODE)
        return AuditHead(size=size, note=note.decode(), verifier_key=key.text())

    def back_up(
        self, target: Path, now_ms: int, *, with_secrets: bool, with_held: bool
    ) -> BackupSummary:
        """Copy one generation of the store, with a signed list of the files; return a summary.

        Raises:
            BadBackup: The target is not an empty directory outside the state directory.
            StoreUnavailable: The store cannot be read, or the target cannot be written.
        """
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


def _cosigned(view: View, state: Path, key: VerifierKey, since: int) -> bytes | None:
    """The head that witnesses cosigned last; None before the first, or if `since` is newer.

    Raises:
        StoreRolledBack: The log does not continue it.
    """
    try:
        note = msgspec.json.decode(
            read_file(state / f"cursors/{WITNESSED}.json", NOTE_LEN_MAX, Trust.PLAIN), type=str
        ).encode()
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    head = open_checkpoint(note, key)
    refuse_other(view, view.header(), head)
    return note if head.size >= since else None


def _put(target: Path, name: str, parts: list[bytes], mode: int) -> None:
    """Write a tile, unless it is there.

    Raises:
        StoreRolledBack: Other bytes are there, as an export of another log would leave.
    """
    path, data = target / "tile" / name, b"".join(parts)
    refuse_replaceable(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, data, mode)
        for folder in Path("tile", name).parents:
            fsync_directory(target / folder)
        # The complete tile replaces its parts for every reader.
        shutil.rmtree(f"{path}.p", ignore_errors=True)
    elif read_file(path, len(data)) != data:
        raise StoreRolledBack(f"{path} has other hashes or leaves than this log has there")
