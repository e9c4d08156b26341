"""How a candidate is encrypted: AES-256-GCM under a key of its own, bound to its name."""

from __future__ import annotations

import struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from storage.ground.randomness import random_bytes
from storage.values import StagedContents

KEY_LEN: Final = 32
PAD_LEN: Final = 256
_NONCE_LEN: Final = 12
_LENGTHS: Final = struct.Struct(">II")


def new_key() -> bytes:
    """A new random key."""
    return random_bytes(KEY_LEN)


def seal(key: bytes, name: bytes, data: bytes) -> bytes:
    """Encrypt `data`; it can be decrypted under that key and name only. Any thread."""
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
    """Two values joined to one, padded to a multiple of 256 bytes, which hides their length."""
    head = _LENGTHS.pack(len(contents.canonical), len(contents.evidence))
    said = b"".join((head, contents.canonical, contents.evidence))
    return said + bytes(-len(said) % PAD_LEN)


def unpacked(data: bytes) -> StagedContents:
    """The two values that `packed` joined. `data` must have been authenticated."""
    canonical_len, evidence_len = _LENGTHS.unpack_from(data)
    middle = _LENGTHS.size + canonical_len
    return StagedContents(
        canonical=data[_LENGTHS.size : middle], evidence=data[middle : middle + evidence_len]
    )
