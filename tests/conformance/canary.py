"""Looks for a text in every byte of a directory: plain, UTF-16, base64, hex, and compressed.

The same search must find the canary of an admitted memory, or its silence would mean nothing.
"""

from __future__ import annotations

import base64
import re
import secrets
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# zlib headers of every level with the usual window, raw gzip members.
_COMPRESSED = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_INFLATED_LEN_MAX = 1 << 22


def new_canary() -> str:
    """A word that occurs nowhere else: 26 letters and digits."""
    return "cnry" + secrets.token_hex(11)


def disguises(canary: str) -> dict[str, bytes]:
    """The byte strings a canary could hide as, without compression."""
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


def _inflated(data: bytes) -> Iterator[bytes]:
    for match in _COMPRESSED.finditer(data):
        window = 31 if data[match.start()] == 0x1F else 15
        try:
            yield zlib.decompressobj(window).decompress(data[match.start() :], _INFLATED_LEN_MAX)
        except zlib.error:
            continue


def traces_in(data: bytes, canary: str) -> list[str]:
    """The disguises under which a canary occurs in some bytes."""
    names = [name for name, needle in disguises(canary).items() if needle in data]
    if any(canary.encode() in inner for inner in _inflated(data)):
        names.append("compressed")
    return names


def traces(directory: Path, canary: str) -> list[str]:
    """`file: disguise` for every occurrence in every file below a directory."""
    return [
        f"{path.relative_to(directory)}: {name}"
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        for name in traces_in(path.read_bytes(), canary)
    ]
