"""The bytes of the session ledger's file: a header, and frames of encrypted records.

A frame is sealed (AES-GCM) under a key derived from the store's, and bound to this file and to the
frame's number in it: no frame can be changed, moved, repeated or left out unnoticed. The header
counts the frames, so a file that was cut off between two frames is noticed. The header is written
after the frame and synced with it: after a crash there may be more frames than it counts, and fewer
mean a loss.
"""

from __future__ import annotations

import os
import struct
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from storage.ground.randomness import random_bytes
from storage.ground.state_directory import FILE_MODE, fsync_directory

NAME: Final = "log"
UNFINISHED: Final = ".log.unfinished"
FRAME_LEN_MAX: Final = 64 * 1024 * 1024
SECTOR_LEN: Final = 512
"""The header stands alone in its sector: a torn frame cannot tear it."""

_MAGIC: Final = b"MNGSESS\x01"
_FILE_ID_LEN: Final = 16
_MAC_LEN: Final = 16
_NONCE_LEN: Final = 12
# The fields: magic, file id, the owning store and incarnation, number of frames promised.
_HEAD: Final = struct.Struct(">8s16s16sQ")
_HEADER_LEN: Final = _HEAD.size + _MAC_LEN
_LENGTH: Final = struct.Struct(">I")
_BOUND: Final = struct.Struct(">16sQ")


class ValidFrames(NamedTuple):
    """The valid frames of a file, and the position where they end."""

    file_id: bytes
    belongs_to: bytes
    records: tuple[bytes, ...]
    frame_count: int
    length: int
    whole: bool


class FrameKeys:
    """The key of a store's session logs, and the store and incarnation that they belong to."""

    def __init__(self, store_key: bytes, belongs_to: str) -> None:
        self._cipher = AESGCM(derived(store_key, b"session log, frames"))
        self._mac_key = derived(store_key, b"session log, header")
        self.belongs_to = sha256(belongs_to.encode()).digest()[:16]

    def seal(self, file_id: bytes, number: int, records: list[bytes]) -> bytes:
        """One frame: length, nonce, sealed records."""
        plain = b"".join([part for one in records for part in (_LENGTH.pack(len(one)), one)])
        nonce = random_bytes(_NONCE_LEN)
        sealed = nonce + self._cipher.encrypt(nonce, plain, _BOUND.pack(file_id, number))
        return _LENGTH.pack(len(sealed)) + sealed

    def unseal(self, file_id: bytes, number: int, sealed: bytes) -> list[bytes] | None:
        """The records of a frame; None if the bytes are not exactly that frame."""
        try:
            plain = self._cipher.decrypt(
                sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], _BOUND.pack(file_id, number)
            )
        except (InvalidTag, ValueError):
            return None
        records: list[bytes] = []
        at = 0
        while at < len(plain):
            (length,) = _LENGTH.unpack_from(plain, at)
            at += _LENGTH.size
            records.append(plain[at : at + length])
            at += length
        return records

    def header(self, file_id: bytes, frame_count: int) -> bytes:
        """The bytes of the file's header, which fill its first sector."""
        head = _HEAD.pack(_MAGIC, file_id, self.belongs_to, frame_count)
        return (head + self._mac(head)).ljust(SECTOR_LEN, b"\0")

    def read_header(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        """File id, owner and number of frames in a header; None if the header is invalid."""
        head, mac = data[: _HEAD.size], data[_HEAD.size : _HEADER_LEN]
        if len(data) < SECTOR_LEN or self._mac(head) != mac:
            return None
        magic, file_id, belongs_to, frame_count = _HEAD.unpack(head)
        return None if magic != _MAGIC else (file_id, belongs_to, frame_count)

    def _mac(self, head: bytes) -> bytes:
        return blake2b(head, digest_size=_MAC_LEN, key=self._mac_key).digest()


def derived(store_key: bytes, purpose: bytes) -> bytes:
    """A key derived from the store's key; each purpose has one of its own."""
    return blake2b(purpose, digest_size=32, key=store_key, person=b"mnemogate").digest()


def read_contents(path: Path, keys: FrameKeys) -> ValidFrames | None:
    """The content of a file up to the first frame that is wrong; None without a file.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    nothing = ValidFrames(b"", b"", (), 0, 0, whole=False)
    head = keys.read_header(data[:SECTOR_LEN])
    if head is None:
        return nothing
    file_id, belongs_to, promised = head
    if belongs_to != keys.belongs_to:
        # The file belongs to another incarnation of the store, so its history is not this store's.
        return nothing
    records: list[bytes] = []
    at, number = SECTOR_LEN, 0
    while at < len(data):
        start = at + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, at) if start <= len(data) else (0,)
        found = keys.unseal(file_id, number, data[start : start + length])
        if found is None or start + length > len(data):
            break
        records += found
        at, number = start + length, number + 1
    whole = at == len(data) and number >= promised
    return ValidFrames(file_id, belongs_to, tuple(records), number, at, whole)


def make(directory: Path, keys: FrameKeys, records: list[bytes]) -> tuple[bytes, int, int]:
    """Write a new file of records, whole or not at all; returns its id, frames and length.

    Raises:
        OSError: The file could not be put in place.
    """
    file_id = random_bytes(_FILE_ID_LEN)
    beside = directory / UNFINISHED
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        length, number = SECTOR_LEN, 0
        for portion in portions(records):
            frame = keys.seal(file_id, number, portion)
            write_all(handle, frame, length)
            length, number = length + len(frame), number + 1
        write_all(handle, keys.header(file_id, number), 0)
        os.fsync(handle)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    beside.replace(directory / NAME)
    fsync_directory(directory)
    return file_id, number, length


def portions(records: list[bytes]) -> list[list[bytes]]:
    """Records in groups that fit one frame each."""
    portions: list[list[bytes]] = []
    room = 0
    for record in records:
        size = len(record) + _LENGTH.size
        if size > room or not portions:
            portions.append([])
            room = FRAME_LEN_MAX
        portions[-1].append(record)
        room -= size
    return portions


def write_all(handle: int, data: bytes, at: int) -> None:
    """Write all bytes at a position; a short write is continued.

    Raises:
        OSError: Not all bytes were written.
    """
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written
