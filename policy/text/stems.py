"""Word stems, and how common they are: a retelling keeps the rare stems of a text.

Made for English, by hand: endings, irregular forms, and words in four ranks. In other languages
endings are cut alike on both sides, and every word counts as rare until an index has seen it often.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from policy.text.word_lists import word_list

_ENDINGS: Final = (
    *(("ational", "ate"), ("fulness", "ful"), ("iveness", "ive"), ("ization", "ize")),
    *(("ousness", "ous"), ("ements", "e"), ("ement", ""), ("ments", ""), ("ment", "")),
    *(("ingly", ""), ("edly", ""), ("ities", "ity"), ("iness", "y"), ("ness", "")),
    *(("ations", "ate"), ("ation", "ate"), ("ions", "ion"), ("ing", ""), ("ies", "y")),
    *(("ied", "y"), ("ed", ""), ("ers", "er"), ("es", ""), ("ly", ""), ("s", ""), ("e", "")),
)
_STEM_LEN_MIN: Final = 3
_KEPT_MAX: Final = 16_384
_WORD_LEN_MAX: Final = 32
_UNSPACED_RANK: Final = 1

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
NOBODYS_WORDS_MAX: Final = 3
# A sentence with more characters or blanks than this is not common, and its words are not read.
_NOBODYS_LEN_MAX: Final = 96
_NOBODYS_GAPS_MAX: Final = 8
_COMMON_RANK_MAX: Final = 1
RARE: Final = 3
"""The rank of the rarest words; words of rank 0 are in every text and distinguish none."""


def stem_of(word: str) -> str:
    """A word of a skeleton without its ending; most forms of one word share one stem."""
    word = _FORMS.get(word, word)
    if len(word) <= _STEM_LEN_MIN or not word.isascii():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_LEN_MIN:
            word = word[: -len(ending)] + instead
            break
    if len(word) > _STEM_LEN_MIN and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    if len(word) > _STEM_LEN_MIN + 1 and word.endswith("e"):
        word = word[:-1]
    if word.endswith("i"):
        word = word[:-1] + "y"
    return _FORMS.get(word, word)


def is_nobodys(sentence: str) -> bool:
    """Whether a sentence is too short and common to identify who said it, as "Thanks!" is.

    A text that repeats such a sentence need not come from the one who said the sentence first.
    """
    if len(sentence) > _NOBODYS_LEN_MAX or sentence.count(" ") > _NOBODYS_GAPS_MAX:
        return False
    words = _WORD.findall(sentence.lower().replace("\u2019", "'"))
    return len(words) <= NOBODYS_WORDS_MAX and are_common(words)


def are_common(words: Iterable[str]) -> bool:
    """Whether each given word belongs to the two commonest ranks."""
    return all(map(_is_common, words))


@lru_cache(maxsize=_KEPT_MAX)
def _is_common(word: str) -> bool:
    return _RANKS.get(stem_of(word), RARE) <= _COMMON_RANK_MAX


def ranked(word: str) -> tuple[str, int]:
    """The stem of a word, and its rank: 0 for words of every text, up to `RARE`."""
    return _ranked(word) if len(word) <= _WORD_LEN_MAX else (word, RARE)


@lru_cache(maxsize=_KEPT_MAX)
def _ranked(word: str) -> tuple[str, int]:
    if len(word) == 1:
        # A single letter distinguishes no text, and in a script without spaces it is a part of a
        # word.
        return word, 0 if word.isascii() else _UNSPACED_RANK
    stem = stem_of(word)
    rank = _RANKS.get(stem)
    if rank is None:
        # Words that are not in the lists are ranked by length: in every language short words are
        # the common ones.
        rank = min(RARE, max(1, len(word) - 2))
    return stem, rank


_FORMS: Final = {
    form: word
    for form, _, word in (pair.partition("=") for pair in word_list("stems", "irregular"))
}
_RANKS: Final = {
    stem_of(word): rank
    for rank, name in ((2, "common"), (1, "very_common"), (0, "everywhere"))
    for word in word_list("ranks", name)
}
