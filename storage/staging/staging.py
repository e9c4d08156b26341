"""Candidates before their verdict, and held candidates: two environments, all encrypted.

LMDB leaves deleted bytes in free pages, so deletion alone erases nothing. Each candidate has a key
of its own; a rejected candidate becomes unreadable because its key is destroyed.

Candidates that await their verdict go through an environment that has no name and is in memory
(`storage.staging.undecided`), under keys that are never in a file. A candidate that is held is
sealed once more, under another key, into an environment that is synced, before its hold commits;
that second key is a file beside the environment. So whoever finds a key file can decrypt the held
candidate and nothing else (decision 028).
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
from storage.ground.state_directory import fsync_directory, write_durably
from storage.staging.held_file import StagingFile
from storage.staging.undecided import KEY_LEN, Undecided, name_of, new_key, packed, seal, unseal
from storage.values import Sealed, StagedContents

_CANONICAL: Final = b"c"
_EVIDENCE: Final = b"e"
_ROW: Final = b"s"
_MAP_PER_QUOTA: Final = 2


class Staging:
    """The staged candidates, undecided and held.

    Writer thread only, except `sealed` and methods that read or list held ones.
    """

    def __init__(self, directory: Path, key_directory: Path, quota_bytes: int) -> None:
        self._key_directory = key_directory
        self._quota_bytes = quota_bytes
        self._pid = os.getpid()
        # Keys of held candidates, and keys that were drawn for candidates which a transaction is
        # about to hold.
        self._keys: dict[CandidateId, bytes] = {}
        self._held: set[CandidateId] = set()
        self._drawn: dict[CandidateId, bytes] = {}
        # Ciphertexts of held candidates whose key is destroyed; they are removed with the next
        # write.
        self._held_litter: list[CandidateId] = []
        # Candidates whose key is gone from memory, and not yet from the disk.
        self._condemned: list[CandidateId] = []
        self._erasing = threading.Lock()
        self._undecided = Undecided(directory, quota_bytes * _MAP_PER_QUOTA)
        self._kept = StagingFile(directory / "held", quota_bytes * _MAP_PER_QUOTA)
        self._kept_bytes = self._kept.bytes_used()
        for path in self._key_directory.glob(".*.unfinished"):
            self._shred(path)
        for path in self._key_directory.glob("*.key"):
            candidate_id = CandidateId(path.stem)
            self._keys[candidate_id] = path.read_bytes()
            self._held.add(candidate_id)

    # ---- staging candidates before their verdict -------------------------------------------------

    @staticmethod
    def sealed(candidate_id: CandidateId, contents: StagedContents) -> Sealed:
        """A candidate encrypted under a fresh key, ready to be staged. Any thread."""
        key = new_key()
        data = seal(key, name_of(candidate_id), packed(contents))
        return Sealed(candidate_id=candidate_id, key=key, data=data)

    def put(self, sealed: Sequence[Sealed]) -> None:
        """Stage candidates, in one transaction.

        Raises:
            StoreUnavailable: There is no room for them, or no environment; none of them is staged.
        """
        if os.getpid() != self._pid:
            raise StoreLocked("staging was opened by another process")
        if sum(len(one.data) for one in sealed) > self.bytes_free():
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
        """Where undecided candidates are kept: "memfd", "unlinked file", or "" if nowhere."""
        return self._undecided.place

    # ---- keeping candidates that are held for a person -------------------------------------------

    def read_held(self, candidate_id: CandidateId) -> StagedContents | None:
        """A held candidate; None where a part of it cannot be decrypted. Any thread.

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
        """Encrypt a held candidate's row data under the key that it will be held under.

        The key is a new one: the first key is destroyed with the verdict, and must never be in a
        file.
        """
        key = self._drawn[candidate_id] = new_key()
        return seal(key, _key(candidate_id, _ROW), data)

    def unseal(self, candidate_id: CandidateId, sealed: bytes) -> bytes | None:
        """The data that `seal` encrypted; None if the key is gone or the bytes were changed."""
        key = self._keys.get(candidate_id)
        return None if key is None else unseal(key, _key(candidate_id, _ROW), sealed)

    def hold(self, kept: Mapping[CandidateId, StagedContents]) -> None:
        """Make candidates durable with their evidence and key, before the hold commits.

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
                    # The transaction runs a second time, so the keys that its first run drew are
                    # not needed.
                    self._shred(self._key_path(candidate_id))
                write_durably(self._key_path(candidate_id), key)
                self._keys[candidate_id] = key
                self._held.add(candidate_id)
            self._kept_bytes = self._kept.bytes_used()
        except OSError as error:
            raise StoreUnavailable(f"a held candidate cannot be kept: {error}") from error

    def destroy(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Destroy keys of held candidates, so that their ciphertexts can never be read again.

        Raises:
            OSError: A key's file could not be removed; its key in memory is gone.
        """
        if self.condemn(candidate_ids):
            self.erase()
            self.tidy()

    def condemn(self, candidate_ids: Iterable[CandidateId]) -> bool:
        """Drop keys of held candidates from memory, so that this process cannot read them.

        The key files stay until `erase`. Returns True where there are any.
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
        """Erase the key files of condemned candidates. When this returns, all of them are gone.

        Any thread; a second caller waits. Keys whose erasing fails stay condemned; a start erases
        them too.

        Raises:
            OSError: A file could not be overwritten or removed.
        """
        with self._erasing:
            some = self._condemned[:]
            # Key files are erased one by one, because the writer's commits wait for the same disk.
            for candidate_id in some:
                self._shred(self._key_path(candidate_id))
            if some:
                fsync_directory(self._key_directory)
            # Keys that were condemned meanwhile stand behind the erased ones, and stay in the list.
            del self._condemned[: len(some)]

    @property
    def erasing(self) -> bool:
        """Whether a thread is erasing key files now."""
        return self._erasing.locked()

    def tidy(self) -> None:
        """Remove ciphertexts whose key is destroyed, where the disk permits."""
        with contextlib.suppress(StoreUnavailable):
            # A failure is ignored: the ciphertext is unreadable already, only its room is freed
            # later.
            self._sweep_held()

    def sweep(self) -> None:
        """Remove the ciphertexts of destroyed candidates now, not with the next hold.

        Raises:
            StoreUnavailable: The disk refused; the ciphertexts are there, and cannot be read.
        """
        # After a crash there may be ciphertexts without a key that are in no list, so all are
        # looked at.
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
        """Bytes left before `put` would be refused, freed pages included."""
        return self._quota_bytes - self._undecided.bytes_used - self._kept_bytes

    def close(self) -> None:
        """Close the environments and drop every key from memory."""
        self._keys.clear()
        self._drawn.clear()
        if os.getpid() == self._pid:
            self._undecided.close()
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
            # The key is overwritten in place before its file is removed: an unlinked file's blocks
            # keep their bytes.
            os.write(handle, bytes(KEY_LEN))
            # The file keeps its length, so only its data has to reach the disk.
            os.fdatasync(handle)
        finally:
            os.close(handle)
        path.unlink(missing_ok=True)


def _key(candidate_id: CandidateId, part: bytes) -> bytes:
    return bytes.fromhex(candidate_id) + part
