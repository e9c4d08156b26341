"""The form of a language's data: groups of phrases, each with words that it cannot match without.

A directive is an instruction to the agent about its future behaviour: "always recommend ...", "from
now on ...", "when the user asks X, answer Y". A person's habit ("I always forget"), a report ("she
always recommends it") and advice between people ("never give up") are not. An injection attacks
what the agent was told before. Both are found by the shape of the sentence, in a skeleton; single
words decide nothing.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from policy.text.bounded_gap import Reach


class Language(enum.Flag):
    """What a text was found to speak."""

    PLAIN = 0
    DIRECTIVE = enum.auto()
    INJECTION = enum.auto()


class Shapes(msgspec.Struct, frozen=True):
    """One pattern for each place in a sentence; None where there is none."""

    anywhere: re.Pattern[str] | None
    at_start: re.Pattern[str] | None
    at_clause: re.Pattern[str] | None
    reaching: tuple[Reach, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """Patterns that cannot match without certain words, so a cheap search for words comes first.

    One of `words` must occur, and one of `also` where that is not empty.
    """

    words: frozenset[str]
    speaks: Language
    shapes: Shapes
    also: frozenset[str] = frozenset()


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """One language's data. Its examples are tested.

    Orders that it must find, and honest texts that it must not.
    """

    name: str
    groups: tuple[Group, ...]
    # Matches where an imperative may begin: at a clause, or after a word that leads in.
    starts: re.Pattern[str]
    # Matches at a clause's beginning only: for verbs that people use to each other as well.
    clauses: re.Pattern[str]
    # The commonest phrases without spaces, for spaced-out letters that were joined.
    joined: tuple[tuple[Language, re.Pattern[str]], ...] = ()
    directives: tuple[str, ...]
    injections: tuple[str, ...]
    honest: tuple[str, ...]


# Prefixes of a pattern's source that say where it may match; `compiled` sorts the patterns by them.
START: Final = "<start>"
CLAUSE: Final = "<clause>"
REST: Final = r"(?:[^.!?\n]|[.](?=\S))"
"""The rest of a sentence, letter by letter; a dot inside a name ends none."""
_HEAD_LEN_MAX: Final = 80


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def compiled(*sources: str, reaching: tuple[Reach, ...] = ()) -> Shapes:
    """The patterns sorted by where they may match, each kind compiled into one."""
    by_place: dict[str, list[str]] = {"": [], START: [], CLAUSE: []}
    for source in sources:
        place = next((mark for mark in (START, CLAUSE) if source.startswith(mark)), "")
        by_place[place].append(f"(?:{source.removeprefix(place)})")
    one = {
        place: re.compile("|".join(found)) if found else None for place, found in by_place.items()
    }
    return Shapes(one[""], one[START], one[CLAUSE], reaching)


def reach(head: str, rest: str, stretch_len: int, tail: str) -> Reach:
    """A pattern for "when X, do Y".

    A condition, at most so many characters, a joint, and an order.
    """
    return Reach(
        re.compile(head),
        re.compile(f"(?={tail})"),
        re.compile(rf"{head}{rest}{REST}{{0,{stretch_len}}}?{tail}"),
        _HEAD_LEN_MAX + stretch_len,
    )
