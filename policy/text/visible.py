"""A text as a person may be shown it: what is invisible is named."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp", "Cs"})
# Letters, marks and signs that nothing is drawn for: fillers, joiners, the blank of Braille, and
# variation selectors, of which a row spells any text that only a model reads.
_UNDRAWN: Final = frozenset(
    (
        *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0",
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    )
)


def is_hidden(char: str) -> bool:
    """Whether a character is shown by nothing, or moves what stands beside it."""
    if char in "\n\t":
        return False
    return char in _UNDRAWN or unicodedata.category(char) in _HIDDEN


def named(char: str) -> str:
    """The number of a character, for display."""
    return f"U+{ord(char):04X}"
