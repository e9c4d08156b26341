"""The form of a language's data about a person's own words.

Each language is a file beside this one.
"""

from __future__ import annotations

import msgspec


class ThirdPerson(msgspec.Struct, frozen=True, kw_only=True):
    """How a language turns the first person into "the user". All words are in lower case."""

    user: str
    # The pronoun that a verb goes with ("I"), and its contractions with a verb ("I'm").
    subject: str
    contracted: dict[str, str]
    # Words besides "I" with which a person speaks of herself ("my"). Each is replaced by a form of
    # "the user", so that the stored sentence is about nobody else.
    others: dict[str, str]
    verbs: dict[str, str]
    # Words that may stand between the subject and its verb.
    adverbs: frozenset[str]
    # Verb forms that are alike in the first and third person, as those of the past are.
    alike: frozenset[str]
    alike_endings: tuple[str, ...]
    # For any other verb: the endings to look for, in this order, and what replaces each.
    endings: tuple[tuple[str, str], ...]


class OwnWords(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one language. All in lower case, with straight apostrophes.

    A request to remember is any number of `courtesies`, one of `keeping`, and then one of `that`, a
    colon (behind one of `this`, or none), or a person who speaks of herself.
    """

    courtesies: tuple[str, ...]
    keeping: tuple[str, ...]
    # Requests that need a colon or a comma behind them: "For future reference, ..."
    labels: tuple[str, ...]
    that: tuple[str, ...]
    this: tuple[str, ...]
    herself: tuple[str, ...]
    # Words that begin an answer, and words that point at something said before.
    answers: frozenset[str]
    pointing: frozenset[str]
    # Words that introduce somebody else's text.
    forwarded: tuple[str, ...]
    third_person: ThirdPerson | None = None


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as one string, separated by spaces."""
    return frozenset(text.split())
