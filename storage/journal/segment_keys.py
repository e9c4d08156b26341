"""The keys of a journal's segments: files in a directory that all members of a shard reach.

A segment is at most 256 rows that were sealed under one key of their own. What a purge takes out of
a segment is sealed under a key that is destroyed: old copies of the row, in the database's files,
its log or its backups, do not open any more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from storage.ground.errors import StoreCorrupt, StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import SECRET_LEN, destroy_file, fsync_directory, write_durably
from storage.ground.trusted_files import (
    Trust,
    UnfitFile,
    read_file,
    reason,
    refuse_open_directory,
)

KEY_ID_LEN: Final = 8
_TAG_LEN: Final = 8


class SegmentKeys:
    """The keys of one store's segments, by random ids. Writer thread only.

    Several stores may have their keys in one directory: the names of the files differ.
    """

    def __init__(self, directory: Path, secret: bytes, store: str) -> None:
        """Look at the directory.

        Raises:
            StoreUnavailable: It is not there, or others can read it or replace what is in it.
        """
        self._directory = directory
        tag = blake2b(store.encode(), digest_size=_TAG_LEN, key=secret, person=b"segment keys")
        self._prefix = f"{tag.hexdigest()}-"
        self._known: dict[bytes, bytes] = {}
        with self._usable():
            refuse_open_directory(directory)

    def draw(self) -> bytes:
        """The id of a new key, which is durable.

        Raises:
            StoreUnavailable: The directory cannot be written.
        """
        key_id, key = random_bytes(KEY_ID_LEN), random_bytes(SECRET_LEN)
        with self._usable():
            # What a kill left of an earlier draw. One holder at a time draws.
            for unfinished in self._directory.glob(f".{self._prefix}*"):
                unfinished.unlink(missing_ok=True)
            write_durably(self._path(key_id), key)
        self._known[key_id] = key
        return key_id

    def key(self, key_id: bytes) -> bytes:
        """The key with this id.

        Raises:
            StoreCorrupt: It is not there, or damaged.
            StoreUnavailable: The directory cannot be read.
        """
        if key_id not in self._known:
            with self._usable():
                try:
                    key = read_file(self._path(key_id), SECRET_LEN + 1, Trust.SECRET)
                except FileNotFoundError:
                    key = b""
            if len(key) != SECRET_LEN or not any(key):
                raise StoreCorrupt(
                    f"the shard's directory of keys lacks {self._path(key_id).name}: keys were "
                    "lost, or put back from before the journal; or the journal was put back from "
                    "before a purge, or belongs to another journal.key"
                )
            self._known[key_id] = key
        return self._known[key_id]

    def ids(self) -> set[bytes]:
        """The ids of all keys that are there.

        Raises:
            StoreUnavailable: The directory cannot be read.
        """
        with self._usable():
            names = [path.name for path in self._directory.glob(f"{self._prefix}*")]
        return {bytes.fromhex(name.removeprefix(self._prefix)) for name in names}

    def destroy(self, key_ids: Iterable[bytes]) -> None:
        """Overwrite keys, and remove their files.

        Raises:
            StoreUnavailable: A key could not be destroyed; those before it are.
        """
        with self._usable():
            for key_id in key_ids:
                self._known.pop(key_id, None)
                destroy_file(self._path(key_id), SECRET_LEN)
            fsync_directory(self._directory)

    def _path(self, key_id: bytes) -> Path:
        return self._directory / f"{self._prefix}{key_id.hex()}"

    @contextmanager
    def _usable(self) -> Generator[None]:
        try:
            yield
        except UnfitFile as error:
            raise StoreUnavailable(f"the shard's keys must be {error}") from error
        except OSError as error:
            raise StoreUnavailable(f"the shard's keys: {reason(error)}") from error
