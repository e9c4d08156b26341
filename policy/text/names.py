"""The names that a text mentions, as the drift alarm counts them.

A name is a word with a capital letter. One capital word alone at the start of a sentence may be any
word, and is told apart. What everybody writes with a capital (`policy.text.common_words`) is no
name. Which of the rest the persons of a tenant say themselves is the store's to know
(`storage.write.cells`): that a text writes a word in lower case shows nothing about the word,
because the author of a text may have been told what to write.

Words are read in every reading of a text (`policy.text.readings`) and known by their skeleton, so
that marks or blanks inside a name, escapes and letters that look alike are the same name.

Only scripts with capitals have names in this sense: see `COVERED` and `NOT_COVERED`.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from policy.text.common_words import COMMON, CONTRACTED, GERMAN, NEGATED
from policy.text.readings import readings_of, unbroken
from policy.text.skeleton import case_kept, skeleton

if TYPE_CHECKING:
    from collections.abc import Iterator

COVERED: Final = ("Latin", "Greek", "Cyrillic", "Armenian", "Georgian (Mtavruli)", "Cherokee")
"""Scripts with capitals."""
NOT_COVERED: Final = ("Arabic", "Devanagari", "Han", "Hangul", "Hebrew", "Kana", "Thai")
"""Scripts without capitals, of those most written: a name in one of them is not seen."""
MIXED_ONLY: Final = ("German",)
"""Languages in which each noun has a capital: only a capital inside a word makes a name."""

NAMES_MAX: Final = 256
"""The names of a text that are counted one by one."""
CROWD: Final = f"more than {NAMES_MAX} names"
"""What a text with more names mentions in their place. No word of a text has blanks."""
_LETTERS_MIN: Final = 3
_HEAD_LETTERS_MIN: Final = 5
# A word ends at a hyphen or an underscore: "Acme-based" mentions Acme.
_WORD: Final = re.compile(r"[^\W\d_][^\W_]*(?:['\u2019][^\W_]+)*")
# The pattern begins with one of a few characters, so that a search skips all others quickly.
_SENTENCE_END: Final = re.compile(r"[.!?\u2026\n](?:(?<=\n)|\s)\s*")
# Signs that a text decoded in another way may have other words: escapes, tags, marks of emphasis,
# an address or blob, letters spaced out, a word divided at a line end.
_OTHERWISE: Final = re.compile(
    r"[\\%&<*_`~=\x1b]|[^\x00-\x7f]|[A-Za-z0-9+/-]{16}"
    r"|[0-9A-Fa-f]{2}[\s:,]{1,4}(?:0x)?[0-9A-Fa-f]{2}\b"
    r"|[.\-|,/:+ ]\w[.\-|,/:+ ]\w[.\-|,/:+ ]\w|-[ \t]*\r?\n"
)
_GERMAN_MIN: Final = 2


class Mentioned(msgspec.Struct, frozen=True):
    """The words of one text by how they stand in it, each as its skeleton.

    `inner` have a capital where none is due, in any reading; `first` have one only where they stand
    alone at the start of a sentence; `lower` are in lower case wherever they stand. No word is in
    two of them.
    """

    inner: frozenset[str]
    first: frozenset[str]
    lower: frozenset[str]

    @property
    def capital(self) -> frozenset[str]:
        """The words that may be names: those with a capital."""
        return self.inner | self.first

    @property
    def every(self) -> frozenset[str]:
        """All words of the text: a known name counts in lower case as well."""
        return self.inner | self.first | self.lower


def mentioned_in(text: str, *, with_lower: bool = True) -> Mentioned:
    """The words of a text that may be names, and those that it writes in lower case.

    Among more names than anybody looks up one by one a text could hide one, so such a text mentions
    `CROWD` instead, and its names stand with the words in lower case.

    Without `with_lower` the latter are not sorted out, which is most of the work: nobody asks for
    them where no name is under alarm.
    """
    inner: set[str] = set()
    first: set[str] = set()
    lower: set[str] = set()
    # Most readings have most sentences in common, so each distinct sentence is read once.
    sentences = dict.fromkeys(chain.from_iterable(map(_SENTENCE_END.split, _readings(text))))
    for sentence in sentences:
        if not with_lower and sentence == sentence.lower():
            continue
        _sort(_WORD.findall(sentence), inner, first, lower if with_lower else None)
    first -= inner
    if len(inner) + len(first) > NAMES_MAX:
        inner, first, lower = {CROWD}, set(), lower | inner | first
    return Mentioned(frozenset(inner), frozenset(first), frozenset(lower - inner - first))


def _readings(text: str) -> Iterator[str]:
    """Every reading of a text, without its invisible characters; capitals stay."""
    if _OTHERWISE.search(text) is None:
        yield text
        return
    for reading in readings_of(text):
        seen = case_kept(reading)
        yield seen
        yield unbroken(seen)


def _sort(words: list[str], inner: set[str], first: set[str], lower: set[str] | None) -> None:
    german = len(GERMAN.intersection(words)) >= _GERMAN_MIN
    for place, word in enumerate(words):
        small = word.lower()
        # Most words are in lower case and of every day.
        if small in COMMON or (lower is None and small == word):
            continue
        plain = _plain(word)
        if len(plain) < _LETTERS_MIN or plain in COMMON:
            continue
        mixed = word[1:] != small[1:]
        # A German noun has a capital and may still be a name: it counts if the name is already
        # known.
        if small == word or (german and not mixed):
            found = lower
        else:
            found = inner if place or _begins_a_run(words) else first
        if found is None:
            continue
        found.add(plain)
        if mixed or not word.isalpha():
            head = _plain(_head_of(word))
            if head and head not in COMMON:
                found.add(head)


def _head_of(word: str) -> str:
    """The name before what was put behind it: of "AcmetecPro" or "Acmetec2" it is "Acmetec".

    "" for a word without such an end, and for a head of few letters: "JavaScript" has none.
    """
    end = next((at for at in range(1, len(word)) if not word[at].islower()), len(word))
    head = word[:end] if end > 1 else word.rstrip("0123456789")
    return head if _HEAD_LETTERS_MIN <= len(head) < len(word) else ""


def _begins_a_run(words: list[str]) -> bool:
    """Whether the second word has a capital too, so that both are a name: "Acme Cloud is down"."""
    if len(words) < 2:  # noqa: PLR2004 - a run is two words
        return False
    second = words[1]
    return second[:1].isupper() and second.lower() not in COMMON


def _plain(word: str) -> str:
    # A word of plain ASCII letters has no ending such as "'s" to be taken off.
    if word.isalpha() and word.isascii():
        return word.lower()
    # The skeleton is made of the word as it came: capitals of two scripts may look alike where
    # their small letters do not.
    word = _without_ending(word)
    return word.lower() if word.isascii() else skeleton(word)


def _without_ending(word: str) -> str:
    """A word without "'s", "'ll" and the like behind it; "" for a negated verb as "don't"."""
    found = CONTRACTED.search(word)
    if found is None:
        return word
    stem = word[: found.start()]
    return "" if found[0][1:] in {"t", "T"} and stem.lower() in NEGATED else stem
