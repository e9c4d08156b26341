"""The names that a text mentions, as the drift alarm counts them.

A name is a word with a capital letter that the text does not also write in lower case. One capital
word alone at the start of a sentence may be any word, so it is returned apart from the others.
Words that everybody writes with a capital (`policy.text.common_words`) are no names. Which of the
other words the tenant's own texts write in lower case the store knows (`storage.write.cells`).

Only scripts with capitals have names in this sense: see `COVERED` and `NOT_COVERED`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import msgspec

from policy.text.common_words import COMMON, CONTRACTED, GERMAN
from policy.text.skeleton import skeleton

COVERED: Final = ("Latin", "Greek", "Cyrillic", "Armenian", "Georgian (Mtavruli)", "Cherokee")
"""Scripts with capitals."""
NOT_COVERED: Final = ("Arabic", "Devanagari", "Han", "Hangul", "Hebrew", "Kana", "Thai")
"""Scripts without capitals, of those most written: a name in one of them is not seen."""
MIXED_ONLY: Final = ("German",)
"""Languages in which each noun has a capital: only a capital inside a word makes a name."""

_LETTERS_MIN: Final = 3
# A word ends at a hyphen or an underscore: "Acme-based" mentions Acme.
_WORD: Final = re.compile(r"[^\W\d_][^\W_]*(?:['\u2019][^\W_]+)*")
# The pattern begins with one of a few characters, so that a search skips all others quickly.
_SENTENCE_END: Final = re.compile(r"[.!?:;\u2026\n](?:(?<=\n)|\s)\s*")
# Addresses are written in lower case even where they contain a name: a host, a link, a mailbox, a
# handle.
_ADDRESS: Final = re.compile(r"://|@|[^\W_][./][^\W_]")
_UNSEEN: Final = frozenset({"Cf", "Mn", "Me"})
_GERMAN_MIN: Final = 2


class Mentioned(msgspec.Struct, frozen=True):
    """The words of one text, sorted by where and how they are written; each as its skeleton.

    `inner` have a capital where none is due; `first` stand alone at the start of a sentence;
    `lower` are in lower case somewhere in the text, and `linked` only within an address, which
    shows nothing about a word. No word is in two of the first three.
    """

    inner: frozenset[str]
    first: frozenset[str]
    lower: frozenset[str]
    linked: frozenset[str] = frozenset()

    @property
    def capital(self) -> frozenset[str]:
        """The words that may be names: those with a capital."""
        return self.inner | self.first

    @property
    def every(self) -> frozenset[str]:
        """All words: a name that is known already is a name in lower case as well."""
        return self.inner | self.first | self.lower | self.linked


def mentioned_in(text: str) -> Mentioned:
    """The words of a text that may be names, and those that the text shows to be none."""
    inner: set[str] = set()
    first: set[str] = set()
    lower: set[str] = set()
    linked: set[str] = set()
    for sentence in _SENTENCE_END.split(_as_seen(text)):
        words = _WORD.findall(sentence)
        _sort(words, inner, first, lower, linked, _outside(sentence))
    inner -= lower
    return Mentioned(
        frozenset(inner), frozenset(first - lower - inner), frozenset(lower), frozenset(linked)
    )


def _outside(sentence: str) -> frozenset[str] | None:
    """The words of a sentence outside of its addresses; None where it has no address."""
    if _ADDRESS.search(sentence) is None:
        return None
    pieces = (piece for piece in sentence.split() if _ADDRESS.search(piece) is None)
    return frozenset(_WORD.findall(" ".join(pieces)))


def _as_seen(text: str) -> str:
    """The text without invisible characters between letters; its capitals stay."""
    if text.isascii():
        return text
    seen = unicodedata.normalize("NFKC", text)
    return "".join(sign for sign in seen if unicodedata.category(sign) not in _UNSEEN)


def _sort(
    words: list[str],
    inner: set[str],
    first: set[str],
    lower: set[str],
    linked: set[str],
    outside: frozenset[str] | None,
) -> None:
    german = sum(map(GERMAN.__contains__, words)) >= _GERMAN_MIN
    for place, word in enumerate(words):
        small = word.lower()
        if small == word:
            if len(word) >= _LETTERS_MIN and word not in COMMON:
                known = outside is None or word in outside
                (lower if known else linked).add(_plain(small))
            continue
        plain = _plain(small)
        if len(plain) < _LETTERS_MIN or plain in COMMON or CONTRACTED.search(plain):
            continue
        mixed = word[1:] != small[1:]
        if german and not mixed:
            continue
        if place or _begins_a_run(words):
            inner.add(plain)
        else:
            first.add(plain)


def _begins_a_run(words: list[str]) -> bool:
    """Whether the word after the first has a capital of its own: "Acme Cloud is down"."""
    if len(words) < 2:  # noqa: PLR2004 - a run is two words
        return False
    second = words[1]
    return second[:1].isupper() and second.lower() not in COMMON


def _plain(small: str) -> str:
    """The skeleton of a word that is in lower case, without a possessive "'s"."""
    if small.endswith("s"):
        for ending in ("'s", "\u2019s"):
            small = small.removesuffix(ending)
    return small if small.isascii() else skeleton(small)
