"""The sentence in a text whose words, or the letters of them, are set apart from each other.

A model reads "from=now=on", "from, now, on, always", "1. from 2. now" and "f/r/o/m" as the words
that they spell. Such marks are known by their regularity: the same stands between all of the words.
"""

from __future__ import annotations

import re
from typing import Final

_LETTER: Final = r"[^\W\d_]"
_WORD: Final = rf"{_LETTER}++(?:'{_LETTER}++)?+"
_MARKS: Final = r"[\W\d_]{1,8}+"
_NUMBER: Final = re.compile(r"[0-9]+")
_TRAILING: Final = re.compile(r"_+(?![^\W_])")
# Four letters or more with the same marks between all of them; between two words the marks stand
# twice.
_LETTERS: Final = re.compile(
    r"(?<![^\W_])[^\W_]([\W_]{1,4}+)[^\W_](?:\1(?:\s?\1)?[^\W_](?![^\W_])){2,}+"
)
# Four words or more with the same between all of them: marks and numbers, or a word between marks.
_WORDS: Final = re.compile(
    rf"(?<![^\W\d_]){_WORD}({_MARKS}{_LETTER}{{1,16}}+{_MARKS}|(?! {_LETTER}){_MARKS})"
    rf"(?={_LETTER})(?:{_WORD}\1(?={_LETTER})){{2,}}+{_WORD}"
)
# A cheap search for what the two patterns above may match in ASCII: marks, a single word, marks, a
# single word, marks. It begins where marks begin: from inside a run of them each would walk it.
_REGULAR: Final = re.compile(r"(?<![^a-z])[ ']*+[^a-z '](?:[^a-z]*+[a-z]++ ?[^a-z ']){2}")
# Marks between two letters, and marks that end no clause.
_GLUE: Final = re.compile(
    rf"[^\w\s'()\[\]{{}}](?<={_LETTER}.)[^\w\s'()\[\]{{}}]*+(?={_LETTER})"
    r"|[^\w\s'\".,;:!?()\[\]{}-]"
)
_SPACES: Final = re.compile(" {2,}")


def set_together(shape: str) -> str:
    """The text with one space for each separator between its words; `shape` is its skeleton.

    Separators are marks without white space beside them, and what recurs regularly. A sentence of
    ordinary prose stays as it is, with the marks that end its clauses.
    """
    if not shape.isascii() or _REGULAR.search(shape):
        shape = _NUMBER.sub("0", _TRAILING.sub("", shape))
        shape = _WORDS.sub(_spaced, _LETTERS.sub(_joined, shape))
    return _SPACES.sub(" ", _GLUE.sub(" ", shape.replace("_", "-")))


def _joined(found: re.Match[str]) -> str:
    mark = found[1]
    words = found[0].replace(f"{mark} {mark}", " ").replace(mark + mark, " ")
    return words.replace(mark, "")


def _spaced(found: re.Match[str]) -> str:
    return found[0].replace(found[1], " ")
