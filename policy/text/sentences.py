"""The sentences of a text, by which copies of them are found; a match decides no label.

The skeleton of a text is cut at line ends, and wherever a sentence certainly ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from policy.text.skeleton import skeleton
from policy.text.word_lists import word_list

_WORD_LEN_MAX: Final = 32
_ABBREVIATIONS: Final = frozenset(word_list("sentences", "abbreviations"))

_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_ALIKE: Final = {
    "'": "\u2018\u2019\u201a\u2032",
    '"': "\u201c\u201d\u201e\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "\n": "\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85\r",
    ".": "\u3002\uff0e\uff61\u06d4\u0964\u0965\u0589\u1362\u17d4\u104b\u0f0d",
    "...": "\u2026",
    "!": "\uff01",
    "?": "\uff1f\u061f\u037e",
    ":": "\uff1a",
    ",": "\uff0c\u3001\u060c",
    ";": "\uff1b\u061b",
    "(": "\uff08",
    ")": "\uff09",
    " ": "\x00",
}
_MARKS: Final = {ord(mark): plain for plain, marks in _ALIKE.items() for mark in marks}
_TERMINAL: Final = re.compile(rf"[.!?]+(?=[\s\x00]|$)|(?<=[{_UNSPACED}])[.!?]+(?=[{_UNSPACED}])")
_LAST_WORD: Final = re.compile(r"[^\s(\"']+$")
_INITIALS: Final = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")
_WORD: Final = re.compile(r"\w")
_TAG: Final = re.compile(r"</?[A-Za-z][\w.:-]{0,63}(?:\s[^<>\n]{0,200})?/?>")

_ITEM: Final = re.compile(
    r" ?(?:[-*\u2022\u00b7\u2023+]|\(?([0-9]{1,3})[.)]|\(?([a-z])[.)])[ \n](?=\S)"
)
_AROUND: Final = "\"'`*_> "
# Marks after which a part of a sentence may be quoted alone, and marks at which that quotation may
# end.
_CUT: Final = re.compile(
    r"[-:,;\"`()\[\]|]+ ?(?=\S)|(?<!\w)'(?=\w)"
    r"|\b(?:that|say|write|type|answer|reply|paste|send|enter|dass|sag|schreib|antworte) (?=\S)"
    r"| (?=(?:i|i'm|i've|i'd|i'll|my|we|our|ich|mein|meine|wir) )"
)
_CLOSING: Final = re.compile(r"[\"`()\[\]|;]|'(?!\w)| - ")
_CUTS_MAX: Final = 512
_TOLD_LEN_MAX: Final = 640


def sentences_of(text: str) -> tuple[str, ...]:
    """The sentences and lines of a text, as skeletons."""
    found: list[str] = []
    for line in skeleton(text).translate(_MARKS).split("\n"):
        item = _ITEM.match(line)
        for part in _parts(line[item.end() :] if item else line):
            sentence = _normal(part.strip(_AROUND))
            if sentence and _WORD.search(sentence):
                found.append(sentence)
    return tuple(found)


def sentences_between(text: str) -> tuple[str, ...]:
    """The sentences of a text as skeletons; unlike in `sentences_of`, a tag ends a sentence."""
    return sentences_of(_TAG.sub("\n", text) if "<" in text else text)


def tails_of(sentence: str) -> Iterator[str]:
    """The parts of a sentence that may be quoted alone: those that begin after a mark.

    Marks are a colon, a dash, a comma, a quotation mark, a bracket, and words such as "that" and
    "write". A part reaches to the sentence's end, or to where a quotation closes. The part before
    the first bracket counts too.
    """
    before = _CLOSING.search(sentence[:_TOLD_LEN_MAX])
    if before is not None and before.start():
        yield _normal(sentence[: before.start()].strip(_AROUND))
    for cut in islice(_CUT.finditer(sentence), _CUTS_MAX):
        rest = sentence[cut.end() : cut.end() + _TOLD_LEN_MAX]
        yield _normal(rest.strip(_AROUND))
        closing = _CLOSING.search(rest)
        if closing is not None:
            yield _normal(rest[: closing.start()].strip(_AROUND))


def _normal(sentence: str) -> str:
    """A sentence without its final mark; only a question mark is kept."""
    sentence = " ".join(sentence.split())
    bare = sentence.rstrip(".!? ")
    return bare + "?" if "?" in sentence[len(bare) :] else bare


def ends_of(text: str) -> Iterator[int]:
    """The places in a paragraph at which a sentence certainly ends, except the paragraph's end."""
    start = 0
    for mark in _TERMINAL.finditer(text):
        if _is_end(text, start, mark):
            start = mark.end()
            yield start


def _parts(text: str) -> list[str]:
    """The parts of a paragraph, cut only at places where a sentence certainly ends."""
    text = text.rstrip()
    cuts = (0, *ends_of(text), len(text))
    return [text[start:end] for start, end in pairwise(cuts) if text[start:end].strip()]


def _is_end(text: str, start: int, mark: re.Match[str]) -> bool:
    if mark[0].startswith("..") or mark.end() == len(text):
        # No sentence ends here: the mark is an ellipsis ("..."), or the last one of the paragraph.
        return False
    if mark[0] != ".":
        return True
    word = _LAST_WORD.search(text[max(start, mark.start() - _WORD_LEN_MAX) : mark.start()])
    if word is None:
        return False
    last = word[0]
    number = last.isdecimal() and len(last) <= 2  # noqa: PLR2004 - "the 3. of May", "1. tea"
    return not (number or len(last) == 1 or last in _ABBREVIATIONS or _INITIALS.fullmatch(last))
