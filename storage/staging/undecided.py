"""The environment of candidates before their verdict, on a file that has no name.

LMDB uses a `memfd`, which is in no directory and on no disk, so that nothing of it outlives the
process. If the system has no `memfd`, or no path to its descriptor, a new file is preallocated
and unlinked while it is open. Then ciphertexts are on the disk, under keys that exist only in
memory.
Each candidate is encrypted (AES-256-GCM) under a key of its own, bound to its name, and is erased
by destroying the key. The pages are released with the file, which is replaced when no candidate is
in it.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import lmdb
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policy.model import CandidateId
from storage.ground.errors import StoreUnavailable
from storage.ground.randomness import random_bytes
from storage.ground.state_directory import FILE_MODE
from storage.values import STAGED_IN_MEMORY, Sealed, StagedContents

KEY_LEN: Final = 32
PAD_LEN: Final = 256
_NONCE_LEN: Final = 12
_LENGTHS: Final = struct.Struct(">II")


def seal(key: bytes, name: bytes, data: bytes) -> bytes:
    """Encrypt `data`; it can be decrypted only with the same key and name. Any thread."""
    nonce = random_bytes(_NONCE_LEN)
    return nonce + AESGCM(key).encrypt(nonce, data, name)


def unseal(key: bytes, name: bytes, sealed: bytes | memoryview) -> bytes | None:
    """The decrypted data; None if key, name or bytes are wrong. Any thread."""
    view = memoryview(sealed)
    try:
        return AESGCM(key).decrypt(view[:_NONCE_LEN], view[_NONCE_LEN:], name)
    except (InvalidTag, ValueError):
        return None


def packed(contents: StagedContents) -> bytes:
    """The two values as one, padded to a multiple of 256 bytes, which hides their length."""
    canonical_len, evidence_len = len(contents.canonical), len(contents.evidence)
    head = _LENGTHS.pack(canonical_len, evidence_len)
    padding = bytes(-(_LENGTHS.size + canonical_len + evidence_len) % PAD_LEN)
    return b"".join((head, contents.canonical, contents.evidence, padding))


def unpacked(data: bytes) -> StagedContents:
    """The two values that `packed` joined. `data` must have been authenticated."""
    canonical_len, evidence_len = _LENGTHS.unpack_from(data)
    middle = _LENGTHS.size + canonical_len
    return StagedContents(
        canonical=data[_LENGTHS.size : middle], evidence=data[middle : middle + evidence_len]
    )


UNLINKED: Final = "unlinked file"
_DESCRIPTORS: Final = Path("/proc/self/fd")
_NO_EXEC_SEAL: Final = 0x0008  # the flag MFD_NOEXEC_SEAL, known since Linux 6.3
_BESIDE: Final = "undecided.mdb"
# Enough for a batch, the pages that LMDB copies for it, and the remains of earlier batches.
_PREALLOCATED_BYTES: Final = 32 * 1024 * 1024
# The number of staged bytes after which the file is replaced as soon as it contains no candidate.
_RENEWED_AFTER_BYTES: Final = 4 * 1024 * 1024


class Undecided:
    """Candidates between their interception and their verdict. Writer thread only.

    No other process may read the environment, because LMDB's own lock, which protects the pages of
    a reader, is off.
    """

    def __init__(self, directory: Path, map_bytes: int) -> None:
        """`directory` is for the fallback: its file is created there, and unlinked at once."""
        self._directory = directory
        self._map_bytes = map_bytes
        self._env: lmdb.Environment | None = None
        self._keys: dict[CandidateId, bytes] = {}
        self.bytes_used = 0
        # Where the environment is, as `status` reports it; "" if none could be created.
        self.place = ""
        # A full disk must not end the gate's reads, so a failure here is ignored: the next `put`
        # tries again.
        with contextlib.suppress(StoreUnavailable):
            self._opened()

    def put(self, sealed: Sequence[Sealed]) -> None:
        """Stage candidates in one transaction.

        Raises:
            StoreUnavailable: No candidate was staged.
        """
        env = self._opened()
        try:
            with env.begin(write=True) as txn:
                txn.cursor().putmulti([(name_of(one.candidate_id), one.data) for one in sealed])
        except lmdb.Error as error:
            self._shut()
            full = isinstance(error, lmdb.MapFullError)
            raise StoreUnavailable(
                "staging is full" if full else f"staging cannot be written: {error}"
            ) from error
        for one in sealed:
            self._keys[one.candidate_id] = one.key
            self.bytes_used += len(one.data)

    def read(self, candidate_ids: Sequence[CandidateId]) -> list[StagedContents | None]:
        """The candidates, read in a new transaction; None for one that cannot be decrypted.

        Raises:
            StoreUnavailable: The environment cannot be read.
        """
        env = self._opened()
        try:
            with env.begin(buffers=True) as txn:
                found = [self._opened_value(one, txn) for one in candidate_ids]
        except lmdb.Error as error:
            self._shut()
            raise StoreUnavailable(f"staging cannot be read: {error}") from error
        if None in found:
            # A write from outside altered this row, and may have altered the tree of pages too, so
            # no more candidates are put into this file.
            self._keys.clear()
            self._shut()
        return found

    def _opened_value(
        self, candidate_id: CandidateId, txn: lmdb.Transaction
    ) -> StagedContents | None:
        key, name = self._keys.get(candidate_id), name_of(candidate_id)
        value = None if key is None else txn.get(name)
        data = None if key is None or value is None else unseal(key, name, value)
        return None if data is None else unpacked(data)

    def ids(self) -> frozenset[CandidateId]:
        """The ids of the undecided candidates, which are those whose key still exists."""
        return frozenset(self._keys)

    def forget(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Destroy keys, so that the staged bytes can never be read again."""
        keys = self._keys
        for candidate_id in candidate_ids:
            if candidate_id in keys:
                del keys[candidate_id]
        if self.bytes_used >= _RENEWED_AFTER_BYTES:
            self.renew()

    def renew(self) -> None:
        """Release the pages by starting a new file, if no candidate waits and some were staged."""
        if self.bytes_used and not self._keys:
            self._shut()
            with contextlib.suppress(StoreUnavailable):
                self._opened()

    def close(self) -> None:
        """Delete every key, and close the file."""
        self._keys.clear()
        self._shut()

    def _shut(self) -> None:
        self.bytes_used = 0
        if self._env is not None:
            self._env.close()
            self._env = None

    def _opened(self) -> lmdb.Environment:
        """The environment, which is opened on a new file if there is none.

        Raises:
            StoreUnavailable: Neither memory nor disk provides a file.
        """
        if self._env is None:
            self._env = self._in_memory()
            self.place = STAGED_IN_MEMORY
        if self._env is None:
            self.place = ""
            self._env = self._unlinked()
            self.place = UNLINKED
        return self._env

    def _in_memory(self) -> lmdb.Environment | None:
        """The environment on a `memfd`; None if the system has none, or no path to one."""
        try:
            handle = _memory_file()
        except OSError:
            return None
        try:
            os.fchmod(handle, FILE_MODE)
            path = _DESCRIPTORS / str(handle)
            # If another file system than procfs is mounted at /proc, this path does not lead to the
            # `memfd`, and LMDB would create a new file there.
            if not os.path.samestat(path.stat(), os.fstat(handle)):
                return None
            return self._environment(path)
        except (lmdb.Error, OSError):
            return None
        finally:
            os.close(handle)

    def _unlinked(self) -> lmdb.Environment:
        path = self._directory / _BESIDE
        try:
            path.unlink(missing_ok=True)
            env = self._environment(path)
            try:
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    # The file is preallocated, so that a disk that fills up later cannot prevent a
                    # verdict.
                    os.posix_fallocate(handle, 0, _PREALLOCATED_BYTES)
                finally:
                    os.close(handle)
            except OSError:
                env.close()
                raise
            finally:
                path.unlink(missing_ok=True)
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailable(f"staging cannot be opened: {error}") from error
        return env

    def _environment(self, path: Path) -> lmdb.Environment:
        return lmdb.open(
            str(path),
            subdir=False,
            map_size=self._map_bytes,
            mode=FILE_MODE,
            # Nothing is synced, because no part of this environment may survive the process.
            sync=False,
            metasync=False,
            # With `writemap` a full disk would kill the process by a signal.
            writemap=False,
            readahead=False,
            lock=False,
        )


def name_of(candidate_id: CandidateId) -> bytes:
    """The name of a candidate in staging, to which its ciphertext is bound."""
    return bytes.fromhex(candidate_id)


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC
    try:
        return os.memfd_create("mnemogate", flags | _NO_EXEC_SEAL)
    except OSError:
        return os.memfd_create("mnemogate", flags)
