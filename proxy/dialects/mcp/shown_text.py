"""Decides which parts of one text of an answer are looked up, and removes withheld parts.

A text is looked up as a whole. If the whole is withheld, the text's lines and sentences are looked
up, and only the withheld ones are removed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from policy.withheld.pieces import runs_of

WITHHELD: Final = "[withheld]"
# Matches a line of which all words were removed, with a NUL in their place.
_EMPTY: Final = re.compile(r"(?m)^[^\w\n]*\0[^\w\n]*(?:\n|\Z)")

Known: TypeAlias = Mapping[str, bool]
"""A mapping of each text that was looked up to whether the text is withheld."""


def asked(text: str) -> str:
    """The form in which a text is looked up among withheld texts; "" if no look-up is needed."""
    return "" if text == WITHHELD else text.encode("utf-8", "replace").decode("utf-8")


def is_withheld(text: str, known: Known) -> bool:
    """Whether the text is withheld. A text that was not looked up counts as not withheld."""
    return known.get(asked(text), False)


def asks(text: str, known: Known, *, whole: bool = False) -> list[str]:
    """The parts of a text that still have to be looked up: first the whole text.

    If the whole text is withheld, its lines and sentences follow, then several adjacent ones at
    once. With `whole`, only the whole text is looked up.
    """
    plain = asked(text)
    found = [plain] if plain and plain not in known else []
    if whole or not known.get(plain, False):
        return found
    for runs in runs_of(text):
        unknown = [one for run in runs if (one := asked(run)) and one not in known]
        if unknown or any(is_withheld(run, known) for run in runs):
            return found + unknown
    return found


def cut(text: str, known: Known) -> str:
    """The text without its withheld lines and sentences; `[withheld]` if nothing can be shown.

    The rest may still contain a withheld memory, so the caller has to look up the rest again.
    """
    if not is_withheld(text, known):
        return text
    for runs in runs_of(text):
        gone = [span for run, spans in runs.items() if is_withheld(run, known) for span in spans]
        if gone:
            return _EMPTY.sub("", _without(text, gone)).replace("\0", "").strip("\n") or WITHHELD
    return WITHHELD


def _without(text: str, gone: list[tuple[int, int]]) -> str:
    """The text with a NUL in place of each span of `gone`; spans may overlap."""
    left: list[str] = []
    at = 0
    for start, end in sorted(gone):
        if start >= at:
            left += (text[at:start], "\0")
        at = max(at, end)
    return "".join((*left, text[at:]))


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
