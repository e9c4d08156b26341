"""What the data of a language is made of: groups of phrases, and words that each cannot do without.

A directive is an instruction to the agent about its future behaviour: "always recommend ...", "from
now on ...", "when the user asks X, answer Y". A person's habit ("I always forget"), a report ("she
always recommends it") and advice between people ("never give up") are not. An injection attacks
what the agent was told before. Both are found by shape, in a skeleton; words alone decide nothing.
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
    """One pattern for each kind of place; None where there is none."""

    anywhere: re.Pattern[str] | None
    at_start: re.Pattern[str] | None
    at_clause: re.Pattern[str] | None
    reaching: tuple[Reach, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """Shapes that cannot match unless words are there: the cheap look comes first.

    One of `words` must be there, and one of `also` where that is not empty.
    """

    words: frozenset[str]
    speaks: Language
    shapes: Shapes
    also: frozenset[str] = frozenset()


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """One language. A test reads each example: what it must find, and what it must leave alone."""

    name: str
    groups: tuple[Group, ...]
    # Where an imperative may begin: a clause, or after a word that leads in.
    starts: re.Pattern[str]
    # Only a clause: for verbs that people use on each other as well.
    clauses: re.Pattern[str]
    # The commonest phrases with nothing between their words, as spaced-out letters are once joined.
    joined: tuple[tuple[Language, re.Pattern[str]], ...] = ()
    directives: tuple[str, ...]
    injections: tuple[str, ...]
    honest: tuple[str, ...]


# Prefixes of a pattern's source that say where it may match; `compiled` sorts by them.
START: Final = "<start>"
CLAUSE: Final = "<clause>"
REST: Final = r"(?:[^.!?\n]|[.](?=\S))"
"""The rest of a sentence, letter by letter; a dot inside a name ends none."""
_HEAD_LEN_MAX: Final = 80


def words_of(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def compiled(*sources: str, reaching: tuple[Reach, ...] = ()) -> Shapes:
    """The patterns, sorted by where they may match, each kind as one."""
    by_place: dict[str, list[str]] = {"": [], START: [], CLAUSE: []}
    for source in sources:
        place = next((mark for mark in (START, CLAUSE) if source.startswith(mark)), "")
        by_place[place].append(f"(?:{source.removeprefix(place)})")
    one = {
        place: re.compile("|".join(found)) if found else None for place, found in by_place.items()
    }
    return Shapes(one[""], one[START], one[CLAUSE], reaching)


def reach(head: str, rest: str, stretch_len: int, tail: str) -> Reach:
    """A condition, so many characters at most, a joint, and what is to be done then."""
    return Reach(
        re.compile(head),
        re.compile(f"(?={tail})"),
        re.compile(rf"{head}{rest}{REST}{{0,{stretch_len}}}?{tail}"),
        _HEAD_LEN_MAX + stretch_len,
    )
