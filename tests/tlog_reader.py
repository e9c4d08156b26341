"""A reader of tiled logs, written from the C2SP specifications: it knows no part of the product.

[tlog-tiles](https://c2sp.org/tlog-tiles), [tlog-checkpoint](https://c2sp.org/tlog-checkpoint),
[signed-note](https://c2sp.org/signed-note), [tlog-cosignature](https://c2sp.org/tlog-cosignature),
RFC 6962 section 2.1.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LOG, COSIGNER = 1, 4
FULL = 256


class Unsound(Exception):  # noqa: N818 - what a reader finds
    """What the directory of a log shows is not what its key signed."""


class Head(NamedTuple):
    origin: str
    size: int
    root: bytes
    text: str
    signatures: list[tuple[str, bytes]]


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + entry).digest()


def mth(hashes: Sequence[bytes]) -> bytes:
    """The Merkle tree hash over subtrees of one size, of which only the last may be smaller."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while 2 * k < len(hashes):
        k *= 2
    return hashlib.sha256(b"\x01" + mth(hashes[:k]) + mth(hashes[k:])).digest()


def head_of(note: bytes) -> Head:
    """The parts of a note, unverified."""
    text, _, lines = note.decode().rpartition("\n\n")
    origin, size, root, *_ = text.split("\n")
    signatures = list[tuple[str, bytes]]()
    for line in lines.splitlines():
        mark, name, encoded = line.split(" ")
        assert mark == "\N{EM DASH}"
        signatures.append((name, base64.b64decode(encoded, validate=True)))
    return Head(origin, int(size), base64.b64decode(root), f"{text}\n", signatures)


def opened(vkey: str, kind: int) -> tuple[str, bytes, Ed25519PublicKey]:
    """Name, key id and key of a verifier key in its text form."""
    name, hashed, encoded = vkey.split("+", 2)
    raw = base64.b64decode(encoded)
    assert raw[0] == kind, f"a key of type {raw[0]}"
    key_id = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
    assert key_id.hex() == hashed
    return name, key_id, Ed25519PublicKey.from_public_bytes(raw[1:])


def verified_head(note: bytes, vkey: str) -> Head:
    """The head that the log's key signed, or `InvalidSignature`."""
    head = head_of(note)
    name, key_id, key = opened(vkey, LOG)
    signed = [one[4:] for who, one in head.signatures if (who, one[:4]) == (name, key_id)]
    if not signed or head.origin != name:
        raise Unsound("the log's key did not sign this")
    for one in signed:
        key.verify(one, head.text.encode())
    return head


def cosigned_at(note: bytes, vkey: str) -> int:
    """The time at which a witness cosigned a head, or `InvalidSignature`."""
    head = head_of(note)
    name, key_id, key = opened(vkey, COSIGNER)
    for who, signature in head.signatures:
        if (who, signature[:4]) == (name, key_id):
            at_s = int.from_bytes(signature[4:12], "big")
            key.verify(signature[12:], f"cosignature/v1\ntime {at_s}\n{head.text}".encode())
            return at_s
    raise Unsound("this witness did not cosign it")


def path_of(level: str, index: int, width: int) -> str:
    """`tile/<L>/<N>[.p/<W>]`."""
    groups = [f"{index % 1000:03}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03}")
    return f"tile/{level}/{'/'.join(groups)}" + (f".p/{width}" if width < FULL else "")


def _tile(root: Path, level: str, index: int, width: int) -> bytes:
    """The bytes of a tile; of a part, those of the full tile where the part is gone."""
    try:
        return (root / path_of(level, index, width)).read_bytes()
    except FileNotFoundError:
        return (root / path_of(level, index, FULL)).read_bytes()


def hashes_of(root: Path, level: int, count: int) -> list[bytes]:
    """The first `count` hashes of a level, out of its tiles."""
    found: list[bytes] = []
    for index in range(-(-count // FULL)):
        width = min(FULL, count - index * FULL)
        data = _tile(root, str(level), index, width)
        if len(data) % 32 or len(data) < 32 * width:
            raise Unsound(f"tile {level}/{index} is cut")
        found += [data[32 * at : 32 * at + 32] for at in range(width)]
    return found


def entries_of(root: Path, size: int) -> list[bytes]:
    """The entries of the log, out of its bundles."""
    found: list[bytes] = []
    for index in range(-(-size // FULL)):
        width = min(FULL, size - index * FULL)
        data, at = _tile(root, "entries", index, width), 0
        for _ in range(width):
            length = int.from_bytes(data[at : at + 2], "big")
            if len(data) < at + 2 + length:
                raise Unsound(f"bundle {index} is cut")
            found.append(data[at + 2 : at + 2 + length])
            at += 2 + length
    return found


def check_hashes(root: Path, size: int, signed: bytes) -> list[bytes]:
    """The leaf hashes of a log whose every tile was checked, and that have the signed root."""
    level, lower, below = 0, hashes_of(root, 0, size), list[bytes]()
    leaves = lower
    while size >> 8 * level:
        if level:
            below, lower = lower, hashes_of(root, level, size >> 8 * level)
            if lower != [mth(below[at * FULL : (at + 1) * FULL]) for at in range(len(lower))]:
                raise Unsound(f"a tile of level {level} has other hashes than the tiles below it")
        level += 1
    if mth(leaves) != signed:
        raise Unsound("the leaf hashes do not have the signed root")
    return leaves


def check_public(root: Path, vkey: str) -> Head:
    """The verified head of a directory without entries."""
    head = verified_head((root / "checkpoint").read_bytes(), vkey)
    check_hashes(root, head.size, head.root)
    return head


def check_whole(root: Path, vkey: str) -> tuple[Head, list[bytes]]:
    """The verified head and entries of a directory: recomputed from the entries alone."""
    head = verified_head((root / "checkpoint").read_bytes(), vkey)
    entries = entries_of(root, head.size)
    if list(map(leaf_hash, entries)) != check_hashes(root, head.size, head.root):
        raise Unsound("an entry has another hash than its tile has")
    return head, entries


def is_consistent(old: int, size: int, proof: list[bytes], before: bytes, after: bytes) -> bool:
    """RFC 9162 2.1.4.2, word for word."""
    if old == size:
        return not proof and before == after
    if old == 0:
        return not proof
    if not proof:
        return False
    path = [before, *proof] if old & (old - 1) == 0 else list(proof)
    fn, sn = old - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr = hashlib.sha256(b"\x01" + c + fr).digest()
            sr = hashlib.sha256(b"\x01" + c + sr).digest()
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = hashlib.sha256(b"\x01" + sr + c).digest()
        fn, sn = fn >> 1, sn >> 1
    return fr == before and sr == after and sn == 0
