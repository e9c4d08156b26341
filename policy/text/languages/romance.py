"""Spanish, French, Italian and Portuguese: the commonest attack in each, and no orders yet."""

from __future__ import annotations

import re
from typing import Final

from policy.text.phrases import Group, Language, Lexicon, shapes_of, words_of

_OVERRIDE = Group(
    words_of("ignora olvida descarta ignorez ignore oubliez oublie dimentica esqueca"),
    Language.INJECTION,
    shapes_of(
        r"\b(?:ignora|olvida|descarta)\b[^.!?\n]{0,30}\binstrucciones\b",
        r"\b(?:ignorez|ignore|oubliez|oublie)\b[^.!?\n]{0,30}\b(?:les|tes|vos) "
        r"[^.!?\n]{0,30}?(?:instructions|consignes)\b",
        r"\b(?:ignora|dimentica)\b[^.!?\n]{0,30}\bistruzioni\b",
        r"\b(?:ignore|esqueca)\b[^.!?\n]{0,30}\binstrucoes\b",
    ),
    also=words_of("instrucciones instructions consignes istruzioni instrucoes"),
)

ROMANCE: Final = Lexicon(
    name="romance",
    groups=(_OVERRIDE,),
    starts=re.compile("^"),
    clauses=re.compile("^"),
)
