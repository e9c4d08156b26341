"""One sealed file to which encrypted records are only appended: a header, then frames.

A frame is sealed (AES-GCM) under a key made of the store's key and of random bytes in the file's
header, and is bound to its own number. So no frame can be changed, moved to another file or number,
or read once the header is overwritten. Two ledgers use such files, each with its own `Policy`.
If the policy promises durable frames, the header counts them, so that a file which was cut off
between two frames is detected. The header is written after the frames and synced with them. After a
crash there may be more frames than it counts; fewer frames mean a loss.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from storage.ground.randomness import random_bytes
from storage.ground.state_directory import FILE_MODE, fsync_directory

SECTOR_LEN: Final = 512
"""The header has a sector of its own, so that a torn write of a frame cannot damage it."""

_UNFINISHED: Final = ".unfinished"
_DRAWN_LEN: Final = 32
_OWNER_LEN: Final = 16
_MAC_LEN: Final = 16
_NONCE_LEN: Final = 12
_TAG_LEN: Final = 16  # the number of bytes that AES-GCM adds to a text
# The fields of a header: magic, random bytes, owner (an incarnation), number of promised frames.
_HEADER: Final = struct.Struct(f">8s{_DRAWN_LEN}s{_OWNER_LEN}sQ")
# The fields of a frame's head: length of the sealed part, kind, number, time in ms, tag.
_HEAD: Final = struct.Struct(">IBQQ8s")
HEAD_LEN: Final = _HEAD.size


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a ledger's files."""

    magic: bytes  # 8 bytes that identify the ledger and the format of its files
    purpose: bytes  # the purpose in the derivation of the files' keys, at most 16 bytes
    # Whether appended frames are durable, and counted, so that a loss is detected. If not, a file
    # may end anywhere after a power cut.
    promises: bool


class Record(NamedTuple):
    """One record before encryption; `tag` has 8 bytes by which the record can be looked up."""

    kind: int
    number: int
    at_ms: int
    tag: bytes
    plain: bytes


class Frame(NamedTuple):
    """One stored record, which `plain` decrypts."""

    kind: int
    number: int
    at_ms: int
    tag: bytes
    end: int  # the position in the file where the frame ends
    key: FileKey
    sealed: bytes

    def plain(self) -> bytes | None:
        """The decrypted contents; None if the stored bytes were changed."""
        head = _HEAD.pack(len(self.sealed), self.kind, self.number, self.at_ms, self.tag)
        return self.key.unseal(self.sealed, head)


class FileKey:
    """The keys of one file: for its frames, and for parts of records that are sealed once more."""

    def __init__(self, store_key: bytes, purpose: bytes, drawn: bytes) -> None:
        # The store's own key is needed too, so that a copy of the file alone reveals only the times
        # of its records.
        self._cipher = AESGCM(derived(store_key, purpose, drawn + b"frames"))
        self._inner = derived(store_key, purpose, drawn + b"inner")

    def framed(self, record: Record) -> bytes:
        """The frame of a record, as bytes of a file."""
        length = _NONCE_LEN + len(record.plain) + _TAG_LEN
        head = _HEAD.pack(length, *record[:-1])
        nonce = random_bytes(_NONCE_LEN)
        return head + nonce + self._cipher.encrypt(nonce, record.plain, head)

    def unseal(self, sealed: bytes, head: bytes) -> bytes | None:
        """Decrypt the sealed part of a frame; None if the part or its head was changed."""
        return _opened(self._cipher, sealed, head)

    def seal_inner(self, number: int, salts: Sequence[bytes], plain: bytes) -> bytes:
        """Encrypt a part of a record under salts, so that it needs all of them to be decrypted."""
        nonce = random_bytes(_NONCE_LEN)
        return nonce + self._under(salts).encrypt(nonce, plain, number.to_bytes(8, "big"))

    def unseal_inner(self, number: int, salts: Sequence[bytes], sealed: bytes) -> bytes | None:
        """Decrypt a part that `seal_inner` encrypted; None if one of the salts is wrong."""
        return _opened(self._under(salts), sealed, number.to_bytes(8, "big"))

    def _under(self, salts: Sequence[bytes]) -> AESGCM:
        return AESGCM(blake2b(b"".join(salts), digest_size=32, key=self._inner).digest())


class FileKeys:
    """The keys of a store's files of one policy; `owner` names the incarnation of the store.

    In another incarnation ordinals name other rows and sessions have another history, so a file of
    another owner is treated as no file.
    """

    def __init__(self, policy: Policy, store_key: bytes, owner: str) -> None:
        self.policy = policy
        self._store_key = store_key
        self._owner = sha256(owner.encode()).digest()[:_OWNER_LEN]
        self._mac_key = derived(store_key, policy.purpose, b"header")

    def of(self, drawn: bytes) -> FileKey:
        """The key of the file that has these random bytes in its header."""
        return FileKey(self._store_key, self.policy.purpose, drawn)

    def header(self, drawn: bytes, frame_count: int) -> bytes:
        """The bytes of a file's header, which fill its first sector."""
        head = _HEADER.pack(self.policy.magic, drawn, self._owner, frame_count)
        return (head + self._mac(head)).ljust(SECTOR_LEN, b"\0")

    def read_header(self, data: bytes) -> tuple[bytes, int] | None:
        """The random bytes and the frame count of a header; None if it is not one of this owner."""
        head, mac = data[: _HEADER.size], data[_HEADER.size : _HEADER.size + _MAC_LEN]
        if len(data) < SECTOR_LEN or not compare_digest(self._mac(head), mac):
            return None
        magic, drawn, owner, frame_count = _HEADER.unpack(head)
        return (drawn, frame_count) if (magic, owner) == (self.policy.magic, self._owner) else None

    def _mac(self, head: bytes) -> bytes:
        return blake2b(head, digest_size=_MAC_LEN, key=self._mac_key).digest()


