"""The form of a language's data: groups of phrases, each with words that must occur for a match.

A directive is an instruction to the agent about its future behaviour: "always recommend ...", "from
now on ...", "when the user asks X, answer Y". A person's habit ("I always forget"), a report ("she
always recommends it") and advice between people ("never give up") are not. An injection attacks the
instructions that the agent was given before. Directives and injections are found by the shape of
the sentence, in a skeleton; single words decide nothing.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import msgspec

_BREAK: Final = re.compile(r"[!?\n]|\.(?!\S)")


class Reach(msgspec.Struct, frozen=True):
    """A pattern `whole` that begins with `head`, and ends with `tail` within `length` characters.

    Neither `head` nor the free text after it may cross the end of a sentence. A plain regular
    expression would walk the whole stretch from every head, so a text of nothing but heads would
    cost its length times the stretch: here only a head with a tail near enough is tried.
    """

    head: re.Pattern[str]
    tail: re.Pattern[str]
    whole: re.Pattern[str]
    length: int

    def found(self, text: str, start: int = 0) -> bool:
        """Whether the whole pattern matches anywhere from `start` on."""
        return any(self.whole.match(text, begin) for begin in self.tries(text, start))

    def tries(self, text: str, start: int = 0) -> Iterator[int]:
        """The positions where a match may begin: heads with a tail near enough after them."""
        heads = [place.start() for place in self.head.finditer(text, start)]
        if not heads:
            return
        tails = [place.start() for place in self.tail.finditer(text, start)]
        if not tails:
            return
        breaks = [place.start() for place in _BREAK.finditer(text, start)]
        for begin in heads:
            at = bisect_left(tails, begin)
            if at == len(tails):
                return
            past = bisect_left(breaks, begin)
            stop = breaks[past] if past < len(breaks) else len(text)
            if tails[at] <= min(stop, begin + self.length):
                yield begin


class Language(enum.Flag):
    """The kinds of text: plain, a directive, an injection, an address beside what is at stake."""

    PLAIN = 0
    DIRECTIVE = enum.auto()
    INJECTION = enum.auto()
    STEERS = DIRECTIVE | INJECTION
    AT_STAKE = enum.auto()


class Shapes(msgspec.Struct, frozen=True, dict=True):
    """The patterns of a group, each source with the place in a sentence where it may match."""

    sources: tuple[str, ...]
    reaching: tuple[Reach, ...] = ()

    @cached_property
    def by_place(self) -> dict[str, re.Pattern[str]]:
        """One pattern for each place; "" is any place.

        Compiled when a text first has the group's words: most texts are in one language, and all
        groups take a tenth of a start's time.
        """
        found: dict[str, list[str]] = {}
        for source in self.sources:
            place = next((mark for mark in (START, CLAUSE) if source.startswith(mark)), "")
            found.setdefault(place, []).append(f"(?:{source.removeprefix(place)})")
        return {place: re.compile("|".join(each)) for place, each in found.items()}


class Group(msgspec.Struct, frozen=True):
    """Patterns with words that must occur for a match, so a cheap search for words comes first.

    One of `words` must occur, and one of `also` where that is not empty.
    """

    words: frozenset[str]
    speaks: Language
    shapes: Shapes
    also: frozenset[str] = frozenset()


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one language."""

    name: str
    groups: tuple[Group, ...]
    # Matches where an imperative may begin: at the start of a clause, or after a word that leads
    # in.
    starts: re.Pattern[str]
    # Matches only at the start of a clause: for verbs that people use to each other as well.
    clauses: re.Pattern[str]
    # The commonest phrases without spaces, for letters that were spaced out and are joined again.
    joined: tuple[tuple[Language, re.Pattern[str]], ...] = ()


# Prefixes of a pattern's source that say where in a sentence the pattern may match; `Shapes`
# sorts the patterns by them.
START: Final = "<start>"
CLAUSE: Final = "<clause>"
REST: Final = r"(?:[^.!?\n]|[.](?=\S))"
"""One character of the rest of a sentence; a dot inside a name does not end the sentence."""
_HEAD_LEN_MAX: Final = 80


def words_of(text: str) -> frozenset[str]:
    """The words of a text as a set, to be compared with the words that a group of phrases needs."""
    return frozenset(text.split())


def either(words: tuple[str, ...]) -> str:
    """A pattern that matches any one of the words."""
    return f"(?:{'|'.join(words)})"


def shapes_of(*sources: str, reaching: tuple[Reach, ...] = ()) -> Shapes:
    """The shapes with these sources of patterns."""
    return Shapes(sources, reaching)


def reach(head: str, rest: str, stretch_len: int, tail: str) -> Reach:
    """A pattern for orders such as "when X, do Y".

    The pattern has a condition, at most `stretch_len` characters, and a tail: a joint such as a
    comma, and an order.
    """
    return Reach(
        re.compile(head),
        re.compile(f"(?={tail})"),
        re.compile(rf"{head}{rest}{REST}{{0,{stretch_len}}}?{tail}"),
        _HEAD_LEN_MAX + stretch_len,
    )
