"""Which words of a flagged text make it count as an order or an attack: enough by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from policy.text.language import language_of
from policy.text.phrases import Language
from policy.text.skeleton import skeleton

_WORD: Final = re.compile(r"\S+\s*")


def words_that_fired(text: str) -> str | None:
    """A shortest stretch of the text that is flagged as the whole text is; None for a plain text.

    The stretch is found with the same check that the gate uses: words are left out at the end and
    at the beginning, many and then few, for as long as what remains is flagged. So no list of
    phrases has to be explained, and the stretch would always be flagged alone.
    """
    whole = language_of(skeleton(text))
    if whole is Language.PLAIN:
        return None
    words: Sequence[str] = _WORD.findall(text)
    for from_end in (True, False):
        cut = len(words) // 2
        while cut:
            fewer = words[:-cut] if from_end else words[cut:]
            if fewer and language_of(skeleton("".join(fewer))) & whole:
                words = fewer
                cut = min(cut, len(words) - 1)
            else:
                cut //= 2
    return "".join(words).strip()
