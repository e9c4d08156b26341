"""The store's LMDB environment, opened only for reading, by a process that is not the gate's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import lmdb

from storage.ground.errors import StoreUnavailable
from storage.tables.codec import Digests
from storage.tables.copying import refuse_cut
from storage.tables.lmdb_store import View
from storage.tables.names import TABLES


@contextmanager
def read_only(directory: Path, digests: Digests) -> Generator[View]:
    """One consistent view of the last committed generation, also while a gate is running.

    Never call it in the gate's own process, because LMDB's locks do not survive a second open
    there.

    Raises:
        StoreUnavailable: There is no store, it cannot be read, or it is no LMDB environment.
        StoreCorrupt: The file was cut.
    """
    with hot(directory, slot=False) as env:
        try:
            tables = {name: env.open_db(name, create=False) for name in TABLES}
            with env.begin() as txn:
                yield View(txn, tables, digests)
        except lmdb.NotFoundError as error:
            raise StoreUnavailable(
                f"{directory} lacks a table of this version's stores: another version wrote it, or "
                "its first start did not end"
            ) from error
        except lmdb.Error as error:
            raise StoreUnavailable(f"the store cannot be read: {error}") from error


@contextmanager
def hot(directory: Path, *, slot: bool = True) -> Generator[lmdb.Environment]:
    """The environment, for a copy with a reader's slot that a running gate respects.

    Without the slot the gate would reuse pages while they are copied, so without a slot no copy is
    made. Never call it in the gate's own process.

    Raises:
        StoreUnavailable: There is no store, or this user may not take a reader's slot.
        StoreCorrupt: The file was cut.
    """
    if not (directory / "data.mdb").exists():
        raise StoreUnavailable(f"no store in {directory}")
    try:
        refuse_cut(directory)
        env = _open(directory, slot=slot)
    except (lmdb.Error, OSError) as error:
        then = "; run as the sidecar's user or root" if slot else ""
        raise StoreUnavailable(f"the store cannot be opened for reading: {error}{then}") from error
    try:
        yield env
    finally:
        env.close()


def _open(directory: Path, *, slot: bool) -> lmdb.Environment:
    # Map size 0 uses the writer's own size, so that a growing store stays readable.
    opened = partial(
        lmdb.open, str(directory), map_size=0, max_dbs=len(TABLES), readonly=True, create=False
    )
    # If no gate has run here, LMDB would create the lock file with this user as owner; if this user
    # is root, the gate could then not open its own store.
    try:
        return opened(lock=(directory / "lock.mdb").exists())
    except (lmdb.ReadonlyError, lmdb.LockError, PermissionError):
        # A backup on read-only media has no place for a reader's slot, and no writer that needs to
        # see one.
        if slot:
            raise
        return opened(lock=False)
