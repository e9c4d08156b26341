"""What a language says of a person's own words; the data are one file per language beside this."""

from __future__ import annotations

import msgspec


class ThirdPerson(msgspec.Struct, frozen=True, kw_only=True):
    """How what a person says of herself is said of "the user". All in lower case."""

    user: str
    # The word for herself that a verb goes with, and what it is together with a verb that is cut.
    subject: str
    contracted: dict[str, str]
    # Other words for herself; what they become says "the user" again, so that nobody else is meant.
    others: dict[str, str]
    verbs: dict[str, str]
    # Between the subject and its verb.
    adverbs: frozenset[str]
    # Verbs that are alike in both persons, as those of the past are.
    alike: frozenset[str]
    alike_endings: tuple[str, ...]
    # Of any other verb: the first ending that it has, and what stands instead.
    endings: tuple[tuple[str, str], ...]


class OwnWords(msgspec.Struct, frozen=True, kw_only=True):
    """One language. All in lower case, with straight apostrophes.

    A request to remember is any number of `courtesies`, one of `keeping`, and then one of `that`, a
    colon (behind one of `this`, or none), or a person who speaks of herself.
    """

    courtesies: tuple[str, ...]
    keeping: tuple[str, ...]
    # These need a colon or a comma: "For future reference, ..."
    labels: tuple[str, ...]
    that: tuple[str, ...]
    this: tuple[str, ...]
    herself: tuple[str, ...]
    # What begins an answer, and what points at something that was said before.
    answers: frozenset[str]
    pointing: frozenset[str]
    # What stands where somebody else's words begin.
    forwarded: tuple[str, ...]
    third_person: ThirdPerson | None = None


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())
