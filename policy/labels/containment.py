"""Whether a text was seen before: fingerprints of texts ("prints"), and an index of them.

A match only names an origin; the absence of a match proves nothing (docs/labels.md#origins). Prints
are made of the skeleton, word by word, so that case, look-alike and invisible letters, wrapping and
the order of sentences do not matter. Prints are winnowed (Schleimer, Wilkerson and Aiken, 2003): of
every `WINDOW` neighbouring shingles the least is kept, so that any run of `SHINGLE + WINDOW - 1`
words that two texts share leaves a print in both.
"""

from __future__ import annotations

import math
import re
from binascii import crc32
from collections.abc import Container, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from policy.text.skeleton import skeleton
from policy.text.stems import ranked

SHINGLE: Final = 3
WINDOW: Final = 3
WORDS_MAX: Final = 20_000
"""How many words of one text are read; the rest is ignored."""

# Scripts that are written without spaces between words: every letter counts as a word.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
)
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_WORD: Final = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
# Words that two texts hardly share by accident: addresses, and names with digits in them.
_MARK: Final = re.compile(
    r"[a-z0-9][\w-]*(?:\.[\w-]+)*@[\w-]+(?:\.[\w-]+)+"
    r"|(?:[a-z0-9][a-z0-9-]*\.)+[a-z]{2,}(?:[/:][^\s\"'<>)\]]*)?"
    r"|(?=[\w-]*[0-9])[a-z0-9][\w-]{3,}"
)
_MARKED: Final = re.compile(r"[0-9]|\w\.\w")
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}s?|[0-9]{1,2}(?:st|nd|rd|th)")
_ABOUT: Final = ".,;:!?'\"()[]{}<>*-_"
# Prior probability that a text has a given word of each rank (how common the word is), used before
# an index has seen any text. A shared word weighs by this prior and by how many texts of the index
# have the word.
_LIKELY: Final = (0.3, 0.03, 0.006, 0.001)
_BEFORE: Final = 200.0
_NOTHING: Final = 1.3
_LIVE: Final = 2.0
_UNSEEN: Final = tuple(max(0.0, -math.log(likely) - _NOTHING) for likely in _LIKELY)
_UNSEEN_SQUARED: Final = tuple(weight**2 for weight in _UNSEEN)

COPIED_SHARE: Final = 0.4
COPIED_WORDS: Final = 5
COPIED_WEIGHT: Final = 6.0
# Coefficients in log-odds, fitted to pairs of a remark and the note that a model made of it, from
# two of five conversations. Their accuracy on the other three is measured in
# `tests.benchmarks.labels`.
TOLD_FROM: Final = 1.0
_SHARE_WORTH: Final = 7.9
_ALIKE_WORTH: Final = 9.1
_WEIGHT_WORTH: Final = 0.36
_WEIGHT_MAX: Final = 30.0
_COPIED_WORTH: Final = 0.5
_COPIED_MAX: Final = 8
_LENGTH_COST: Final = 1.05
_TOLD_LEAST: Final = 5.3
MARKED_SHARE: Final = 0.2
_LOOKED_AT: Final = 6
_RUN_WORTH: Final = 4.0
_COMMON: Final = 24
"""Where more texts than this have one word, only the newest are compared."""


class Prints(NamedTuple):
    """Fingerprints of a text: hashes of its runs, of its stems with their rank, and of its marks.

    A run is some words in a row; a mark is a word that texts hardly share by accident, as an
    address.
    """

    runs: tuple[int, ...]  # the hash of every run (some words in a row), in the order of the text
    words: dict[int, int]
    marks: frozenset[int]
    norm: float = 1.0  # the sum of the weights of the text's words

    @property
    def kept(self) -> frozenset[int]:
        """The hashes of runs that an index stores of this text: the winnowed part of `runs`."""
        return frozenset(_winnowed(self.runs))


