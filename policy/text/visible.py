"""A text as it may be shown to a person: invisible characters are shown by their numbers."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp", "Cs"})
# Letters, marks and signs for which nothing is drawn: fillers, joiners, the blank of Braille, a
# note without a head, and variation selectors; a row of variation selectors can spell a text that
# only a model reads.
_UNDRAWN: Final = frozenset(
    (
        *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0",
        *"\U00016fe4\U0001d159",
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    )
)


def is_hidden(char: str) -> bool:
    """Whether a character is drawn as nothing, or moves the characters beside it."""
    if char in "\n\t":
        return False
    return char in _UNDRAWN or unicodedata.category(char) in _HIDDEN


def named(char: str) -> str:
    """The number of a character, in the form that is displayed in its place."""
    return f"U+{ord(char):04X}"
