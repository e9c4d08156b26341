"""Bugs to plant in the recorded process, so that a search that finds nothing is known to search.

Each takes one promise of the store away inside that process alone; nothing shipped knows of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Any, Final

import lmdb

from policy.model import CandidateId
from storage.tables.lmdb_store import LmdbStore
from storage.write.engine import Engine

_real_fsync: Final = os.fsync
_real_open: Final = lmdb.open


def _without_directories(handle: int) -> None:
    if not stat.S_ISDIR(os.fstat(handle).st_mode):
        _real_fsync(handle)


def _without_files(handle: int) -> None:
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        _real_fsync(handle)


def _unsynced(*args: Any, **options: Any) -> lmdb.Environment:  # noqa: ANN401 - as lmdb.open
    return _real_open(*args, **options | {"sync": False, "metasync": False})


def _held_unsynced(path: str, **options: Any) -> lmdb.Environment:  # noqa: ANN401 - as lmdb.open
    return (_unsynced if path.endswith("/held") else _real_open)(path, **options)


def _keep_keys(self: Engine, candidate_ids: Iterable[CandidateId]) -> None:
    del self, candidate_ids


def _no_rewrite(self: LmdbStore) -> int:
    del self
    return 0


def _plant_directories() -> None:
    os.fsync = _without_directories  # type: ignore[assignment]


def _plant_files() -> None:
    os.fsync = _without_files  # type: ignore[assignment]


def _plant_lmdb() -> None:
    lmdb.open = _unsynced  # type: ignore[assignment]


def _plant_hold() -> None:
    lmdb.open = _held_unsynced  # type: ignore[assignment]


def _plant_keys() -> None:
    Engine.destroy = _keep_keys  # type: ignore[method-assign]


def _plant_purge() -> None:
    LmdbStore.compact = _no_rewrite  # type: ignore[method-assign]


BUGS: Final[dict[str, Callable[[], None]]] = {
    "no fsync of directories": _plant_directories,
    "no fsync of files before rename": _plant_files,
    "lmdb does not sync": _plant_lmdb,
    "held candidates are not synced": _plant_hold,
    "keys of decided candidates stay": _plant_keys,
    "purge does not rewrite the file": _plant_purge,
}


def plant(bug: str) -> None:
    if bug:
        BUGS[bug]()