class SealedFile:
    """One file that is open for appending. One thread at a time."""

    def __init__(
        self, handle: int, keys: FileKeys, drawn: bytes, frame_count: int, length: int
    ) -> None:
        self._handle = handle
        self._keys = keys
        self.drawn = drawn
        self.key = keys.of(drawn)
        self.frame_count = frame_count
        self.length = length
        # The reason why nothing can be appended to the file any more; None while appending works.
        self.failed: str | None = None

    @classmethod
    def made(
        cls,
        path: Path,
        keys: FileKeys,
        records: Iterable[Record] = (),
        drawn: bytes = b"",
        *,
        durable: bool = False,
    ) -> Self:
        """Create a file of records in place of any other, as a whole or not at all.

        `drawn` are the random bytes of an earlier file, whose records have parts sealed by its key.
        `durable`: the file is synced even if the policy promises no durable frames.

        Raises:
            OSError: The file could not be put in place; an earlier one is still there.
        """
        beside = path.with_name(f".{path.name}{_UNFINISHED}")
        beside.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        drawn = drawn or random_bytes(_DRAWN_LEN)
        file = cls(os.open(beside, flags, FILE_MODE), keys, drawn, 0, SECTOR_LEN)
        try:
            file._append(records)
            file._head()
            if durable:
                os.fdatasync(file._handle)
            beside.replace(path)
            if durable or keys.policy.promises:
                fsync_directory(path.parent)
        except OSError:
            file.close()
            beside.unlink(missing_ok=True)
            raise
        return file

    def append(self, records: Iterable[Record]) -> list[int]:
        """Append a frame for each record; return the positions at which the frames end.

        Raises:
            OSError: No record was appended; if `failed` is set, no later one can be either.
        """
        before = self.frame_count, self.length
        try:
            ends = self._append(records)
            if self._keys.policy.promises:
                self._head()
        except OSError as error:
            self.frame_count, self.length = before
            self._take_back(error)
            raise
        return ends

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _append(self, records: Iterable[Record]) -> list[int]:
        ends: list[int] = []
        for record in records:
            frame = self.key.framed(record)
            write_all(self._handle, frame, self.length)
            self.frame_count, self.length = self.frame_count + 1, self.length + len(frame)
            ends.append(self.length)
        return ends

    def _head(self) -> None:
        """Write the header, and make it durable if the policy promises that."""
        write_all(self._handle, self._keys.header(self.drawn, self.frame_count), 0)
        if self._keys.policy.promises:
            os.fdatasync(self._handle)

    def _take_back(self, error: OSError) -> None:
        """After a failed write, cut the file back to its old end, or mark it as unusable."""
        try:
            os.ftruncate(self._handle, self.length)
            self._head()
        except OSError:
            self.failed = str(error)


class Contents(NamedTuple):
    """The valid frames of a file, decrypted, and the position at which they end."""

    drawn: bytes
    plains: tuple[bytes, ...]
    length: int
    # Whether the file has all frames that its header promises, and nothing else.
    whole: bool


def read_contents(path: Path, keys: FileKeys) -> Contents | None:
    """The contents of a file up to the first damaged frame; None if there is no file.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    head = keys.read_header(data[:SECTOR_LEN])
    if head is None:
        return Contents(b"", (), 0, whole=False)
    drawn, promised = head
    plains: list[bytes] = []
    length = SECTOR_LEN
    for frame in frames(data, keys.of(drawn), SECTOR_LEN):
        plain = frame.plain()
        if plain is None or frame.number != len(plains):
            break
        plains.append(plain)
        length = frame.end
    whole = length == len(data) and len(plains) >= promised
    return Contents(drawn, tuple(plains), length, whole)


def frames(data: bytes, key: FileKey, at: int = 0) -> Iterator[Frame]:
    """The complete frames in `data`, from position `at` on."""
    while at + HEAD_LEN <= len(data):
        length, kind, number, at_ms, tag = _HEAD.unpack_from(data, at)
        start, at = at + HEAD_LEN, at + HEAD_LEN + length
        if at > len(data):
            return
        yield Frame(kind, number, at_ms, tag, at, key, data[start:at])


def first_ms(head: bytes) -> int | None:
    """The time in the head of a frame; None if the head is incomplete."""
    return int(_HEAD.unpack(head)[3]) if len(head) == HEAD_LEN else None


def remove_unfinished(directory: Path) -> None:
    """Remove the files of a directory that a crash left unfinished.

    Raises:
        OSError: A file could not be removed.
    """
    for path in directory.glob(f".*{_UNFINISHED}"):
        path.unlink()


def derived(store_key: bytes, purpose: bytes, drawn: bytes = b"") -> bytes:
    """A key derived from the store's key; each purpose and file has its own."""
    return blake2b(drawn, digest_size=32, key=store_key, person=purpose).digest()


def write_all(handle: int, data: bytes, at: int) -> None:
    """Write all bytes at a position; after a short write, write the rest.

    Raises:
        OSError: Not all bytes were written.
    """
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written


def _opened(cipher: AESGCM, sealed: bytes, bound: bytes) -> bytes | None:
    try:
        return cipher.decrypt(sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], bound)
    except (InvalidTag, ValueError):
        return None
