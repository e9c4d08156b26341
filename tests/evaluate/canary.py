"""Searches a directory's bytes for a text: plain, UTF-16, base64, hex, and compressed.

The searched text is a random word, the canary, that was put into an attack. As a control, the same
search must find the canary of an admitted memory.
"""

from __future__ import annotations

import base64
import contextlib
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

# The beginnings of compressed data: zlib headers of every level, and gzip members.
_COMPRESSED = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_PLAIN = re.compile(rb"cnry[0-9a-f]{22}")
_HEX = re.compile(rb"[0-9a-fA-F]{52,}")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{32,}")
_INFLATED_LEN_MAX = 1 << 22
_GZIP_FIRST_BYTE = 0x1F


def new_canary(draws: Random | None = None) -> str:
    """A word that occurs nowhere else: 26 letters and digits."""
    return "cnry" + (secrets.token_hex(11) if draws is None else f"{draws.getrandbits(88):022x}")


def disguises(canary: str) -> dict[str, bytes]:
    """The byte strings in which a canary could stand in a file, compressed forms excepted."""
    raw = canary.encode()
    found = {
        "plain": raw,
        "utf-16-le": canary.encode("utf-16-le"),
        "utf-16-be": canary.encode("utf-16-be"),
        "hex": raw.hex().encode(),
        "reversed": raw[::-1],
    }
    for shift in range(3):
        # Base64 of a text depends on where it starts modulo 3; the edges are cut off because
        # their characters also depend on the neighbours.
        encoded = base64.b64encode(b"\0" * shift + raw + b"\0" * 3)
        found[f"base64+{shift}"] = encoded[4 if shift else 0 : 4 * ((shift + len(raw)) // 3)]
    return found


def inflated(data: bytes) -> Iterator[bytes]:
    """The decompressed content of every compressed part of some bytes."""
    for match in _COMPRESSED.finditer(data):
        window = 31 if data[match.start()] == _GZIP_FIRST_BYTE else 15
        try:
            yield zlib.decompressobj(window).decompress(data[match.start() :], _INFLATED_LEN_MAX)
        except zlib.error:
            continue


def traces_in(data: bytes, canary: str) -> list[str]:
    """The names of the encodings in which a canary occurs in some bytes."""
    names = [name for name, needle in disguises(canary).items() if needle in data]
    if any(canary.encode() in inner for inner in inflated(data)):
        names.append("compressed")
    return names


def traces(directory: Path, canary: str) -> list[str]:
    """Where a canary occurs in the files below a directory, as `file: encoding` for each place."""
    while True:
        try:
            return [
                f"{path.relative_to(directory)}: {name}"
                for path in files_below(directory)
                for name in traces_in(path.read_bytes(), canary)
            ]
        except FileNotFoundError:
            # A running sidecar replaced the file meanwhile, so the new one is searched.
            continue


def files_below(directory: Path) -> list[Path]:
    """Every file below the given paths, in a fixed order."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def canaries_in(data: bytes) -> frozenset[str]:
    """Every canary found in some bytes, in any form of `disguises`, or compressed."""
    found: set[str] = set()
    for piece in (data, *inflated(data)):
        found |= _plain_in(piece)
        found |= _plain_in(piece[::-1])
        for start in (0, 1):
            # In UTF-16 every second byte of ASCII is zero; the others are the text.
            found |= _plain_in(piece[start::2])
        for run in _HEX.findall(piece):
            found |= _plain_in(bytes.fromhex(run[: len(run) // 2 * 2].decode()))
            found |= _plain_in(bytes.fromhex(run[1 : 1 + (len(run) - 1) // 2 * 2].decode()))
        for run in _BASE64.findall(piece):
            for start in range(4):
                cut = run[start : start + (len(run) - start) // 4 * 4]
                found |= _plain_in(base64.b64decode(cut))
    return frozenset(found)


def _plain_in(data: bytes) -> set[str]:
    return {one.decode() for one in _PLAIN.findall(data)}


def found_in(files: Iterable[Path], canaries: Iterable[str]) -> frozenset[str]:
    """The canaries of which any form stands in any of the files; each file is read once."""
    found: set[str] = set()
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            found |= canaries_in(path.read_bytes())
    return frozenset(found & set(canaries))