class Resemblance(NamedTuple):
    """How much of one text is contained in another, as shares from 0 to 1.

    `copied` is the share of words in shared runs, `retold` the share of the weight of all shared
    words, and `alike` is the cosine of the angle between the two texts' word weights.
    """

    copied: float
    copied_words: int
    retold: float
    weight: float
    alike: float
    # The log-odds that one text retells the other, perhaps in other words.
    told: float
    marks: int

    @property
    def contained(self) -> bool:
        """Whether the overlap is so large that the one text must have been made of the other."""
        copied = self.copied >= COPIED_SHARE and self.copied_words >= COPIED_WORDS
        return (
            (copied and self.weight >= COPIED_WEIGHT)
            or self.told >= TOLD_FROM
            or (self.marks > 0 and self.retold >= MARKED_SHARE)
        )

    @property
    def score(self) -> float:
        """One number for ranking the texts that may be the source."""
        return self.told + 8 * self.copied + 2 * min(self.marks, 4)


def prints_of(text: str) -> Prints:
    """The prints of a text; of a very long text (`WORDS_MAX`), those of its beginning."""
    shape = skeleton(text)
    words = (_ASCII_WORD if shape.isascii() else _WORD).findall(shape)[:WORDS_MAX]
    # Words are kept in the order of the text. The order of a set differs between processes, and
    # with it the rounding of the sums below and the rank of a stem that two words share.
    known = {word: crc32(word.encode("utf-8", "surrogatepass")) for word in dict.fromkeys(words)}
    numbers = [known[word] for word in words]
    # The hashes are taken of integers and not of strings, whose hash differs between processes.
    runs = tuple(map(hash, zip(numbers, numbers[1:], numbers[2:], strict=False)))
    marks = {
        crc32(mark.encode("utf-8", "surrogatepass"))
        for part in dict.fromkeys(shape.split())
        if not part.strip(_ABOUT).isalpha() and _MARKED.search(part)
        for mark in _MARK.findall(part)
        if _YEAR.fullmatch(mark) is None
    }
    stems: dict[int, int] = {}
    for word in known:
        stem, rank = ranked(word)
        stems[crc32(stem.encode("utf-8", "surrogatepass"))] = rank
    norm = math.sqrt(sum(map(_UNSEEN_SQUARED.__getitem__, stems.values()))) or 1.0
    return Prints(runs=runs, words=stems, marks=frozenset(marks), norm=norm)


def _winnowed(runs: tuple[int, ...]) -> list[int]:
    if len(runs) <= WINDOW:
        return list(runs)
    return list(map(min, runs, runs[1:], runs[2:]))


def resemblance(
    text: Prints,
    other: Prints,
    kept: frozenset[int] | None = None,
    weights: dict[int, float] | None = None,
) -> Resemblance:
    """How much of `text` is contained in `other`.

    `kept` are the runs that the index stored of `other`, `weights` the weights of its words.
    """
    kept = other.kept if kept is None else kept
    if weights is None:
        weights = {word: _UNSEEN[rank] for word, rank in text.words.items()}
    covered = _covered(text.runs, kept)
    total = len(text.runs) + SHINGLE - 1 if text.runs else 0
    whole, square, shared, common = 0.0, 0.0, 0.0, 0.0
    there = other.words
    for word, weight in weights.items():
        whole += weight
        square += weight * weight
        if word in there:
            shared += weight
            common += weight * weight
    retold = shared / whole if whole else 0.0
    alike = min(1.0, common / (math.sqrt(square) * other.norm)) if square else 0.0
    return Resemblance(
        copied=covered / total if total else 0.0,
        copied_words=covered,
        retold=retold,
        weight=shared,
        alike=alike,
        told=(
            _SHARE_WORTH * retold
            + _ALIKE_WORTH * alike
            + _WEIGHT_WORTH * min(shared, _WEIGHT_MAX)
            + _COPIED_WORTH * min(covered, _COPIED_MAX)
            # A long text contains most common words by accident.
            - _LENGTH_COST * math.log1p(len(there))
            - _TOLD_LEAST
        ),
        marks=len(text.marks & other.marks),
    )


