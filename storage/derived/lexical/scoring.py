"""The score of memories for a question: likeness, words and trust, in one function for all uses.

Nothing in the score of one memory depends on the other hits, so a memory that is left out changes
the order of no others, and blame by replay finds the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policy.model import SourceKind
from storage.derived.lexical.analysis import Hashes
from storage.derived.lexical.postings import (
    COUNT_MAX,
    Postings,
    Tail,
)

Floats64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ordinals = NDArray[np.int64]
Ranks = NDArray[np.int8]
_Numbers = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]

TRUSTS: Final = np.array([0.3, 0.5, 0.75, 0.9])
"""The trust of a memory by the rank of its label (`SourceKind.trust`)."""
WORDS_WEIGHT: Final = 1.5
UNPROVEN_WORDS_MAX: Final = 0.5
"""The most that words count for a label below `user_input`, so that stuffing them gains little."""
_TRUST_BASE: Final = 0.8
_TRUST_WEIGHT: Final = 0.4
_SCORE_MAX: Final = (1 + WORDS_WEIGHT) * (_TRUST_BASE + _TRUST_WEIGHT * 0.9)
_SATURATION: Final = 1.2
_LENGTH_WEIGHT: Final = 0.75


def score(cosines: Floats64, words: Floats64, ranks: Ranks, trusts: Floats64) -> Floats64:
    """The scores of memories for one question, in [0, 1]; the only function that ranks memories.

    `words` are shares of the question's own words (`AskedWords`); `ranks` are those of the labels.
    """
    words_max = np.where(ranks >= SourceKind.USER_INPUT.trust, 1.0, UNPROVEN_WORDS_MAX)
    found = np.maximum(0.0, cosines) + WORDS_WEIGHT * np.minimum(words, words_max)
    return found * (_TRUST_BASE + _TRUST_WEIGHT * trusts) / _SCORE_MAX


class RowWords(NamedTuple):
    """The words of the rows of a segment or the tail, with the ordinals of the rows."""

    ordinals: Ordinals
    words: Postings | Tail


class AskedWords:
    """The words of one question, with their statistics among the live rows that a reader may see.

    The words of a row are its BM25 for the question, divided by the BM25 of the question's known
    words themselves, so that 1 means: everything that was asked for.
    """

    def __init__(
        self, parts: Sequence[RowWords], asked: Hashes, live: Mask, *, held_min: int = 0
    ) -> None:
        """`live` marks the rows of the tenant that the reader may see, by ordinal.

        With a `held_min` of 1 each word counts as if a row had it, for texts that may be stored.
        """
        count, total = 0, 0
        # Of each part: the word, the ordinal, the word's count and the length of each row found.
        columns: list[tuple[NDArray[Any], ...]] = []
        for part in parts:
            marks = marks_of(live, part.ordinals)
            count += int(np.count_nonzero(marks))
            total += int(part.words.lengths.sum(where=marks, dtype=np.int64))
            found = part.words.holding(asked)
            ordinals, lengths = part.ordinals[found.rows], part.words.lengths[found.rows]
            seen, rows = marks[found.rows], (found.places, ordinals, found.counts, lengths)
            columns.append(rows if seen.all() else tuple(one[seen] for one in rows))
        which, self._ordinals, counts, lengths = map(np.concatenate, zip(*columns, strict=True))
        self._asked = asked.tolist()
        self._mean = max(total, 1) / max(count, 1)
        holding = np.maximum(np.bincount(which, minlength=len(asked)), held_min)
        count = max(count, held_min)
        # The rarity of each word; a word that no row contains counts nothing.
        self.weights = np.where(holding, np.log1p((count - holding + 0.5) / (holding + 0.5)), 0.0)
        gains = self.gains(counts, lengths)
        known_count = np.array([np.count_nonzero(holding)])
        ideal = self.weights.sum() * float(self.gains(np.ones(1), known_count)[0])
        self._ideal = float(ideal) or 1.0
        self._shares: Floats64 = self.weights[which] * gains / self._ideal

    def of_rows(self, allowed: Mask) -> Floats64:
        """The words of the allowed rows, by ordinal; 0 for a row that has none of them."""
        words = np.bincount(self._ordinals, self._shares, minlength=len(allowed))[: len(allowed)]
        return np.multiply(words, allowed, dtype=np.float64)

    def of_text(self, hashes: Sequence[int]) -> float:
        """The words of a text that may be in no row."""
        counts = Counter(hashes)
        held = np.array([min(counts[word], COUNT_MAX) for word in self._asked])
        gains = self.gains(held, np.array(len(hashes)))
        return float((self.weights * gains).sum()) / self._ideal

    def gains(self, counts: _Numbers, lengths: _Numbers) -> Floats64:
        """BM25 of a word by its count and the text's length, without the word's rarity."""
        relative = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * (lengths / self._mean)
        gains: Floats64 = counts * (_SATURATION + 1) / (counts + _SATURATION * relative)
        return gains


def marks_of(marks: Mask, ordinals: Ordinals) -> Mask:
    """The entries of a mask for ascending ordinals; False for ordinals beyond the mask."""
    reached = int(np.searchsorted(ordinals, len(marks)))
    if reached == len(ordinals) and reached:
        first, last = int(ordinals[0]), int(ordinals[-1])
        # If the ordinals have no gaps, as usually, the result is a view and no copy.
        if last - first + 1 == reached:
            return marks[first : last + 1]
    found = np.zeros(len(ordinals), dtype=np.bool_)
    found[:reached] = marks[ordinals[:reached]]
    return found
