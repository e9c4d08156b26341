"""Reads of the words of questions, and of the scores that texts have for a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from policy.model import Reads, Tenant
from policy.query import EVERYTHING
from storage.derived.lexical.analysis import Hashes, unpacked
from storage.derived.lexical.contest import Contest
from storage.derived.lexical.scoring import TRUSTS, AskedWords, Mask, score
from storage.derived.vectors.segments import exact_products
from storage.questions import AnsweredQuestion, Question, WeighedText
from storage.read.record_reads import RecordReads
from storage.write.engine import Engine


class WordReads(RecordReads):
    """Reads by words. Any thread."""

    def __init__(self, engine: Engine, reads: Reads, clock: Callable[[], int]) -> None:
        super().__init__(engine)
        self.reads = reads
        self._derived = engine.parts.derived
        self._catalogue = engine.parts.derived.catalogue
        self._clock = clock

    def words(self, tenant: Tenant, text: str) -> bytes:
        """The hashed words of a question, for `searched`; b"" if it has no words to search for.

        Words of another version of the analysis find nothing, so the search is by vector alone.
        """
        return self._derived.words.packed(tenant, text)

    def scores(
        self, tenant: Tenant, question: Question, texts: Sequence[WeighedText]
    ) -> list[float]:
        """The score of each text for a question, if a live memory of the tenant had the text.

        Each word of the question counts as if a memory had it.
        """
        self._derived.wait()
        asked = self.asked_words(tenant, question.words, None, held_min=1)
        hashed = partial(self._derived.words.of, tenant)
        words = [0.0 if asked is None else asked.of_text(hashed(one.text)) for one in texts]
        ranks = np.array([one.source.trust for one in texts], dtype=np.int8)
        rows = np.stack([np.frombuffer(one.vector, "<f4") for one in texts])
        wide = np.frombuffer(question.vector, "<f4").astype(np.float64)
        cosines = exact_products(rows, wide).clip(-1.0, 1.0)
        scores: list[float] = score(cosines, np.array(words), ranks, TRUSTS[ranks]).tolist()
        return scores

    def contest(self, tenant: Tenant, answered: Sequence[AnsweredQuestion]) -> Contest:
        """Registered questions, at least one, to compare texts with their answers."""
        derived = self._derived

        def asked(words: Hashes) -> AskedWords:
            derived.wait()
            live, _ = self._catalogue.allowed(tenant, EVERYTHING, self._clock(), self.reads)
            return AskedWords(derived.index.row_words(), words, live, held_min=1)

        return Contest(
            answered, partial(derived.words.of, tenant), asked, lambda: derived.index.count
        )

    def asked_words(
        self, tenant: Tenant, words: bytes, live: Mask | None, *, held_min: int = 0
    ) -> AskedWords | None:
        """The words of a question with the statistics of the rows that this reader may see.

        None if there are no words, or if another version of the analysis made them.
        """
        asked = unpacked(words)
        if asked is None or not len(asked):
            return None
        if live is None:
            live, _ = self._catalogue.allowed(tenant, EVERYTHING, self._clock(), self.reads)
        return AskedWords(self._derived.index.row_words(), asked, live, held_min=held_min)
