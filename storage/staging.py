"""Candidates before a verdict, and held ones: an environment of its own, every value encrypted.

LMDB leaves deleted bytes in free pages, so deletion alone erases nothing. Each candidate has a key
of its own; what makes a rejected candidate unreadable is that its key is gone. The key of one that
awaits its verdict lives in memory only, the key of a held one in a file beside.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

import lmdb
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policy.model import CandidateId
from storage.errors import StoreLocked, StoreUnavailable
from storage.statedir import FILE_MODE, fsync_directory, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_KEY_LEN: Final = 32
_NONCE_LEN: Final = 12
_CANONICAL: Final = b"c"
_EVIDENCE: Final = b"e"
_MAP_PER_QUOTA: Final = 2


class Staging:
    """The staging environment. Writer thread only, except `read` and `read_evidence`."""

    def __init__(self, directory: Path, key_directory: Path, quota_bytes: int) -> None:
        self._directory = directory
        self._key_directory = key_directory
        self._quota_bytes = quota_bytes
        self._pid = os.getpid()
        self._keys: dict[CandidateId, bytes] = {}
        self._held: set[CandidateId] = set()
        # Ciphertexts whose key is gone already; removed together with the next batch.
        self._litter: list[CandidateId] = []
        self._open()

    def _open(self) -> None:
        try:
            self._env = lmdb.open(
                str(self._directory),
                map_size=self._quota_bytes * _MAP_PER_QUOTA,
                mode=FILE_MODE,
                # A candidate that is lost in a crash before its verdict was never a memory. Held
                # ones are synced by hand before their verdict commits.
                sync=False,
                metasync=False,
                writemap=False,
            )
        except lmdb.InvalidError as error:
            raise StoreUnavailable("staging/data.mdb is damaged") from error
        except lmdb.Error as error:
            raise StoreUnavailable(f"staging cannot be opened: {error}") from error
        self._env.reader_check()
        fsync_directory(self._directory)
        for path in self._key_directory.glob(".*.unfinished"):
            self._shred(path)
        for path in self._key_directory.glob("*.key"):
            candidate_id = CandidateId(path.stem)
            self._keys[candidate_id] = path.read_bytes()
            self._held.add(candidate_id)

    def put(self, items: Iterable[tuple[CandidateId, bytes]]) -> None:
        """Stage canonical bytes, each under a fresh key. One transaction, not synced.

        Raises:
            StoreUnavailable: Staging is full or the disk refused; none of them is staged.
        """
        if os.getpid() != self._pid:
            raise StoreLocked("staging was opened by another process")
        litter, self._litter = self._litter, []
        try:
            with self._env.begin(write=True) as txn:
                for candidate_id in litter:
                    txn.delete(_key(candidate_id, _CANONICAL))
                    txn.delete(_key(candidate_id, _EVIDENCE))
                for candidate_id, canonical in items:
                    key = secrets.token_bytes(_KEY_LEN)
                    self._keys[candidate_id] = key
                    sealed = _seal(key, _key(candidate_id, _CANONICAL), canonical)
                    txn.put(_key(candidate_id, _CANONICAL), sealed)
        except lmdb.Error as error:
            self._litter.extend(litter)
            raise StoreUnavailable(f"staging cannot be written: {error}") from error

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[bytes | None]:
        """Canonical bytes as staging has them now; None where they cannot be decrypted."""
        with self._env.begin() as txn:
            return [self._decrypted(txn, item, _CANONICAL) for item in candidate_ids]

    def read_evidence(self, candidate_id: CandidateId) -> bytes | None:
        """What `hold` was given; None where it cannot be decrypted."""
        with self._env.begin() as txn:
            return self._decrypted(txn, candidate_id, _EVIDENCE)

    def _decrypted(
        self, txn: lmdb.Transaction, candidate_id: CandidateId, part: bytes
    ) -> bytes | None:
        name = _key(candidate_id, part)
        key = self._keys.get(candidate_id)
        sealed = txn.get(name)
        if key is None or sealed is None:
            return None
        return _unseal(key, name, bytes(sealed))

    def seal(self, candidate_id: CandidateId, data: bytes) -> bytes:
        """Encrypt something kept elsewhere under the candidate's key, to perish with it."""
        return _seal(self._keys[candidate_id], _key(candidate_id, b"s"), data)

    def unseal(self, candidate_id: CandidateId, sealed: bytes) -> bytes | None:
        """What `seal` encrypted; None where the key is gone or the bytes were changed."""
        key = self._keys.get(candidate_id)
        return None if key is None else _unseal(key, _key(candidate_id, b"s"), sealed)

    def hold(self, evidence: dict[CandidateId, bytes]) -> None:
        """Make staged candidates durable with their evidence and key, before the hold commits.

        Raises:
            StoreUnavailable: The disk refused; the caller must not commit the hold.
        """
        try:
            with self._env.begin(write=True) as txn:
                for candidate_id, data in evidence.items():
                    name = _key(candidate_id, _EVIDENCE)
                    txn.put(name, _seal(self._keys[candidate_id], name, data))
            for candidate_id in evidence:
                write_durably(self._key_path(candidate_id), self._keys[candidate_id])
                self._held.add(candidate_id)
            self._env.sync(True)  # noqa: FBT003 - positional only in py-lmdb
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailable(f"a held candidate cannot be kept: {error}") from error

    def destroy(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Forget keys, so that what is staged under them can never be read again.

        Raises:
            OSError: A held key's file could not be removed; its key in memory is gone.
        """
        touched = False
        for candidate_id in candidate_ids:
            self._keys.pop(candidate_id, None)
            self._litter.append(candidate_id)
            if candidate_id in self._held:
                self._held.discard(candidate_id)
                self._shred(self._key_path(candidate_id))
                touched = True
        if touched:
            fsync_directory(self._key_directory)

    def sweep(self) -> None:
        """Remove the ciphertexts of destroyed candidates now rather than with the next batch."""
        self.put(())

    def held_ids(self) -> frozenset[CandidateId]:
        """Candidates that have a key file."""
        return frozenset(self._held)

    def staged_ids(self) -> frozenset[CandidateId]:
        """Candidates that have a ciphertext."""
        with self._env.begin() as txn, txn.cursor() as cursor:
            names = list(cursor.iternext(keys=True, values=False))
        return frozenset(CandidateId(name[:-1].hex()) for name in names)

    def bytes_free(self) -> int:
        """Bytes left before `put` would be refused, freed pages included."""
        stat = self._env.stat()
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return self._quota_bytes - pages * stat["psize"]

    def close(self) -> None:
        """Close the environment and drop every key from memory."""
        self._keys.clear()
        if os.getpid() == self._pid:
            self._env.close()

    def _key_path(self, candidate_id: CandidateId) -> Path:
        return self._key_directory / f"{candidate_id}.key"

    @staticmethod
    def _shred(path: Path) -> None:
        try:
            handle = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return
        try:
            # Overwritten in place first: an unlinked file's blocks keep their bytes.
            os.write(handle, bytes(_KEY_LEN))
            os.fsync(handle)
        finally:
            os.close(handle)
        path.unlink(missing_ok=True)


def _key(candidate_id: CandidateId, part: bytes) -> bytes:
    return bytes.fromhex(candidate_id) + part


def _seal(key: bytes, name: bytes, data: bytes) -> bytes:
    nonce = os.urandom(_NONCE_LEN)
    return nonce + AESGCM(key).encrypt(nonce, data, name)


def _unseal(key: bytes, name: bytes, sealed: bytes) -> bytes | None:
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], name)
    except (InvalidTag, ValueError):
        return None
