"""The candidates of one search: the best by likeness and the best by words, with their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from policy.model import Hit, Memory, Ranking
from storage.derived.lexical.scoring import (
    AskedWords,
    Floats64,
    Mask,
    Ordinals,
    Ranks,
    score,
)
from storage.derived.vectors.faiss_index import SKETCHED_MAX, VectorIndex
from storage.read.exposure import EXAMINED_MIN


class RankedRow(NamedTuple):
    """One row that a search found, with its score and the parts of the score."""

    ordinal: int
    score: float
    cosine: float
    words: float
    trust: float

    def hit(self, memory: Memory, *, capped: bool) -> Hit:
        """The search result with this row's memory; `capped`: it is over the cap of its origin."""
        ranking = Ranking(cosine=self.cosine, words=self.words, trust=self.trust, capped=capped)
        return Hit(memory=memory, score=self.score, ranking=ranking)


class Found(NamedTuple):
    """The rows of one search, best first; `rows` can be read once.

    `complete`: no other row has the least cosine that was asked for.
    """

    ordinals: list[int]
    rows: Iterator[RankedRow]
    complete: bool


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The rows among which one search chooses: the best of the index by likeness, and by words.

    `trusts` returns the trust of rows by their ordinals and the ranks of their labels.
    """

    index: VectorIndex
    vector: bytes
    words: AskedWords | None
    allowed: Mask
    ranks: Callable[[Ordinals], Ranks]
    trusts: Callable[[Ordinals, Ranks], Floats64]
    threshold: float
    exact: bool

    def found(self, count: int) -> Found:
        """The best `count` rows of each kind, in one order; none below the least cosine."""
        ordinals, cosines = self.index.nearest(self.vector, count, self.allowed, exact=self.exact)
        complete = len(cosines) < count or bool(cosines[-1] < self.threshold)
        words = np.zeros(len(ordinals))
        if self.words is not None:
            by_row = self.words.of_rows(self.allowed)
            more = _others(by_row, ordinals, count)
            ordinals = np.concatenate([ordinals, more])
            cosines = np.concatenate([cosines, self.index.cosines(self.vector, more)])
            words = by_row[ordinals]
        # A purge may have removed a row meanwhile, whose cosine is then NaN.
        near = cosines >= self.threshold
        ordinals, cosines, words = ordinals[near], cosines[near], words[near]
        ranks = self.ranks(ordinals)
        trusts = self.trusts(ordinals, ranks)
        scores = score(cosines, words, ranks, trusts)
        order = np.lexsort((ordinals, -cosines, -scores))
        columns = [one[order] for one in (ordinals, scores, cosines, words, trusts)]
        # A search reads few of its candidates, so each one is made when it is read.
        read = [map(one.item, range(len(order))) for one in columns]
        return Found(columns[0].tolist(), map(RankedRow, *read), complete)


def _others(by_row: Floats64, found: Ordinals, count: int) -> Ordinals:
    """The `count` rows with most words, without those that were found already."""
    best = np.flatnonzero(by_row > 0)
    if len(best) > count:
        best = best[np.argpartition(by_row[best], -count)[-count:]]
    return best[np.isin(best, found, invert=True)]


def candidates_len(index: VectorIndex) -> int:
    """How many rows of each kind a search begins with.

    In a large index a longer list would be a scan of all rows.
    """
    return EXAMINED_MIN if index.scans_all else SKETCHED_MAX
