"""Patterns with free text inside: a head, then at most so many characters, then a tail.

A plain regular expression would walk the whole stretch from every head, so a text of nothing but
heads would cost its length times the stretch. Here tails and sentence ends are found once, and only
a head with a tail before the end of its sentence is tried. The matches are the same.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import msgspec

_BREAK: Final = re.compile(r"[!?\n]|\.(?!\S)")


class Reach(msgspec.Struct, frozen=True):
    """A pattern `whole` that begins with `head`, and ends with `tail` within `length` characters.

    Neither `head` nor the free text behind it may cross the end of a sentence.
    """

    head: re.Pattern[str]
    tail: re.Pattern[str]
    whole: re.Pattern[str]
    length: int

    def found(self, text: str, start: int = 0, end: int = sys.maxsize) -> bool:
        """Whether the whole pattern matches anywhere in this part of the text."""
        tries = self.tries(text, start, end)
        return any(self.whole.match(text, begin, end) for begin in tries)

    def tries(self, text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[int]:
        """The positions where a match may begin: heads with a tail near enough behind them."""
        heads = [place.start() for place in self.head.finditer(text, start, end)]
        if not heads:
            return
        tails = [place.start() for place in self.tail.finditer(text, start, end)]
        if not tails:
            return
        breaks = [place.start() for place in _BREAK.finditer(text, start, end)]
        for begin in heads:
            at = bisect_left(tails, begin)
            if at == len(tails):
                return
            past = bisect_left(breaks, begin)
            stop = breaks[past] if past < len(breaks) else len(text)
            if tails[at] <= min(stop, begin + self.length):
                yield begin
