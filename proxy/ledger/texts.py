"""Strings out of JSON values, and sentences and readings out of strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

from policy.text.readings import readings_of
from policy.text.sentences import sentences_of

_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n+")
_TAG: Final = re.compile(r"</?[A-Za-z][\w.:-]{0,63}(?:\s[^<>\n]{0,200})?/?>")
_WORDS: Final = re.compile(r"[^\W_]+")


def all_readings(text: str) -> tuple[str, ...]:
    """The readings of a text, without those that have the words of another one in a row."""
    known = [_WORDS.findall(text)]
    found = [text]
    for reading in readings_of(text):
        words = _WORDS.findall(reading)
        if words not in known:
            known.append(words)
            found.append(reading)
    return tuple(found)


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each paragraph; together the paragraphs cover the text."""
    at = 0
    for gap in _PARAGRAPH.finditer(text):
        if text[at : gap.start()].strip():
            yield at, gap.end()
            at = gap.end()
    if text[at:].strip():
        yield at, len(text)


def sentences_between(text: str) -> tuple[str, ...]:
    """The sentences of a text; tags end a sentence."""
    return sentences_of(_TAG.sub("\n", text) if "<" in text else text)


def strings_in(value: object) -> Iterator[str]:
    """Every string inside a JSON value, keys excluded."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            pending.extend(reversed(cast("list[object]", part)))
        elif isinstance(part, dict):
            pending.extend(reversed(list(cast("dict[str, object]", part).values())))
