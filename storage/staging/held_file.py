"""The file of held candidates: opened, created, or reopened after a disk error."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import lmdb

from storage.ground.errors import StoreUnavailable
from storage.ground.state_directory import DIRECTORY_MODE, FILE_MODE, fsync_directory

_DATA: Final = "data.mdb"
_MAKING: Final = "making.mdb"


class StagingFile:
    """An LMDB environment that is reopened after a failed write.

    After an error while writing its meta page, LMDB refuses every call until the environment is
    reopened, so that one disk error would end all holding until the next restart. Any thread;
    transactions exclude each other.
    """

    def __init__(self, directory: Path, map_bytes: int) -> None:
        self._directory = directory
        self._map_bytes = map_bytes
        self._lock = threading.Lock()
        self._env: lmdb.Environment | None = None
        with self._lock:
            self._opened()

    def _opened(self) -> lmdb.Environment:
        """The environment, which is opened if it is closed.

        Raises:
            StoreUnavailable: The disk refused.
        """
        if self._env is not None:
            return self._env
        try:
            self._directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            if not (self._directory / _DATA).exists():
                self._make()
            env = lmdb.open(
                str(self._directory),
                map_size=self._map_bytes,
                mode=FILE_MODE,
                sync=True,
                metasync=True,
                writemap=False,
            )
            try:
                env.reader_check()
                fsync_directory(self._directory)
                fsync_directory(self._directory.parent)
            except (lmdb.Error, OSError):
                env.close()
                raise
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailable(f"{self._name}/data.mdb cannot be opened: {error}") from error
        self._env = env
        return env

    def _make(self) -> None:
        """Create an empty environment in its place, as a whole or not at all.

        LMDB does not sync its very first pages, and an environment with a torn page never opens
        again, so that a power cut at the first start would make the gate unusable for good. So the
        environment is created under another name, and renamed when it is durable.
        """
        beside = self._directory / _MAKING
        beside.unlink(missing_ok=True)
        env = lmdb.open(str(beside), subdir=False, map_size=self._map_bytes, mode=FILE_MODE)
        try:
            env.sync(True)  # noqa: FBT003 - positional only in py-lmdb
        finally:
            env.close()
        (self._directory / f"{_MAKING}-lock").unlink(missing_ok=True)
        beside.rename(self._directory / _DATA)
        fsync_directory(self._directory)
        # The directory's own entry is synced too, because a durable file in a lost directory is
        # lost.
        fsync_directory(self._directory.parent)

    @property
    def _name(self) -> str:
        return f"{self._directory.parent.name}/{self._directory.name}"

    @contextmanager
    def writing(self) -> Generator[lmdb.Transaction]:
        """A write transaction, which commits when the block ends without an exception.

        Raises:
            StoreUnavailable: The environment is full, or the disk refused.
        """
        with self._lock:
            env = self._opened()
            try:
                with env.begin(write=True) as txn:
                    yield txn
            except lmdb.MapFullError as error:
                raise StoreUnavailable(f"{self._name} is full") from error
            except lmdb.Error as error:
                self._shut()
                raise StoreUnavailable(f"{self._name} cannot be written: {error}") from error

    @contextmanager
    def reading(self) -> Generator[lmdb.Transaction]:
        """A read transaction; end it soon, because it excludes all others.

        Raises:
            StoreUnavailable: The environment cannot be read.
        """
        with self._lock:
            env = self._opened()
            try:
                txn = env.begin()
            except lmdb.Error as error:
                self._shut()
                raise StoreUnavailable(f"{self._name} cannot be read: {error}") from error
            with txn:
                yield txn

    def bytes_used(self) -> int:
        """The bytes in pages that are in use; free pages do not count.

        Raises:
            StoreUnavailable: The environment cannot be opened.
        """
        with self._lock:
            stat = self._opened().stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return int(pages * stat["psize"])

    def close(self) -> None:
        """Close the environment; the next transaction would open it again."""
        with self._lock:
            self._shut()

    def _shut(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None
