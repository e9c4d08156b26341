"""Finds the sidecar's own credential in what a memory server answers, however it is spelled."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

# A shorter value of a header, such as a media type, is no secret, and stands in many answers.
SECRET_LEN_MIN: Final = 16
_ESCAPED: Final = re.compile(rb'\\(?:u00([0-9A-Fa-f]{2})|([/"\\]))')
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
# How many bytes may stand before the secret in a group of three, and how many characters of base64
# depend on them.
_SHIFTS: Final = ((0, 0), (1, 2), (2, 3))


class ToldCredential:
    """The spellings of a credential: searched for in bytes, made once."""

    def __init__(self, values: Iterable[str]) -> None:
        """`values` are those of the headers that the sidecar sends."""
        secrets = frozenset(one for value in values for one in _secrets(value))
        self._needles = (*secrets, *{core for one in secrets for core in _cores(one)})

    def is_in(self, text: bytes) -> bool:
        """Whether the credential stands in a text: plain, in base64, or escaped in JSON or URLs."""
        needles = self._needles
        return bool(needles) and any(one in text for text in _readings(text) for one in needles)


def _secrets(value: str) -> Iterator[bytes]:
    """A header's value, the credential behind its scheme, and what `Basic` has in base64."""
    behind = value.rpartition(" ")[2]
    found = [value.encode(), behind.encode()]
    if value.lower().startswith("basic "):
        try:
            pair = b64decode(behind, validate=True)
        except (binascii.Error, ValueError):
            pair = b""
        found += (pair, pair.partition(b":")[2])
    yield from (one for one in found if len(one) >= SECRET_LEN_MIN)


def _cores(secret: bytes) -> Iterator[bytes]:
    """What base64 of any text has in it in which the secret stands: one of three, by its place."""
    for shift, depend in _SHIFTS:
        encoded = b64encode(bytes(shift) + secret)
        core = encoded[depend : (shift + len(secret)) * 8 // 6]
        yield from (core, core.translate(_URL_SAFE))


def _readings(text: bytes) -> Iterator[bytes]:
    yield text
    if b"\\" in text:
        text = _ESCAPED.sub(_plain, text)
        yield text
    if b"%" in text:
        yield unquote_to_bytes(text)


def _plain(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)]) if found[1] else found[2]
