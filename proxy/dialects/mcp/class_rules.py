"""Rules that raise the class of an item by a string in it; makes an example that a rule fits.

Rule and text are folded alike, so that a rule fits the texts that its author expects. A rule that
no text fits is refused when the map is read, because it would never raise a class.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import MemoryClass  # noqa: TC001 - msgspec reads the annotation
from policy.text.skeleton import skeleton
from proxy.dialects.mcp.places import LISTS, meant_by

_PATTERN_LEN_MAX: Final = 256
_MATCHED_LEN_MAX: Final = 256

Path = Annotated[str, Meta(min_length=1, max_length=256)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"[\W_]+")

# Allowed patterns: no groups, and at most one repetition between two bars. The matching time of
# others may grow with a power of the text's length, and an agent writes the text.
_ATOM: Final = r"(?:\\[dDwWsSbB]|\\[^\w\s]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}|*+?^$])"
_PIECES: Final = re.compile(rf"{_ATOM}|[*+?]|\{{[0-9,]*\}}|[|^$]")
_REPETITION: Final = re.compile(r"[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}")


class RuleError(ValueError):
    """The error for a class rule that fits nothing, or cannot be tried in time.

    Its text says why.
    """


class ClassRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Raises the class of an item by a string in it. Exactly one of the three tests is given.

    `words`: one of these entries stands in the string as a word, or as several words in a row
    (`user_Preference` has `preference`). "$steering" and "$places" stand for the lists of
    `proxy.dialects.mcp.places`. `prefixes`: it begins with one of them. `pattern`: it fits
    somewhere in its first 256 characters. All are compared as skeletons: case, accents and
    lookalike letters change nothing.
    """

    path: Path
    memory_class: MemoryClass
    words: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    prefixes: Annotated[tuple[Word, ...], Meta(max_length=64)] = ()
    pattern: Annotated[str, Meta(max_length=_PATTERN_LEN_MAX)] = ""


class _Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A class rule in the simplified form in which it is compared with texts."""

    words: frozenset[str]
    phrases: tuple[str, ...]
    prefixes: tuple[str, ...]
    pattern: re.Pattern[str] | None


def fits(rule: ClassRule, text: str) -> bool:
    """Whether the rule raises the class of an item that has this string at the rule's path."""
    sought = _folded(rule)
    if rule.words:
        words = _words_of(text)
        if not sought.words.isdisjoint(words):
            return True
        line = f" {' '.join(words)} "
        return any(phrase in line for phrase in sought.phrases)
    folded = skeleton(text)
    if sought.pattern is None:
        return folded.startswith(sought.prefixes)
    return sought.pattern.search(folded[:_MATCHED_LEN_MAX]) is not None


def example_of(rule: ClassRule) -> str:
    """A string that the rule fits.

    Raises:
        RuleError: No example can be made from the rule's words, or matching may take too long.
    """
    given = rule.words or rule.prefixes
    for one in given:
        if not one.startswith("$") and not (_words_of(one) if rule.words else skeleton(one)):
            raise RuleError(f"{one!r} has no letter that is compared")
    try:
        example = _spelled(rule.pattern) if rule.pattern else _plain(given[0])
        # A rule is never tried against a blank at the end of a text, so the example gets one more
        # word behind the blank.
        for one in (example, f"{example}x"):
            if fits(rule, one):
                return one
    except re.error as error:
        raise RuleError(f"pattern: {error}") from None
    raise RuleError(f"fits nothing, not even {example!r}")


def _plain(given: str) -> str:
    return min(LISTS[given]) if given in LISTS else given


@lru_cache(maxsize=1_024)
def _folded(rule: ClassRule) -> _Folded:
    words = [_words_of(word) for word in meant_by(rule.words) if word not in LISTS]
    return _Folded(
        words=frozenset(one[0] for one in words if len(one) == 1),
        phrases=tuple(f" {' '.join(one)} " for one in words if len(one) > 1),
        prefixes=tuple(skeleton(prefix) for prefix in rule.prefixes),
        pattern=re.compile("".join(_pieces(rule.pattern))) if rule.pattern else None,
    )


def _words_of(text: str) -> list[str]:
    folded = skeleton(_CAMEL.sub(" ", text))
    return [word for word in _NO_WORD.split(folded) if word]


def _pieces(pattern: str) -> list[str]:
    """The atoms, repetitions, bars and anchors of a pattern, with its letters folded as texts are.

    Raises:
        RuleError: The pattern contains anything else.
    """
    pieces: list[str] = []
    at, repeated = 0, False
    while at < len(pattern):
        found = _PIECES.match(pattern, at)
        if found is None:
            raise RuleError(f"pattern: {pattern[at : at + 8]!r}: groups and the like are not taken")
        piece, at = found[0], found.end()
        if _REPETITION.fullmatch(piece):
            if repeated or not pieces or pieces[-1] in {"|", "^", "$"}:
                raise RuleError("pattern: one repetition between two bars, behind what it repeats")
            repeated = True
        elif piece == "|":
            repeated = False
        pieces.append(piece if piece.startswith("\\") else _lowered(piece))
    return pieces


def _lowered(piece: str) -> str:
    if piece.startswith("["):
        if not piece.isascii():
            raise RuleError(f"pattern: {piece!r}: only plain letters between brackets")
        return re.sub(r"(?<!\\)[A-Z]", lambda one: one[0].lower(), piece)
    return re.escape(skeleton(piece)) if piece.isalnum() else piece


def _spelled(pattern: str) -> str:
    """An example of a string that fits the first alternative of a pattern."""
    spelled: list[str] = []
    for piece in _pieces(pattern):
        if piece == "|":
            break
        repetition = _REPETITION.fullmatch(piece)
        if repetition is not None:
            least = re.match(r"\{([0-9]+)", piece)
            if least is not None and spelled:
                spelled.append(spelled[-1] * (int(least[1]) - 1))
            continue
        if piece not in {"^", "$", "\\b", "\\B"}:
            spelled.append(_one_of(piece))
    return "".join(spelled)


def _one_of(atom: str) -> str:
    sought = re.compile(atom)
    for char in string.ascii_lowercase + string.digits + string.punctuation + " " + "\n":
        if sought.fullmatch(char):
            return char
    # A single character is not taken as the example if it becomes several letters when it is
    # simplified.
    return atom.removeprefix("\\")
