"""Directive and injection language, on the skeleton of a text."""

from __future__ import annotations

import enum
import re


class Language(enum.Flag):
    """What a text was found to speak."""

    PLAIN = 0
    DIRECTIVE = enum.auto()
    INJECTION = enum.auto()


_DIRECTIVE = re.compile(r"(?:^|[.!?;:\n] ?)(?:always|never) (?:recommend|suggest|use|tell)\b")
_INJECTION = re.compile(r"\b(?:ignore|disregard) (?:all |the |your )*(?:previous|prior|earlier) ")


def language_of(_text: str, shape: str) -> Language:
    """What a text speaks; `shape` is its skeleton."""
    found = Language.PLAIN
    if _DIRECTIVE.search(shape):
        found |= Language.DIRECTIVE
    if _INJECTION.search(shape):
        found |= Language.INJECTION
    return found
