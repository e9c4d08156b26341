"""Whether a text was seen before: prints of texts, and an index that finds whose copy it is.

Only lowers a label or names a culprit (design section 5): what is not found proves nothing. Prints
are made of the skeleton, word by word, so that case, look-alike and invisible letters, wrapping and
the order of sentences do not matter. They are winnowed (Schleimer, Wilkerson and Aiken, 2003): of
every `WINDOW` neighbouring shingles the least is kept, so that any run of `SHINGLE + WINDOW - 1`
words that two texts share leaves a print in both.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections import Counter
from itertools import chain
from typing import Final, NamedTuple

from policy.skeleton import skeleton

SHINGLE: Final = 3
WINDOW: Final = 3
WORDS_MAX: Final = 20_000
"""More of one text is not looked at."""

# Scripts that are written without spaces: every letter counts as a word.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WORD: Final = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
# What hardly two texts have in common by accident: addresses, and names with digits in them.
_MARK: Final = re.compile(
    r"[a-z0-9][\w-]*(?:\.[\w-]+)*@[\w-]+(?:\.[\w-]+)+"
    r"|(?:[a-z0-9][a-z0-9-]*\.)+[a-z]{2,}(?:[/:][^\s\"'<>)\]]*)?"
    r"|(?=[\w-]*[0-9])[a-z0-9][\w-]{3,}"
)
_MARKED: Final = re.compile(r"[0-9]|\w\.\w")
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}s?|[0-9]{1,2}(?:st|nd|rd|th)")
_WEIGHT_MAX: Final = 8
_ABOUT: Final = ".,;:!?'\"()[]{}<>*-_"
_WORDS_FROM: Final = -(1 << 32)

# Measured on pairs of a remark and what a model noted of it, against remarks of other people: 57 in
# 100 notes are found, and 1 in 100 is found in one of 250 remarks that it has nothing to do with.
# Chosen on those pairs: on other texts expect somewhat less.
COPIED_SHARE: Final = 0.4
COPIED_WORDS: Final = 5
COPIED_WEIGHT: Final = 8
RETOLD_SHARE: Final = 0.45
RETOLD_WORDS: Final = 3
RETOLD_WEIGHT: Final = 12
RETOLD_FROM_WORDS: Final = 80
MARKED_SHARE: Final = 0.2
_LOOKED_AT: Final = 4
_TELLING_WEIGHT: Final = 3
_COMMON: Final = 24
"""A word that more texts have says nothing about which of them is meant."""


class Prints(NamedTuple):
    """A text without its words: hashes of runs, of words with their weight, and of marks."""

    runs: tuple[int, ...]  # of every run, in the order of the text
    words: dict[int, int]
    marks: frozenset[int]

    @property
    def kept(self) -> frozenset[int]:
        """What an index keeps of the runs."""
        return frozenset(_winnowed(self.runs))


class Resemblance(NamedTuple):
    """How much of a text is in another; shares from 0 to 1.

    `copied` counts words in runs that both have, `retold` the weight of all words that both have.
    """

    copied: float
    copied_words: int
    retold: float
    retold_words: int
    weight: int
    other_words: int
    marks: int

    @property
    def contained(self) -> bool:
        """Whether it is so much that the one was made of the other."""
        copied = self.copied >= COPIED_SHARE and self.copied_words >= COPIED_WORDS
        retold = self.retold >= RETOLD_SHARE and self.retold_words >= RETOLD_WORDS
        # A long text has most words in it anyway.
        retold = retold and (self.copied_words > 0 or self.other_words <= RETOLD_FROM_WORDS)
        return (
            (copied and self.weight >= COPIED_WEIGHT)
            or (retold and self.weight >= RETOLD_WEIGHT)
            or (self.marks > 0 and self.retold >= MARKED_SHARE)
        )

    @property
    def score(self) -> float:
        """One number to rank by."""
        return max(self.copied, self.retold) + min(self.marks, 4) / 4


def prints_of(text: str) -> Prints:
    """The prints of a text; of a very long one, of its first `WORDS_MAX` words."""
    shape = skeleton(text)
    words = (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)[:WORDS_MAX]
    known = {word: crc32(word.encode("utf-8", "surrogatepass")) for word in set(words)}
    numbers = [known[word] for word in words]
    # Of whole numbers, and so the same in every process.
    runs = tuple(map(hash, zip(numbers, numbers[1:], numbers[2:], strict=False)))
    marks = frozenset(
        crc32(mark.encode("utf-8", "surrogatepass"))
        for part in set(shape.split())
        if not part.strip(_ABOUT).isalpha() and _MARKED.search(part)
        for mark in _MARK.findall(part)
        if _YEAR.fullmatch(mark) is None
    )
    weights = {number: _weight(word) for word, number in known.items()}
    return Prints(runs=runs, words=weights, marks=marks)


def _weight(word: str) -> int:
    """Short words are in every text; a letter of a script without spaces is half a word."""
    if not word.isascii() and len(word) == 1:
        return 2
    return min(max(0, len(word) - 3), _WEIGHT_MAX)


def _winnowed(runs: tuple[int, ...]) -> list[int]:
    if len(runs) <= WINDOW:
        return list(runs)
    return list(map(min, runs, runs[1:], runs[2:]))


def resemblance(text: Prints, other: Prints, kept: frozenset[int] | None = None) -> Resemblance:
    """How much of `text` is in `other`; `kept` are the runs that an index kept of it."""
    kept = other.kept if kept is None else kept
    covered = _covered(text.runs, kept)
    total = len(text.runs) + SHINGLE - 1 if text.runs else 0
    whole = sum(text.words.values())
    shared = [text.words[word] for word in text.words.keys() & other.words.keys()]
    shared = [weight for weight in shared if weight]
    return Resemblance(
        copied=covered / total if total else 0.0,
        copied_words=covered,
        retold=sum(shared) / whole if whole else 0.0,
        retold_words=len(shared),
        weight=sum(shared),
        other_words=len(other.words),
        marks=len(text.marks & other.marks),
    )


def _covered(runs: tuple[int, ...], kept: frozenset[int]) -> int:
    """Words inside runs that were kept; between two of them that are near, all were shared."""
    covered, end = 0, 0
    for at in [at for at, run in enumerate(runs) if run in kept]:
        # At most `WINDOW - 1` runs in a row go unkept, so a gap of that length is a shared one.
        start = at if at - end > WINDOW - 1 else end
        covered += at + SHINGLE - max(start, end)
        end = at + SHINGLE
    return covered


class Found(NamedTuple):
    """One text of an index that contains another, in part at least."""

    key: int
    resemblance: Resemblance


class Index:
    """Prints of many texts, to find those that a text is contained in. One thread."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Prints, frozenset[int]]] = {}
        # Hash of a run, a word or a mark -> keys of the texts that have it.
        self._where: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: int, prints: Prints) -> int:
        """Keep a text under a key of its own; how many prints that takes."""
        kept = prints.kept
        # The order of a text is not kept: only what is looked up is asked in order.
        self._texts[key] = (prints._replace(runs=()), kept)
        names = _names(prints, kept)
        for name in names:
            self._where.setdefault(name, []).append(key)
        return len(names)

    def remove(self, key: int) -> None:
        """Forget a text."""
        prints, kept = self._texts.pop(key)
        for name in _names(prints, kept):
            keys = self._where[name]
            keys.remove(key)
            if not keys:
                del self._where[name]

    def search(self, prints: Prints) -> list[Found]:
        """Texts that contain this one, the likeliest first."""
        where = self._where.get
        lists: list[list[int]] = []
        for name in {*prints.runs, *prints.marks, *_telling(prints)}:
            keys = where(name)
            if keys is None:
                continue
            if len(keys) <= _COMMON:
                lists.append(keys)
            elif not _WORDS_FROM <= name < 0:
                lists.append(keys[: -_COMMON - 1 : -1])  # the newest of many copies, first
        votes = Counter(chain.from_iterable(lists))
        found: list[Found] = []
        for key, _ in votes.most_common(_LOOKED_AT):
            other, kept = self._texts[key]
            alike = resemblance(prints, other, kept)
            if alike.contained:
                found.append(Found(key=key, resemblance=alike))
        return sorted(found, key=lambda one: -one.resemblance.score)


def _names(prints: Prints, kept: frozenset[int]) -> set[int]:
    return {*kept, *prints.marks, *_telling(prints)}


def _telling(prints: Prints) -> list[int]:
    """Words of some length; as names apart from those of runs and marks by their range."""
    return [~word for word, weight in prints.words.items() if weight >= _TELLING_WEIGHT]
