"""The parts of a user turn that stand between a pair of tags, whatever the tags are called. Pure.

Programs put texts into a person's turn between tags. A pair reaches from the first opening tag of a
name to its last closing tag, because the text between the two may have such tags as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(\s[^<>]*)?>")

_Place = tuple[int, int]
"""The index of a string, and a position in it."""


class TaggedPart(NamedTuple):
    """A part of a string between a pair of tags, the tags included.

    `name` is the tags' name in small letters, and empty where two pairs overlap.
    """

    start: int
    end: int
    name: str


class _Pair(NamedTuple):
    start: _Place
    end: _Place
    name: str


def tagged(texts: Sequence[str]) -> list[list[TaggedPart]]:
    """For each string of one turn its parts between tags, in order.

    A tag that is closed only in a later string includes the strings between.
    """
    found: list[list[TaggedPart]] = [[] for _ in texts]
    for start, end, name in _apart(sorted(_pairs(texts), key=lambda one: (one.start, _back(one)))):
        for at in range(start[0], end[0] + 1):
            begins = start[1] if at == start[0] else 0
            ends = end[1] if at == end[0] else len(texts[at])
            found[at].append(TaggedPart(begins, ends, name))
    return found


def _back(pair: _Pair) -> _Place:
    return -pair.end[0], -pair.end[1]


def _pairs(texts: Sequence[str]) -> Iterator[_Pair]:
    begun: dict[str, _Place] = {}
    across: dict[str, _Pair] = {}
    for at, text in enumerate(texts):
        first: dict[str, int] = {}
        newest: dict[str, int] = {}
        closed: dict[str, int] = {}
        for tag in _TAG.finditer(text):
            name = tag[2].lower()
            if tag[1]:
                closed[name] = tag.end()
                if name in begun and name not in first:
                    across[name] = _Pair(begun[name], (at, tag.end()), name)
            elif not (tag[3] or "").endswith("/"):
                first.setdefault(name, tag.start())
                newest[name] = tag.start()
        for name, start in first.items():
            if closed.get(name, 0) > start:
                yield _Pair((at, start), (at, closed[name]), name)
            if closed.get(name, 0) <= newest[name]:
                begun.setdefault(name, (at, newest[name]))
    yield from across.values()


def _apart(pairs: list[_Pair]) -> list[_Pair]:
    """The outermost pairs; two that overlap are one without a name."""
    apart: list[_Pair] = []
    for pair in pairs:
        last = apart[-1] if apart else None
        if last is None or pair.start >= last.end:
            apart.append(pair)
        elif pair.end > last.end:
            apart[-1] = _Pair(last.start, pair.end, "")
    return apart
