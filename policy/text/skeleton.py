"""Skeletons of text, the form in which texts are compared, and what a person is shown of a text.

A skeleton is only for matching: what is hashed, judged and stored is the text as it came.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from policy.text.characters import BREAKS, FLAGS, is_assigned
from policy.text.confusables import ASCII_LOOKALIKES
from policy.text.unicode_table import NEWER

# Letters that are displayed as nothing: Hangul fillers and the Braille blank.
_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0\u2800"
# Tag characters, an invisible copy of ASCII: a person does not see it, and a model reads it.
_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
# Two signs whose compatibility form is a whole sentence of up to eighteen letters; they become
# their abbreviations instead. No other sign unfolds into more than seven, so a skeleton is never
# much longer than its text.
_SENTENCES = {0xFDFA: "\u0635\u0644\u0639\u0645", 0xFDFB: "\u062c\u0644"}
# NEL is a line end in the category of controls, which a skeleton drops.
_BEFORE = _TAGS | _SENTENCES | NEWER | {0x85: "\n"}
# Punctuation that means the same, folded to one form; quotation marks stay recognisable.
_PUNCTUATION = {
    ord(mark): plain
    for plain, marks in {
        "'": "\u2018\u2019\u201a\u2032",
        '"': "\u201c\u201d\u201e\u2033",
        "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
        ".": "\u3002",
    }.items()
    for mark in marks
}
_AFTER_CASE = ASCII_LOOKALIKES | _PUNCTUATION
_INVISIBLE_CATEGORIES = frozenset({"Cf", "Mn", "Me", "Cc", "Cs", "Co", "Cn"})
# Characters that a skeleton drops, and marks that it keeps: none of these begins a combined
# character.
_LEANING_CATEGORIES = _INVISIBLE_CATEGORIES | {"Mc"}

_FOREIGN = re.compile(r"[^\x00-\x7f]+")
# The cache holds quotation marks, accented letters and dashes, which occur again and again.
_KNOWN_MAX = 4_096
_KNOWN_LEN_MAX = 16
# A longer run of characters outside ASCII is normalised in pieces, because no other thread can run
# during one call of the normaliser.
_PIECE_LEN = 4_096
# How many combining marks on one letter are kept at most: sorting a pile of them takes the square
# of its height.
_PILE_MAX = 32

_SPACES = re.compile(r"[^\S\n]*\n\s*|[^\S\n]{2,}|[^\S\n ]")
# A cheap search for letters that may be spaced out: three in a row with a separator before each.
_SEPARATED = re.compile(r"[ .\-_*|/,:+~]\w[ .\-_*|/,:+~]\w[ .\-_*|/,:+~]\w")
# Four or more single characters with the same separator between them: "i g n o r e", "i.g.n".
_SPACED_OUT = re.compile(r"(?<![^\W_])[^\W_](?:([ .\-_*|/,:+~])[^\W_])(?:\1[^\W_]){2,}(?![^\W_])")


def skeleton(text: str) -> str:
    """The text with everything folded away that changes its look and not its words.

    Folded are compatibility forms, combining marks, invisible characters, letters that look like
    ASCII ones, case, runs of white space, and letters spaced out one by one. Idempotent on ASCII
    text.
    """
    if not text.isascii():
        # Only the runs outside ASCII are normalised: most of a long text is ASCII, and no kept mark
        # composes with an ASCII letter.
        text = _FOREIGN.sub(_folded, text)
    # Spaced-out letters are joined first, because the next step would lose the wider gaps between
    # their words.
    text = text.lower()
    if _SEPARATED.search(text):
        text = _SPACED_OUT.sub(_joined, text)
    if "  " in text or not text.isprintable():
        text = _SPACES.sub(_one_space, text)
        # The joining is done a second time: in "i g n o r e" neither half is long enough until the
        # gap between the halves is closed.
        if _SEPARATED.search(text):
            text = _SPACED_OUT.sub(_joined, text)
    return text.strip()


def _shows(char: str) -> bool:
    if char < "\x80":
        return True
    category = unicodedata.category(char)
    # A letter of a newer Unicode than the interpreter's own is shown like any other.
    drawn = category not in _INVISIBLE_CATEGORIES or (category == "Cn" and is_assigned(char))
    return drawn and char not in _BLANK_LETTERS


def _folded(found: re.Match[str]) -> str:
    run = found[0]
    if len(run) <= _KNOWN_LEN_MAX:
        return _fold_known(run)
    return _fold_run(run) if len(run) <= _PIECE_LEN else "".join(map(_fold_run, _pieces(run)))


def _pieces(run: str, length: int = _PIECE_LEN) -> Iterator[str]:
    """Cut a run of characters where the pieces can be normalised apart with the same result."""
    start = 0
    while len(run) - start > length:
        end = start + length
        while end < len(run) and not _begins(run[end]):
            end += 1
        yield run[start:end]
        start = end
    yield run[start:]


def _begins(char: str) -> bool:
    """Whether a cut before this character is safe: nothing before the cut can combine with it."""
    first = unicodedata.normalize("NFKD", char)[0]
    if first in _BLANK_LETTERS or unicodedata.category(first) in _LEANING_CATEGORIES:
        return False
    # The second and third letters of a Hangul syllable combine with the first, so no cut is made
    # before them.
    return not ("\u1160" <= first <= "\u11ff" or "\ud7b0" <= first <= "\ud7ff")


def unpiled(text: str) -> str:
    """The text with at most `_PILE_MAX` combining marks on each letter."""
    if len(text) <= _PILE_MAX:
        return text
    kept: list[str] = []
    height = 0
    for char in text:
        mark = unicodedata.combining(char) or unicodedata.category(char) == "Mn"
        height = height + 1 if mark else 0
        if height <= _PILE_MAX:
            kept.append(char)
    return "".join(kept)


def _fold_run(text: str) -> str:
    # Characters are decomposed before marks are dropped, so that a precomposed letter loses its
    # mark as well.
    shown = FLAGS.sub("\U0001f3f4", unpiled(text))
    decomposed = unicodedata.normalize("NFKD", shown.translate(_BEFORE))
    folded = "".join(filter(_shows, decomposed)).translate(ASCII_LOOKALIKES).casefold()
    return unicodedata.normalize("NFC", folded).translate(_AFTER_CASE)


_fold_known = lru_cache(maxsize=_KNOWN_MAX)(_fold_run)


def _one_space(found: re.Match[str]) -> str:
    return "\n" if BREAKS.search(found[0]) else " "


def _joined(found: re.Match[str]) -> str:
    return found[0].replace(found[1], "")


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
_SHOWN_PUNCTUATION: Final = frozenset(
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
    return (
        (char.isalpha() and char not in _UNDRAWN) or char.isdecimal() or char in _SHOWN_PUNCTUATION
    )


def escaped(char: str) -> str:
    """The escape by which a character that is not plain is displayed: its hexadecimal number."""
    return f"\\u{{{ord(char):x}}}"
