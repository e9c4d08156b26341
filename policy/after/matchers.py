"""Signals of a wrong answer, and matchers: words that an answer or memory must or must not have."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import Channel, MemoryClass
from policy.text.whole_words import ENTRY_LEN_MAX, EntryError, compiled

ENTRIES_MAX: Final = 16
"""How many entries `must` may have, and `must_not`."""

Entry = Annotated[str, Meta(min_length=1, max_length=ENTRY_LEN_MAX)]
Entries = Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]


class Applies(enum.Enum):
    """What a matcher is compared with: retrieved memories, finished replies, or both."""

    ANSWER = "answer"
    RETRIEVAL = "retrieval"
    BOTH = "both"


class Matcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Entries that texts must and must not contain. An entry is a literal, or `re:` and a pattern.

    All entries are searched for in the skeleton, as whole words (`policy.text.whole_words`).
    """

    must: Entries = ()
    """Entries that an answer, or the texts that a search finds, must all contain."""
    must_not: Entries = ()
    """Entries that no answer, and no memory that is shown, may contain."""
    applies: Applies = Applies.BOTH
    memory_class: MemoryClass | None = None
    """The class of memories that are compared with the matcher; None: all classes."""

    @property
    def of_retrieval(self) -> bool:
        """Whether memories that are about to be shown are compared with this matcher."""
        return self.applies is not Applies.ANSWER

    @property
    def of_answers(self) -> bool:
        """Whether finished replies are compared with this matcher."""
        return self.applies is not Applies.RETRIEVAL


def check_matcher(matcher: Matcher) -> None:
    """Refuse a matcher with an entry that cannot be used, or without any entry.

    Raises:
        ValueError: The message names the entry, what is wrong with it, and at which character.
    """
    if not matcher.must and not matcher.must_not:
        raise ValueError("a matcher needs `must` or `must_not`")
    for name, entries in (("must", matcher.must), ("must_not", matcher.must_not)):
        for place, entry in enumerate(entries, 1):
            try:
                compiled(entry)
            except EntryError as error:
                raise ValueError(f"{name}, entry {place}: {error}") from None


class SignalKind(enum.Enum):
    """Where a signal came from. Stable words: they are stored, counted and shown."""

    OPERATOR = "operator"
    PERSON = "person"
    AGENT = "agent"
    ANCHOR = "anchor"
    CANARY = "canary"
    JUDGE = "judge"


class Grade(enum.Enum):
    """What a feedback says about a reply, a recall or a memory."""

    WRONG = "wrong"
    IRRELEVANT = "irrelevant"
    GOOD = "good"


_BY_CHANNEL: Final = {
    Channel.OPERATOR: SignalKind.OPERATOR,
    Channel.USER: SignalKind.PERSON,
    Channel.AGENT: SignalKind.AGENT,
}
_OPENS: Final = frozenset(SignalKind) - {SignalKind.AGENT}


def kind_of(channel: Channel) -> SignalKind:
    """The kind of signal that feedback from a principal of this channel counts as."""
    return _BY_CHANNEL[channel]


def opens_case(kind: SignalKind, grade: Grade) -> bool:
    """Whether a signal of this kind and grade starts the search for a culprit.

    An agent's signal does not, because an agent that a memory steers could have honest memories
    blamed. Only the grade `wrong` does: the other two grades rate one hit's rank in a search.
    """
    return grade is Grade.WRONG and kind in _OPENS
