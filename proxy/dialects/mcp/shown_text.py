"""One text of an answer: what has to be looked up about it, and what remains of it.

A text is looked up among withheld memories as it stands. The look-up considers every reading that a
model may give it: a withheld memory that comes back inside JSON, or inside a link, is still that
memory.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHHELD: Final = "[withheld]"
_PARAGRAPHS = re.compile(r"(\n[^\S\n]*\n+)")
_LINES = re.compile(r"(\n)")

Known: TypeAlias = Mapping[str, bool]
"""What has been asked, and whether it is withheld."""


def asked(text: str) -> str:
    """The form in which a text is looked up among withheld texts; "" if no look-up is needed."""
    return "" if text == WITHHELD else text.encode("utf-8", "replace").decode("utf-8")


def is_withheld(text: str, known: Known) -> bool:
    """Whether the text is withheld. A text that was not looked up counts as shown."""
    return known.get(asked(text), False)


def asks(text: str, known: Known, *, whole: bool = False) -> Iterator[str]:
    """Yield what still has to be looked up of a text: first the whole text.

    If the whole is withheld, its lines and paragraphs are looked up one by one.
    """
    plain = asked(text)
    if plain and plain not in known:
        yield plain
    if not whole and "\n" in text and is_withheld(text, known):
        for part in (*_LINES.split(text), *_PARAGRAPHS.split(text)):
            plain = asked(part)
            if plain and plain not in known:
                yield plain


def cut(text: str, known: Known) -> str:
    """The text without its withheld lines, or without its withheld paragraphs, or none of it.

    What is left may still contain a withheld memory of several lines, so the caller looks it up
    again.
    """
    if not is_withheld(text, known):
        return text
    for separators in (_LINES, _PARAGRAPHS):
        parts = separators.split(text)
        kept = _kept(parts, known)
        if len(kept) < len(parts):
            return "".join(kept).strip("\n") or WITHHELD
    return WITHHELD


def read_blob(data: str) -> str | None:
    """The text that a base64 string encodes; None if it encodes no text."""
    try:
        raw = base64.b64decode(data, validate=True)
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            return raw.decode("utf-16")
        text = raw.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    # UTF-16 bytes read as UTF-8 have NULs: different readers would see different texts.
    return None if "\0" in text else text


def write_blob(text: str) -> str:
    """Encode a text as base64."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _kept(parts: list[str], known: Known) -> list[str]:
    """Parts of a text and their separators, without withheld parts and their separators."""
    kept: list[str] = []
    for index in range(0, len(parts), 2):
        if is_withheld(parts[index], known):
            continue
        if index:
            kept.append(parts[index - 1])
        kept.append(parts[index])
    return kept
