"""Limits and patterns of strings that are too short to contain a sentence."""

from __future__ import annotations

import re
from typing import Final

LABEL_LEN_MAX: Final = 32
LABEL_WORDS_MAX: Final = 2

ORDINARY_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,23}")
"""Matches a name such as schemas give to the members of an object: one short identifier."""


def is_short_label(text: str) -> bool:
    """Whether a string is short, on one line, and of at most two words: a name, but no sentence."""
    return len(text) <= LABEL_LEN_MAX and "\n" not in text and len(text.split()) <= LABEL_WORDS_MAX
