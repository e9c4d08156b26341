"""Tests for strings with no room for a sentence."""

from __future__ import annotations

import re
from typing import Final

LABEL_LEN_MAX: Final = 32
LABEL_WORDS_MAX: Final = 2

_WORDS: Final = re.compile(r"[^\W_]+")

ORDINARY_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,23}")
"""The name of a member of an object, as schemas use them."""


def is_short_label(text: str) -> bool:
    """Whether a string is so short that it can be a name, but no sentence."""
    return len(text) <= LABEL_LEN_MAX and "\n" not in text and len(text.split()) <= LABEL_WORDS_MAX
