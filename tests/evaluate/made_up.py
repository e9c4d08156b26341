"""Things that are called by made-up words, so that no sentence about one speaks of another."""

from __future__ import annotations

from typing import Final

_SYLLABLES: Final = tuple(first + last for first in "bdfgklmnprstvz" for last in "aeiou")
_SYLLABLES_LEN: Final = 3
_WORDS: Final = 3


def subject(number: int) -> str:
    """The three words that thing number `number` is called by; no two things share a word."""
    return " ".join(_word(_WORDS * number + at) for at in range(_WORDS))


def number_of(number: int) -> int:
    """A number to say of a thing."""
    return 100 + number % 899


def _word(number: int) -> str:
    # The factor has no divisor in common with the count of all words, so neighbours differ early.
    left = number * 104_729 % len(_SYLLABLES) ** _SYLLABLES_LEN
    found = ""
    for _ in range(_SYLLABLES_LEN):
        left, at = divmod(left, len(_SYLLABLES))
        found += _SYLLABLES[at]
    return found
