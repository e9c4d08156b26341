"""Candidates before a verdict, in memory; held ones, in an environment of their own. All encrypted.

LMDB leaves deleted bytes in free pages, so deletion alone erases nothing. Each candidate has a key
of its own; what makes a rejected candidate unreadable is that its key is gone. The key of one that
awaits its verdict lives in memory only, the key of a held one in a file beside.

Those that await their verdict are in no file at all: nothing of them outlives the process, and a
file that is never synced holds nothing for anybody but who steals the disk (decision 012). Held
ones are written to an environment that is synced, before their hold commits.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policy.model import CandidateId
from policy.verdict import InvariantBroken
from storage.errors import StoreLocked, StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.staging.held_file import StagingFile
from storage.state_directory import fsync_directory, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import lmdb

_KEY_LEN: Final = 32
_NONCE_LEN: Final = 12
_CANONICAL: Final = b"c"
_EVIDENCE: Final = b"e"
_MAP_PER_QUOTA: Final = 2
# Of versions that staged undecided candidates in a file.
_LEFT: Final = ("data.mdb", "lock.mdb")


class Staging:
    """What waits. Writer thread only, except `read` and `read_evidence`."""

    def __init__(self, directory: Path, key_directory: Path, quota_bytes: int) -> None:
        self._key_directory = key_directory
        self._quota_bytes = quota_bytes
        self._pid = os.getpid()
        self._keys: dict[CandidateId, bytes] = {}
        self._held: set[CandidateId] = set()
        self._undecided: dict[CandidateId, bytes] = {}
        self._undecided_bytes = 0
        # Ciphertexts of held ones whose key is gone already; removed together with the next.
        self._held_litter: list[CandidateId] = []
        for name in _LEFT:
            (directory / name).unlink(missing_ok=True)
        self._kept = StagingFile(directory / "held", quota_bytes * _MAP_PER_QUOTA)
        self._kept_bytes = self._kept.bytes_used()
        for path in self._key_directory.glob(".*.unfinished"):
            self._shred(path)
        for path in self._key_directory.glob("*.key"):
            candidate_id = CandidateId(path.stem)
            self._keys[candidate_id] = path.read_bytes()
            self._held.add(candidate_id)

    def put(self, items: Iterable[tuple[CandidateId, bytes]]) -> None:
        """Stage canonical bytes, each under a fresh key.

        Raises:
            StoreUnavailable: There is no room for them; none of them is staged.
        """
        if os.getpid() != self._pid:
            raise StoreLocked("staging was opened by another process")
        staged: dict[CandidateId, bytes] = {}
        keys: dict[CandidateId, bytes] = {}
        size = 0
        for candidate_id, canonical in items:
            key = keys[candidate_id] = random_bytes(_KEY_LEN)
            sealed = _seal(key, _key(candidate_id, _CANONICAL), canonical)
            staged[candidate_id] = sealed
            size += len(sealed)
        if size > self.bytes_free():
            raise StoreUnavailable("staging is full")
        for candidate_id in staged:
            self._drop(candidate_id)
        self._keys.update(keys)
        self._undecided.update(staged)
        self._undecided_bytes += size

    def _drop(self, candidate_id: CandidateId) -> None:
        sealed = self._undecided.pop(candidate_id, None)
        if sealed is not None:
            self._undecided_bytes -= len(sealed)

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[bytes | None]:
        """Canonical bytes as staging has them now; None where they cannot be decrypted.

        Raises:
            StoreUnavailable: Staging cannot be read.
        """
        if self._held.isdisjoint(candidate_ids):
            return [
                self._decrypted(item, _CANONICAL, self._undecided.get(item))
                for item in candidate_ids
            ]
        with self._kept.reading() as txn:
            return [
                self._decrypted(item, _CANONICAL, txn.get(_key(item, _CANONICAL)))
                if item in self._held
                else self._decrypted(item, _CANONICAL, self._undecided.get(item))
                for item in candidate_ids
            ]

    def read_evidence(self, candidate_id: CandidateId) -> bytes | None:
        """What `hold` was given; None where it cannot be decrypted.

        Raises:
            StoreUnavailable: Staging cannot be read.
        """
        with self._kept.reading() as txn:
            sealed = txn.get(_key(candidate_id, _EVIDENCE))
            return self._decrypted(candidate_id, _EVIDENCE, sealed)

    def _decrypted(
        self, candidate_id: CandidateId, part: bytes, sealed: bytes | memoryview | None
    ) -> bytes | None:
        key = self._keys.get(candidate_id)
        if key is None or sealed is None:
            return None
        return _unseal(key, _key(candidate_id, part), bytes(sealed))

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
            with self._kept.writing() as txn:
                self._remove_litter(txn)
                for candidate_id, data in evidence.items():
                    sealed = self._undecided.get(candidate_id)
                    if sealed is None:
                        raise InvariantBroken("a candidate was held that is not staged")
                    txn.put(_key(candidate_id, _CANONICAL), sealed)
                    name = _key(candidate_id, _EVIDENCE)
                    txn.put(name, _seal(self._keys[candidate_id], name, data))
            self._held_litter.clear()
            for candidate_id in evidence:
                write_durably(self._key_path(candidate_id), self._keys[candidate_id])
                self._held.add(candidate_id)
                self._drop(candidate_id)
            self._kept_bytes = self._kept.bytes_used()
        except OSError as error:
            raise StoreUnavailable(f"a held candidate cannot be kept: {error}") from error

    def destroy(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Forget keys, so that what is staged under them can never be read again.

        Raises:
            OSError: A held key's file could not be removed; its key in memory is gone.
        """
        touched = False
        for candidate_id in candidate_ids:
            self._keys.pop(candidate_id, None)
            self._drop(candidate_id)
            if candidate_id in self._held:
                self._held.discard(candidate_id)
                self._held_litter.append(candidate_id)
                self._shred(self._key_path(candidate_id))
                touched = True
        if touched:
            fsync_directory(self._key_directory)
            with contextlib.suppress(StoreUnavailable):
                # Unreadable already; only the room is not back yet.
                self._sweep_held()

    def sweep(self) -> None:
        """Remove the ciphertexts of destroyed candidates now rather than with the next hold.

        Raises:
            StoreUnavailable: The disk refused; they are there, and cannot be read.
        """
        # Those that a crash left without a key are known to nobody else.
        self._held_litter.extend(self._kept_ids() - self._held)
        self._sweep_held()

    def _sweep_held(self) -> None:
        if not self._held_litter:
            return
        with self._kept.writing() as txn:
            self._remove_litter(txn)
        self._held_litter.clear()
        self._kept_bytes = self._kept.bytes_used()

    def _remove_litter(self, txn: lmdb.Transaction) -> None:
        for candidate_id in self._held_litter:
            txn.delete(_key(candidate_id, _CANONICAL))
            txn.delete(_key(candidate_id, _EVIDENCE))

    def held_ids(self) -> frozenset[CandidateId]:
        """Candidates that have a key file."""
        return frozenset(self._held)

    def staged_ids(self) -> frozenset[CandidateId]:
        """Candidates that have a ciphertext."""
        return frozenset(self._undecided) | self._kept_ids()

    def _kept_ids(self) -> frozenset[CandidateId]:
        with self._kept.reading() as txn, txn.cursor() as cursor:
            names = list(cursor.iternext(keys=True, values=False))
        return frozenset(CandidateId(name[:-1].hex()) for name in names)

    def bytes_free(self) -> int:
        """Bytes left before `put` would be refused, freed pages included."""
        return self._quota_bytes - self._undecided_bytes - self._kept_bytes

    def close(self) -> None:
        """Close the environment and drop every key from memory."""
        self._keys.clear()
        self._undecided.clear()
        self._undecided_bytes = 0
        if os.getpid() == self._pid:
            self._kept.close()

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
    nonce = random_bytes(_NONCE_LEN)
    return nonce + AESGCM(key).encrypt(nonce, data, name)


def _unseal(key: bytes, name: bytes, sealed: bytes) -> bytes | None:
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], name)
    except (InvalidTag, ValueError):
        return None
