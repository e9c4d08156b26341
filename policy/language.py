"""What a text speaks: plainly, in directives, or in injections.

Looks at the skeleton, past passages that are quoted as an example: a note that quotes an attack is
not an attack. Never the only wall: what is not found here is still bound by the matrix.
"""

from __future__ import annotations

import re
from typing import Final

from policy.directive import DIRECTIVES, Language
from policy.injection import INJECTIONS, JOINED_DIRECTIVE, JOINED_INJECTION

_GROUPS: Final = (*DIRECTIVES, *INJECTIONS)
_TRIGGERS: Final = frozenset[str]().union(*(group.words for group in _GROUPS))

# Everything that is no letter, digit, apostrophe, hyphen or underscore parts words.
_TO_SPACES: Final = str.maketrans(dict.fromkeys('\n\t.,;:!?()[]{}<>|/\\*#"=+~`^%&$@\u2022', " "))
_JOINED_LEN_MIN: Final = 10

_QUOTED: Final = re.compile(
    r"```.*?```|`[^`\n]{1,600}`|\"[^\"\n]{1,800}\"|(?<!\w)'[^'\n]{3,800}'(?!\w)|"
    r"\u00ab[^\u00bb\n]{1,800}\u00bb|(?:(?<=\n)|^)> ?[^\n]*",
    re.DOTALL,
)
# What makes a quotation an example: somebody reports it, just before or just after it.
_REPORTED: Final = re.compile(
    r"\b(?:says?|said|saying|wrote|writes?|written|asked|reads?|titled|called|labell?ed|contain(?:s|"
    r"ed|ing)?|examples?|e\.g|such as|like|phrases?|payloads?|attacks?|attacker|injections?|"
    r"strings?|quot(?:e|es|ed|ing)|sign|slogan|motto|song|book|lyrics?|detect(?:s|ed|ing)?|"
    r"block(?:s|ed|ing)?|filter(?:s|ed|ing)?|reject(?:s|ed|ing)?|flag(?:s|ged|ging)?|tried|tries|"
    r"attempt(?:s|ed|ing)?|sent|received|include[sd]?|including|instructions? like|starts? with|begins? with)\b"
)
_REPORTED_BEFORE_LEN: Final = 100
_REPORTED_AFTER_LEN: Final = 60
# What makes it an order all the same: the text around it adopts it.
_ADOPTED: Final = re.compile(
    r"\b(?:follow|obey|comply|execute|adopt|carry out|adhere|do as|act on|act upon|do exactly|"
    r"do what|take effect|takes effect|is your|are your|as your|as a rule|as policy|your new|"
    r"respond with|answer with|reply with|"
    r"apply (?:it|this|the))\b"
)
_HYPHEN: Final = re.compile(r"(?<=[a-z])[-_](?=[a-z])")
# "1gn0re": digits and signs that stand for letters, inside a word that has letters.
_LEET: Final = str.maketrans("013457@$!", "oleastasi")
_LEET_WORD: Final = re.compile(
    r"(?<![\w@$!])(?=[\w@$!]*[a-z])(?=[\w@$]*[013457@$!][a-z])[\w@$!]{3,}"
)
_LEET_SIGN: Final = re.compile(r"[a-z][013457@$!][a-z]|\b[013457@$!][a-z]")


def language_of(shape: str) -> Language:
    """What a text speaks; `shape` is its skeleton."""
    found = _spoken(shape)
    if _LEET_SIGN.search(shape):
        plain = _LEET_WORD.sub(lambda word: word[0].translate(_LEET), shape)
        if plain != shape:
            found |= _spoken(plain)
    return found


def _spoken(shape: str) -> Language:
    words = shape.translate(_TO_SPACES).split()
    found = _joined(words)
    if _HYPHEN.search(shape):
        shape_open = _HYPHEN.sub(" ", shape)
        words.extend(shape_open.translate(_TO_SPACES).split())
    else:
        shape_open = shape
    present = _TRIGGERS.intersection(words)
    if not present:
        return found
    text = _without_examples(shape)
    opened = text if shape_open is shape else _HYPHEN.sub(" ", text)
    for group in _GROUPS:
        if group.words.isdisjoint(present) or group.speaks in found:
            continue
        if any(pattern.search(text) for pattern in group.patterns) or (
            opened is not text and any(pattern.search(opened) for pattern in group.patterns)
        ):
            found |= group.speaks
    return found


def _joined(words: list[str]) -> Language:
    found = Language.PLAIN
    for word in words:
        if len(word) < _JOINED_LEN_MIN:
            continue
        bare = word.replace("_", "")
        if any(pattern.search(bare) for pattern in JOINED_INJECTION):
            found |= Language.INJECTION
        if any(pattern.match(bare) for pattern in JOINED_DIRECTIVE):
            found |= Language.DIRECTIVE
    return found


def _without_examples(shape: str) -> str:
    """The text without the quotations in it that are reported and not adopted."""
    quotations = list(_QUOTED.finditer(shape))
    if not quotations:
        return shape
    frame = _QUOTED.sub(" ", shape)
    if _ADOPTED.search(frame):
        return shape
    kept: list[str] = []
    at = 0
    for quotation in quotations:
        start, end = quotation.span()
        around = (
            shape[max(0, start - _REPORTED_BEFORE_LEN) : start]
            + " \n "
            + shape[end : end + _REPORTED_AFTER_LEN]
        )
        if _REPORTED.search(_QUOTED.sub(" ", around)):
            kept.append(shape[at:start])
            kept.append(" ")
            at = end
    return "".join([*kept, shape[at:]])
