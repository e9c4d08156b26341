"""Registered questions with their answers, and how another text would be ranked for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy.model import SourceKind
from storage.derived.lexical.analysis import Hashes
from storage.derived.lexical.scoring import TRUSTS, AskedWords, Floats64, score
from storage.questions import AnsweredQuestion

_GROWN_SHARE: Final = 16
# Both sides are scored as if a person had said them: what the bound on an unproven text's words
# hides today, a person who vouches for the text would show tomorrow.
_RANK: Final = SourceKind.USER_INPUT.trust


class Contest:
    """Compares texts with the answers of many questions at once, because each write asks for it.

    The rarity of words is computed again after the store has grown by a sixteenth.
    """

    def __init__(
        self,
        answered: Sequence[AnsweredQuestion],
        hashed: Callable[[str], list[int]],
        asked: Callable[[Hashes], AskedWords],
        size: Callable[[], int],
    ) -> None:
        """`asked` returns the statistics of words, and `size` the number of rows that have them."""
        self._answered = answered
        self._hashed = hashed
        self._asked = asked
        self._size = size
        self._vectors = np.stack([np.frombuffer(one.question_vector, "<f4") for one in answered])
        words = [dict.fromkeys(hashed(one.question)) for one in answered]
        # Maps each word of a question to its place among all distinct words.
        distinct = dict.fromkeys([word for one in words for word in one])
        self._places = {word: at for at, word in enumerate(distinct)}
        # One entry for each word of each question.
        self._word_of = np.array([self._places[word] for one in words for word in one], np.int64)
        self._question_of = np.repeat(np.arange(len(words)), [len(one) for one in words])
        self._begun = 0
        self._refresh()

    def scores(self, text: str, vector: bytes) -> tuple[list[float], list[float]]:
        """For each question the score of its own answer, and that of the text.

        `vector` is the text's embedding.

        Raises:
            StoreUnavailable: The rows of a large store are still being read after the start.
        """
        if abs(self._size() - self._begun) * _GROWN_SHARE > self._begun:
            self._refresh()
        return self._own, self._of(self._vectors @ np.frombuffer(vector, "<f4"), text).tolist()

    def _refresh(self) -> None:
        self._begun = self._size()
        self._statistics = self._asked(np.array(list(self._places), dtype=np.uint64))
        weights = self._statistics.weights[self._word_of]
        known = self._per_question((weights > 0).astype(np.float64))
        ideal = self._per_question(weights) * self._statistics.gains(np.ones(1), known)
        self._ideal = np.where(ideal > 0, ideal, 1.0)
        # The answers are scored as other texts are, so that a text equal to an answer has the same
        # scores to the last bit.
        by_answer: dict[str, Floats64] = {}
        for one in self._answered:
            if one.answer not in by_answer:
                cosines = self._vectors @ np.frombuffer(one.answer_vector, "<f4")
                by_answer[one.answer] = self._of(cosines, one.answer)
        self._own = [float(by_answer[one.answer][at]) for at, one in enumerate(self._answered)]

    def _of(self, cosines: NDArray[np.float32], text: str) -> Floats64:
        hashes = self._hashed(text)
        counts = np.zeros(len(self._places))
        for word, count in Counter(hashes).items():
            if word in self._places:
                counts[self._places[word]] = count
        gains = self._statistics.gains(counts, np.array([len(hashes)])) * self._statistics.weights
        words = self._per_question(gains[self._word_of]) / self._ideal
        ranks = np.full(len(words), _RANK, dtype=np.int8)
        return score(cosines.astype(np.float64), words, ranks, TRUSTS[ranks])

    def _per_question(self, values: Floats64) -> Floats64:
        sums = np.bincount(self._question_of, values, minlength=len(self._answered))
        return sums.astype(np.float64)
