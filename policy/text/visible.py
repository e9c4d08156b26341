"""A text as a person may be shown it: what is invisible is named."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp", "Cs"})


def is_hidden(char: str) -> bool:
    """Whether a character is shown by nothing, or moves what stands beside it."""
    return char not in "\n\t" and unicodedata.category(char) in _HIDDEN


def named(char: str) -> str:
    """The number of a character, for display."""
    return f"U+{ord(char):04X}"
