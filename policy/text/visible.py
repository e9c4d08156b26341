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

# Quotation marks, dashes and signs that are typed in ordinary texts.
_PUNCTUATION: Final = frozenset(
    "\u2018\u2019\u201a\u201c\u201d\u201e\xab\xbb\u2013\u2014\u2026\xa7\xb0\xb7\u20ac\xa3\xbf\xa1"
)


def is_hidden(char: str) -> bool:
    """Whether a character is drawn as nothing, or moves the characters beside it."""
    if char in "\n\t":
        return False
    return char in _UNDRAWN or unicodedata.category(char) in _HIDDEN


def is_plain(char: str) -> bool:
    """Whether a person sees a character as it is: a letter, a digit, a blank, plain punctuation."""
    if char.isascii():
        return char in "\n\t" or char.isprintable()
    return (char.isalpha() and char not in _UNDRAWN) or char.isdecimal() or char in _PUNCTUATION


def escaped(char: str) -> str:
    """A character by its number, as it is displayed where it is not plain."""
    return f"\\u{{{ord(char):x}}}"
