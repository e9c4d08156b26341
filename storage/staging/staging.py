"""Candidates before their verdict, and held candidates: two environments, all encrypted.

LMDB leaves deleted bytes in free pages, so a deletion alone erases nothing. Each candidate has a
key of its own, and a rejected candidate becomes unreadable because its key is destroyed.
Candidates before their verdict are in an environment that has no name and is in memory
(`storage.staging.undecided`), under keys that are never in a file. A candidate that is held is
encrypted once more, under another key, into an environment that is synced, before its hold commits.
That second key is a file beside the environment. So a key file decrypts the held candidate and
nothing else (decision 028).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import lmdb

from policy.model import CandidateId
from policy.verdict import InvariantBroken
from storage.ground.errors import StoreLocked, StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import destroy_file, write_durably
from storage.staging.held_file import StagingFile
from storage.staging.undecided import KEY_LEN, Undecided, name_of, packed, seal, unseal
from storage.values import Sealed, StagedContents

_CANONICAL: Final = b"c"
_EVIDENCE: Final = b"e"
_ROW: Final = b"s"
_MAP_PER_QUOTA: Final = 2


class Staging:
    """The staged candidates, undecided and held.

    Writer thread only, except `sealed` and the methods that read or list held ones.
    """

    def __init__(self, directory: Path, key_directory: Path, quota_bytes: int) -> None:
        self._key_directory = key_directory
        self._quota_bytes = quota_bytes
        self._pid = os.getpid()
        # Keys of held candidates; and below, the new keys of candidates that a transaction is about
        # to hold.
        self._keys: dict[CandidateId, bytes] = {}
        self._held: set[CandidateId] = set()
        self._drawn: dict[CandidateId, bytes] = {}
        # Held candidates whose key is destroyed; their ciphertexts are removed with the next write.
        self._held_litter: list[CandidateId] = []
        # Candidates whose key is no longer in memory, but still on the disk.
        self._condemned: list[CandidateId] = []
        self._erasing = threading.Lock()
        self._undecided = Undecided(directory, quota_bytes * _MAP_PER_QUOTA)
        self._kept = StagingFile(directory / "held", quota_bytes * _MAP_PER_QUOTA)
        self._kept_bytes = self._kept.bytes_used()
        for path in self._key_directory.glob(".*.unfinished"):
            destroy_file(path, KEY_LEN)
        for path in self._key_directory.glob("*.key"):
            candidate_id = CandidateId(path.stem)
            self._keys[candidate_id] = path.read_bytes()
            self._held.add(candidate_id)

    # ---- staging candidates before their verdict -------------------------------------------------

    @staticmethod
    def sealed(candidate_id: CandidateId, contents: StagedContents) -> Sealed:
        """Encrypt a candidate for staging, under a new key. Any thread."""
        key = random_bytes(KEY_LEN)
        data = seal(key, name_of(candidate_id), packed(contents))
        return Sealed(candidate_id=candidate_id, key=key, data=data)

    def put(self, sealed: Sequence[Sealed]) -> None:
        """Stage candidates, in one transaction.

        Raises:
            StoreUnavailable: There is no room, or no environment; no candidate was staged.
        """
        if os.getpid() != self._pid:
            raise StoreLocked("staging was opened by another process")
        if sum(map(len, [one.data for one in sealed])) > self.bytes_free():
            raise StoreUnavailable("staging is full")
        self._undecided.put(sealed)

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[StagedContents | None]:
        """Undecided candidates as read from the environment; None for one that cannot be decrypted.

        Raises:
            StoreUnavailable: Staging cannot be read.
        """
        return self._undecided.read(candidate_ids)

    def forget(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Destroy the keys of decided candidates."""
        self._drawn.clear()
        self._undecided.forget(candidate_ids)

    def renew(self) -> None:
        """Release the pages of undecided candidates, if no candidate waits."""
        self._undecided.renew()

    @property
    def place(self) -> str:
        """Where undecided candidates are stored: "memfd", "unlinked file", or "" if nowhere yet."""
        return self._undecided.place

    # ---- storing candidates that are held for a person -------------------------------------------

    def read_held(self, candidate_id: CandidateId) -> StagedContents | None:
        """A held candidate; None if a part of it cannot be decrypted. Any thread.

        Raises:
            StoreUnavailable: Staging cannot be read.
        """
        key = self._keys.get(candidate_id)
        if key is None:
            return None
        with self._kept.reading() as txn:
            parts = [
                None if value is None else unseal(key, name, bytes(value))
                for name in (_key(candidate_id, _CANONICAL), _key(candidate_id, _EVIDENCE))
                for value in (txn.get(name),)
            ]
        canonical, evidence = parts
        if canonical is None or evidence is None:
            return None
        return StagedContents(canonical=canonical, evidence=evidence)

    def seal(self, candidate_id: CandidateId, data: bytes) -> bytes:
        """Encrypt a held candidate's row data under the key of its hold.

        The key is a new one, because the first key is destroyed with the verdict, and must never be
        in a file.
        """
        key = self._drawn[candidate_id] = random_bytes(KEY_LEN)
        return seal(key, _key(candidate_id, _ROW), data)

    def unseal(self, candidate_id: CandidateId, sealed: bytes) -> bytes | None:
        """The data that `seal` encrypted; None if the key is gone or the bytes were changed."""
        key = self._keys.get(candidate_id)
        return None if key is None else unseal(key, _key(candidate_id, _ROW), sealed)

    def hold(self, kept: Mapping[CandidateId, StagedContents]) -> None:
        """Make candidates, with their evidence and key, durable before the hold commits.

        Raises:
            StoreUnavailable: The disk refused; the caller must not commit the hold.
        """
        if not kept.keys() <= self._drawn.keys():
            raise InvariantBroken("a candidate was held whose row is not sealed")
        try:
            with self._kept.writing() as txn:
                self._remove_litter(txn)
                for candidate_id, contents in kept.items():
                    key = self._drawn[candidate_id]
                    for part, data in (
                        (_CANONICAL, contents.canonical),
                        (_EVIDENCE, contents.evidence),
                    ):
                        name = _key(candidate_id, part)
                        txn.put(name, seal(key, name, data))
            self._held_litter.clear()
            for candidate_id in kept:
                key = self._drawn.pop(candidate_id)
                if candidate_id in self._held:
                    # The transaction runs a second time, so the key that its first run wrote is
                    # replaced.
                    destroy_file(self._key_path(candidate_id), KEY_LEN)
                write_durably(self._key_path(candidate_id), key)
                self._keys[candidate_id] = key
                self._held.add(candidate_id)
            self._kept_bytes = self._kept.bytes_used()
        except OSError as error:
            raise StoreUnavailable(f"a held candidate cannot be kept: {error}") from error

    def destroy(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Destroy the keys of held candidates, so that their ciphertexts can never be read again.

        Raises:
            OSError: A key file could not be removed; the key in memory is deleted.
        """
        if self.condemn(candidate_ids):
            self.erase()
            self.tidy()

    def condemn(self, candidate_ids: Iterable[CandidateId]) -> bool:
        """Delete keys of held candidates from memory, so that this process cannot read them.

        The key files remain until `erase`. Returns whether any of the candidates was held.
        """
        found = False
        for candidate_id in candidate_ids:
            self._keys.pop(candidate_id, None)
            if candidate_id in self._held:
                self._held.discard(candidate_id)
                self._held_litter.append(candidate_id)
                self._condemned.append(candidate_id)
                found = True
        return found

    def erase(self) -> None:
        """Erase the key files of condemned candidates.

        Any thread; a second caller waits, so that for both all files are gone when this returns. A
        candidate whose key file cannot be erased stays condemned, and the next start erases the
        file.

        Raises:
            OSError: A file could not be overwritten or removed.
        """
        with self._erasing:
            some = self._condemned[:]
            # Key files are erased one by one, because the writer's commits wait for the same disk.
            # The removals need not be durable: a file that comes back in a crash has no key, and
            # the next start removes it.
            for candidate_id in some:
                destroy_file(self._key_path(candidate_id), KEY_LEN)
            # Candidates that were condemned meanwhile come after the erased ones, and stay listed.
            del self._condemned[: len(some)]

    @property
    def erasing(self) -> bool:
        """Whether a thread is erasing key files now."""
        return self._erasing.locked()

    def tidy(self) -> None:
        """Remove the ciphertexts of destroyed candidates, if the disk permits."""
        with contextlib.suppress(StoreUnavailable):
            # A failure is ignored, because the ciphertext is unreadable already, and its room is
            # freed later.
            self._sweep_held()

    def sweep(self) -> None:
        """Remove the ciphertexts of destroyed candidates now, without waiting for the next hold.

        Raises:
            StoreUnavailable: The disk refused; the ciphertexts remain, and cannot be read.
        """
        # After a crash there may be ciphertexts without a key that are in no list, so all are
        # examined.
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
        """The ids of candidates that have a key file."""
        return frozenset(self._held)

    def staged_ids(self) -> frozenset[CandidateId]:
        """The ids of candidates that have a ciphertext."""
        return self._undecided.ids() | self._kept_ids()

    def _kept_ids(self) -> frozenset[CandidateId]:
        with self._kept.reading() as txn, txn.cursor() as cursor:
            names = list(cursor.iternext(keys=True, values=False))
        return frozenset(CandidateId(name[:-1].hex()) for name in names)

    def bytes_free(self) -> int:
        """The bytes left before `put` would be refused, freed pages included."""
        return self._quota_bytes - self._undecided.bytes_used - self._kept_bytes

    def close(self) -> None:
        """Close the environments and delete every key from memory."""
        self._keys.clear()
        self._drawn.clear()
        if os.getpid() == self._pid:
            self._undecided.close()
            self._kept.close()

    def _key_path(self, candidate_id: CandidateId) -> Path:
        return self._key_directory / f"{candidate_id}.key"


def _key(candidate_id: CandidateId, part: bytes) -> bytes:
    return bytes.fromhex(candidate_id) + part
