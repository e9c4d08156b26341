"""What a text speaks: plainly, in directives, or in injections.

Looks at the skeleton, past passages that are quoted as an example: a note that quotes an attack is
not an attack. Never the only wall: what is not found here is still bound by the matrix.
"""

from __future__ import annotations

import re
from typing import Final

from policy.text.directive import CLAUSES, DIRECTIVES, STARTS, Group, Language
from policy.text.injection import INJECTIONS, JOINED_DIRECTIVE, JOINED_INJECTION

_GROUPS: Final = (*DIRECTIVES, *INJECTIONS)
_LEADING: Final = frozenset[str]().union(*(group.words for group in _GROUPS))

# Everything that is no letter, digit, apostrophe, hyphen or underscore parts words.
_TO_SPACES: Final = str.maketrans(dict.fromkeys('\n\t.,;:!?()[]{}<>|/\\*#"=+~`^%&$@\u2022', " "))
_JOINED_LEN_MIN: Final = 12

_QUOTED: Final = re.compile(
    r"```.*?```|`[^`\n]{1,600}`|\"[^\"\n]{1,800}\"|(?<!\w)'[^'\n]{3,800}'(?!\w)|"
    r"\u00ab[^\u00bb\n]{1,800}\u00bb|(?:(?<=\n)|^)> ?[^\n]*",
    re.DOTALL,
)
_QUOTATION_MARK: Final = re.compile(r"[\"`\u00ab>]|(?<!\w)'")
# One word in quotation marks is no quotation: ignore "all" previous ...
_SCARE_QUOTED: Final = re.compile(r"[\"'`](\w{1,20})[\"'`]")
# What makes a quotation an example: somebody reports it, just before or just after it.
_REPORTED: Final = re.compile(
    r"\b(?:says?|said|saying|wrote|writes?|written|asked|reads?|titled|called|labell?ed|"
    r"contain(?:s|ed|ing)?|examples?|e\.g|such as|like|phrases?|payloads?|attacks?|attacker|"
    r"injections?|strings?|quot(?:e|es|ed|ing)|sign|slogan|motto|song|book|lyrics?|"
    r"detect(?:s|ed|ing)?|block(?:s|ed|ing)?|filter(?:s|ed|ing)?|reject(?:s|ed|ing)?|"
    r"flag(?:s|ged|ging)?|tried|tries|attempt(?:s|ed|ing)?|sent|received|include[sd]?|including|"
    r"instructions? like|starts? with|begins? with)\b"
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
_LEET: Final = (
    dict(zip(map(ord, "013457@$!"), "oieastasi", strict=True)),
    dict(zip(map(ord, "013457@$!"), "oleastasl", strict=True)),
)
_LEET_WORD: Final = re.compile(
    r"(?<![\w@$!])(?=[\w@$!]*[a-z])(?=[\w@$]*[013457@$!][a-z])[\w@$!]{3,}"
)
_LEET_SIGN: Final = re.compile(r"[013457@$!][a-z]")


def language_of(shape: str) -> Language:
    """What a text speaks; `shape` is its skeleton."""
    found = _spoken(shape)
    if _LEET_SIGN.search(shape):
        for letters in _LEET:
            found |= _spoken(_unleet(shape, letters))
    return found


def _unleet(shape: str, letters: dict[int, str]) -> str:
    return _LEET_WORD.sub(lambda word: word[0].translate(letters), shape)


def _spoken(shape: str) -> Language:
    words = shape.translate(_TO_SPACES).split()
    found = _joined(words)
    # "from-now-on" is three words, "never-ending" is one: read it both ways.
    if "-" in shape or "_" in shape:
        found |= _spoken_in(_HYPHEN.sub(" ", shape), _HYPHEN.sub(" ", " ".join(words)).split())
    # A line may end inside a sentence.
    if "\n" in shape:
        found |= _spoken_in(shape.replace("\n", " "), words)
    spoken = _spoken_in(shape, words)
    # `|` of two flags runs in Python; most texts need none.
    return spoken if found is Language.PLAIN else found | spoken


def _spoken_in(shape: str, words: list[str]) -> Language:
    found = Language.PLAIN
    asked = _asked(words)
    if not asked:
        return found
    text = _without_examples(shape)
    starts: list[int] | None = None
    clauses: list[int] | None = None
    for group in asked:
        if group.speaks in found:
            continue
        shapes = group.shapes
        if shapes.anywhere is not None and shapes.anywhere.search(text):
            found |= group.speaks
            continue
        if any(reach.found(text) for reach in shapes.reaching):
            found |= group.speaks
            continue
        if shapes.at_start is not None:
            starts = starts or [place.end() for place in STARTS.finditer(text)]
            if any(shapes.at_start.match(text, start) for start in starts):
                found |= group.speaks
                continue
        if shapes.at_clause is not None:
            clauses = clauses or [place.end() for place in CLAUSES.finditer(text)]
            if any(shapes.at_clause.match(text, start) for start in clauses):
                found |= group.speaks
    return found


def _asked(words: list[str]) -> list[Group]:
    """The groups whose words are there: for most texts none, and that is all they cost."""
    leading = _LEADING.intersection(words)
    if not leading:
        return []
    return [
        group
        for group in _GROUPS
        if not group.words.isdisjoint(leading) and not (group.also and group.also.isdisjoint(words))
    ]


def _joined(words: list[str]) -> Language:
    found = Language.PLAIN
    if len(max(words, key=len, default="")) < _JOINED_LEN_MIN:
        return found
    for word in [word for word in words if len(word) >= _JOINED_LEN_MIN]:
        bare = word.replace("_", "")
        if JOINED_INJECTION.search(bare):
            found |= Language.INJECTION
        if JOINED_DIRECTIVE.match(bare):
            found |= Language.DIRECTIVE
    return found


def _without_examples(shape: str) -> str:
    """The text without the quotations in it that are reported and not adopted."""
    if not _QUOTATION_MARK.search(shape):
        return shape
    shape = _SCARE_QUOTED.sub(r"\1", shape)
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
