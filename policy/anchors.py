"""Whether a candidate outranks or contradicts an anchor (MWP 3.2, check 8). No model takes part.

The comparison is lexical and explainable: two sentences say almost the same, and differ in a
negation, a number, an opposite or one value. A contradiction in quite other words is not found.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, cast

import msgspec

# Two sentences are about the same thing if both have at least this share of the shorter one's
# words.
_SAME_SUBJECT_MIN: Final = 0.5
# Two sentences must also share this part of the anchor's words, or a text of two words would
# contradict a long statement.
_OF_ANCHOR_MIN: Final = 0.5
_SHARED_WORDS_MIN: Final = 2
_REPLACED_LEN_MAX: Final = 3
_SENTENCES_MAX: Final = 200
# For one text, at most so many pairs of a sentence and a statement are compared word by word.
_COMPARED_MAX: Final = 20_000


def _in_order(text: str) -> list[str]:
    return text.split()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_METADATA: Final = msgspec.json.Decoder()
_UNJOINED: Final = re.compile(r"[-_./:]+")
_SENTENCE = re.compile(r"[.!?;\n]+(?=\s|$)|\n+")
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?")
_NEGATIVE: Final = _words(
    "not no never none nobody nothing neither nor cannot without hardly avoid refuse"
)
_EMPTY: Final = _words(
    "a an the this that these those of and or our your my their his her its we you i they he "
    "she it is are was were be been being am do does did has have had will would shall should "
    "must may might can could to for in on at by with from as so just also only very please "
    "all any every always"
)
# A word such as "is" divides a statement: the subject is before the word, the value after it.
_STATES: Final = _words(
    "is are was were be must should shall will can may has have costs cost use uses needs "
    "need requires require to for at by with from in on within after before until equals "
    "means named called"
)
_OPPOSITES: Final = _in_order(
    "allow/deny allow/forbid allow/prohibit permit/forbid permit/deny permit/prohibit "
    "enable/disable accept/reject accept/refuse approve/reject approve/deny include/exclude "
    "before/after more/less above/below over/under minimum/maximum least/most "
    "required/optional mandatory/optional true/false open/closed public/private on/off "
    "safe/unsafe trusted/untrusted free/paid increase/decrease start/stop always/never "
    "everyone/nobody internal/external encrypt/decrypt encrypted/plaintext morning/evening "
    "day/night left/right buy/sell secure/insecure legal/illegal refundable/nonrefundable"
)


def _both_ways(pairs: list[str]) -> dict[str, frozenset[str]]:
    opposites: dict[str, frozenset[str]] = {}
    for pair in pairs:
        one, _, other = pair.partition("/")
        opposites[one] = opposites.get(one, frozenset()) | {other}
        opposites[other] = opposites.get(other, frozenset()) | {one}
    return opposites


_OPPOSITE: Final = _both_ways(_OPPOSITES)
_NUMBERS: Final[dict[str, str]] = dict(
    zip(
        _in_order("zero one two three four five six seven eight nine ten eleven twelve"),
        map(str, range(13)),
        strict=True,
    )
)


class _Sentence(msgspec.Struct, frozen=True):
    words: tuple[str, ...]  # every word of the sentence, stemmed
    # The words of the sentence without numbers, negations and words that carry no meaning.
    content: frozenset[str]
    numbers: frozenset[str]
    negations: int


class Statements:
    """The statements that texts are compared with, indexed by their words. Immutable when built.

    A text is read once, and each of its sentences is compared only with the statements that share
    enough of its words, so statements about other subjects cost next to nothing.
    """

    def __init__(self, skeletons: Sequence[str]) -> None:
        self._stated = [
            (place, sentence)
            for place, skeleton in enumerate(skeletons)
            for sentence in _sentences(skeleton)
        ]
        self._all = frozenset(range(len(skeletons)))
        self._by_word: dict[str, list[int]] = {}
        for number, (_, sentence) in enumerate(self._stated):
            for word in sentence.content:
                self._by_word.setdefault(word, []).append(number)

    def contradicted_by(self, skeleton: str) -> frozenset[int]:
        """The numbers of the statements that a sentence of the text denies or changes a value of.

        A text with more sentences than are compared counts as contradicting every statement,
        because the contradiction could be in a sentence at its end.
        """
        parts = _parts(skeleton)
        return self._all if len(parts) > _SENTENCES_MAX else self._denied(parts, math.inf)

    def denied_by(self, skeleton: str) -> frozenset[int]:
        """The numbers of the statements that a sentence of a stored text denies.

        Unlike in `contradicted_by`, length alone never makes a text count as denying, because an
        honest memory would be hidden for it. Equal sentences are read once, and only the first
        `_COMPARED_MAX` pairs of a sentence and a statement are compared.
        """
        return self._denied(dict.fromkeys(_parts(skeleton)), _COMPARED_MAX)

    def _denied(self, parts: Iterable[str], compared_max: float) -> frozenset[int]:
        found: set[int] = set()
        compared = 0
        for part in parts:
            offered = _sentence(part)
            shared = Counter(
                number for word in offered.content for number in self._by_word.get(word, ())
            )
            for number, shared_len in shared.items():
                place, stated = self._stated[number]
                if place in found or not _same_subject(stated, offered, shared_len):
                    continue
                compared += 1
                if compared > compared_max:
                    return frozenset(found)
                if _denies(stated, offered):
                    found.add(place)
        return frozenset(found)


def contradicts(statement_skeleton: str, candidate_skeleton: str) -> bool:
    """Whether a text contradicts one statement; for several statements use `Statements`."""
    return bool(Statements((statement_skeleton,)).contradicted_by(candidate_skeleton))


def outranks(anchor_score: float, candidate_score: float, margin: float) -> bool:
    """Whether the candidate answers the anchor's own question better, by more than the margin.

    The scores are those of a search. A score that is not a number counts as outranking: what
    cannot be compared is no evidence of safety.
    """
    return not candidate_score <= anchor_score + margin


def _sentences(text: str) -> list[_Sentence]:
    return [_sentence(part) for part in _parts(text)[:_SENTENCES_MAX]]


def content_words(statement_skeleton: str) -> int:
    """The number of words that carry meaning, in the shortest sentence of a statement.

    A statement with fewer than three such words would match many honest texts.
    """
    return min((len(one.content) for one in _sentences(statement_skeleton)), default=0)


def _parts(text: str) -> list[str]:
    return [part for part in _SENTENCE.split(text) if part.strip()]


def lines_of(metadata_json: str) -> str:
    """The metadata as lines of text, one for each value: the keys that lead to it, and the value.

    Metadata that is not JSON is returned unchanged.
    """
    try:
        value: object = _METADATA.decode(metadata_json)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return metadata_json
    lines: list[str] = []
    pending: list[tuple[str, object]] = [("", value)]
    while pending:
        keys, found = pending.pop()
        if isinstance(found, dict):
            pairs = cast("dict[str, object]", found).items()
            pending.extend((f"{keys} {_UNJOINED.sub(' ', key)}", part) for key, part in pairs)
        elif isinstance(found, list):
            pending.extend((keys, part) for part in cast("list[object]", found))
        else:
            # A value may be a sentence of its own, or complete the sentence that its keys begin, so
            # both are written.
            lines.append(f"{keys} {found}")
            if isinstance(found, str):
                lines.append(found)
    return "\n".join(reversed(lines))


def line_of_name(name: str) -> str:
    """A name or id with spaces for its hyphens and dots, which may join the words of a sentence."""
    return _UNJOINED.sub(" ", name)


def _sentence(text: str) -> _Sentence:
    words: list[str] = []
    negations = 0
    numbers: set[str] = set()
    content: set[str] = set()
    found: list[str] = _WORD.findall(text.replace("\u2019", "'"))
    for word in found:
        plain = _NUMBERS.get(word, word)
        if plain in _NEGATIVE or plain.endswith("n't"):
            negations += 1
        elif plain[0].isdigit():
            numbers.add(plain.replace(",", ""))
            words.append(plain.replace(",", ""))
        else:
            stem = _stem(plain) if len(plain) <= _STEM_LEN_MAX else plain
            content.add(stem)
            words.append(stem)
    return _Sentence(tuple(words), frozenset(content - _EMPTY), frozenset(numbers), negations)


_STEM_LEN_MIN: Final = 4
_STEM_LEN_MAX: Final = 64
"""A longer word is neither stemmed nor cached."""


@lru_cache(maxsize=4_096)
def _stem(word: str) -> str:
    if word in _STATES or word in _EMPTY or word in _OPPOSITE:
        return word
    word = word.removesuffix("'s")
    for suffix in ("ing", "ed", "es", "s"):
        base = word.removesuffix(suffix)
        if base == word or len(base) < _STEM_LEN_MIN - 1:
            continue
        # The table of opposites has full words, so a word of the table gets its final letter back.
        return f"{base}e" if f"{base}e" in _OPPOSITE else base.removesuffix("e")
    return word.removesuffix("e") if len(word) > _STEM_LEN_MIN else word


def _denies(anchor: _Sentence, offered: _Sentence) -> bool:
    """Whether one sentence denies the other; the caller checks that both have the same subject."""
    opposed = _opposed(anchor, offered)
    if anchor.negations % 2 != offered.negations % 2:
        return not opposed
    if opposed:
        return True
    if anchor.numbers and offered.numbers:
        return not anchor.numbers & offered.numbers
    return _another_value(anchor, offered)


def _same_subject(anchor: _Sentence, offered: _Sentence, shared_len: int) -> bool:
    return (
        shared_len >= max(1, min(_SHARED_WORDS_MIN, len(anchor.content) - 1))
        and shared_len >= _SAME_SUBJECT_MIN * min(len(anchor.content), len(offered.content))
        and shared_len >= _OF_ANCHOR_MIN * len(anchor.content)
    )


def _opposed(anchor: _Sentence, offered: _Sentence) -> bool:
    """Whether one sentence has the opposite of a word of the other: "allow" and "forbid"."""
    new = set(offered.words) - set(anchor.words)
    return any(
        _OPPOSITE.get(word, frozenset()) & new for word in anchor.words if word not in offered.words
    )


def _another_value(anchor: _Sentence, offered: _Sentence) -> bool:
    """Whether the sentences differ in one value alone: "the port is 80", "the port is 81"."""
    matcher = difflib.SequenceMatcher(None, anchor.words, offered.words, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    if len(changes) != 1 or changes[0][0] != "replace":
        return False
    _, from_start, from_end, to_start, to_end = changes[0]
    if max(from_end - from_start, to_end - to_start) > _REPLACED_LEN_MAX:
        return False
    old, new = set(anchor.words[from_start:from_end]), set(offered.words[to_start:to_end])
    if not (old - _EMPTY) or not (new - _EMPTY):
        return False
    return bool(_STATES & set(anchor.words[:from_start]))