def _covered(runs: tuple[int, ...], kept: frozenset[int]) -> int:
    """How many words of a text are in runs that the index stored of another text.

    Where two such runs are near each other, the words between them count too.
    """
    covered, end = 0, 0
    for at, run in enumerate(runs):
        if run in kept:
            # Winnowing skips at most `WINDOW - 1` runs in a row, so a gap of that length between
            # two stored runs was shared as well.
            start = at if at - end > WINDOW - 1 else end
            covered += at + SHINGLE - max(start, end)
            end = at + SHINGLE
    return covered


class Containing(NamedTuple):
    """A search result: one text of the index that contains at least a part of the other text."""

    key: int
    resemblance: Resemblance


class PrintIndex:
    """Prints of many texts: finds the texts that contain a given one. One thread at a time."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Prints, frozenset[int]]] = {}
        # Hash of a run, a word or a mark -> keys of the texts that have it.
        self._where: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: int, prints: Prints) -> int:
        """Add a text to the index under a key of its own; return how many hashes it takes."""
        kept = prints.kept
        # The index does not store the order of the runs. The order matters only for the text that
        # is looked up.
        self._texts[key] = (prints._replace(runs=()), kept)
        names = _names(prints, kept)
        for name in names:
            self._where.setdefault(name, []).append(key)
        return len(names)

    def remove(self, key: int) -> None:
        """Remove the text with this key from the index."""
        prints, kept = self._texts.pop(key)
        for name in _names(prints, kept):
            keys = self._where[name]
            keys.remove(key)
            if not keys:
                del self._where[name]

    def search(self, prints: Prints, among: Container[int] | None = None) -> list[Containing]:
        """The texts of the index that contain the text of these prints, the likeliest first.

        With `among`, only texts with these keys are candidates. They are filtered before the result
        is cut to its length, so that texts of other sessions displace none of them.
        """
        where, nowhere = self._where.get, ()
        weights = {
            word: self._weight(rank, len(where(~word, nowhere)))
            for word, rank in prints.words.items()
        }
        votes: dict[int, float] = {}
        for name in {*prints.runs, *prints.marks}:
            for key in _newest(where(name, nowhere), among):
                votes[key] = votes.get(key, 0.0) + _RUN_WORTH
        for word, weight in weights.items():
            for key in _newest(where(~word, nowhere), among):
                votes[key] = votes.get(key, 0.0) + weight
        found: list[Containing] = []
        for key in nlargest(_LOOKED_AT, votes, key=votes.__getitem__):
            other, kept = self._texts[key]
            alike = resemblance(prints, other, kept, weights)
            if alike.contained:
                found.append(Containing(key=key, resemblance=alike))
        return sorted(found, key=attrgetter("resemblance.score"), reverse=True)

    def _weight(self, rank: int, count: int) -> float:
        if not rank:
            return 0.0
        texts = (len(self._texts) + _BEFORE) / (count + _BEFORE * _LIKELY[rank])
        # The weight has a lower bound, so no one can make a word count as common by filling the
        # index with copies.
        return max(0.0, math.log(texts) - _NOTHING, _UNSEEN[rank] - _LIVE)


def _newest(keys: Sequence[int], among: Container[int] | None) -> Iterable[int]:
    """The newest keys, at most `_COMMON`, the newest first; with `among`, only keys in it."""
    if among is None:
        return keys[: -_COMMON - 1 : -1]
    return islice(filter(among.__contains__, reversed(keys)), _COMMON)


def _names(prints: Prints, kept: frozenset[int]) -> set[int]:
    """The index keys of a text: runs, marks, and the words with a rank above 0.

    The key of a word is the complement of its hash, so that runs and marks have other keys.
    """
    return {*kept, *prints.marks, *[~word for word, rank in prints.words.items() if rank]}
