"""How a change of a memory on another server alters the text there, as far as it can be known.

The server behind us keeps the text; we saw every call that made it. Where the first call set the
whole text, and a tool map says what each later one did to it, the text is known without asking the
server. A change of a known text is judged by the whole text that it leads to. For any other change
the resulting text is unknown.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policy.model import TEXT_LEN_MAX, ChangeKind, MemoryClass, SourceKind
from policy.text.skeleton import skeleton

if TYPE_CHECKING:
    from collections.abc import Sequence

NEWLINE: Final = "\n"
NOTHING: Final = -1
"""Stands for the empty text where a call has no such string."""
_WORD: Final = re.compile(r"[^\W_]+")
EDITS_MAX: Final = 1_024
"""A text that was changed more often since it was last set counts as unknown."""


class How(enum.Enum):
    """What a call does to the text under its key: sets it, adds to it, or replaces a part."""

    __hash__ = object.__hash__

    SET = 1  # The text becomes the given one, no matter what it was before.
    APPEND = 2  # The given text is added at the end, on a line of its own.
    INSERT = 3  # The given text is added behind the given line.
    REPLACE = 4  # The given text takes the place of the single occurrence of the old text.


class Effect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a call to another server changes the text that the server keeps under the call's key.

    `text` and `old` say which of the call's strings are the new and the old text: each is a
    string's number among those that a read shows, or `NOTHING`. They are numbers and not texts,
    because the effect is kept in the candidate's metadata, where every text would be judged once
    more.
    """

    how: How
    text: int
    old: int = NOTHING
    line: int = NOTHING


def text_after(before: str | None, pieces: Sequence[str], effect: Effect | None) -> str | None:
    """The text under the key after a call; None where nobody can say what it will be.

    The old text of a replacement must occur exactly once: servers differ in what they do otherwise.
    """
    said = None if effect is None else _piece(pieces, effect.text)
    if effect is None or said is None:
        return None
    after: str | None = None
    if effect.how is How.SET:
        after = said
    elif before is None:
        return None
    elif effect.how is How.APPEND:
        after = f"{before}{NEWLINE}{said}" if before else said
    elif effect.how is How.INSERT:
        after = _inserted(before, said, effect.line)
    else:
        after = _replaced(before, _piece(pieces, effect.old), said)
    return None if after is None or len(after) > TEXT_LEN_MAX else after


def _piece(pieces: Sequence[str], number: int) -> str | None:
    if number == NOTHING:
        return ""
    return pieces[number] if 0 <= number < len(pieces) else None


def _inserted(before: str, said: str, line: int) -> str | None:
    lines = before.split(NEWLINE)
    if not 0 <= line <= len(lines):
        return None
    return NEWLINE.join((*lines[:line], said.removesuffix(NEWLINE), *lines[line:]))


def _replaced(before: str, old: str | None, said: str) -> str | None:
    return before.replace(old, said) if old and _places_of(before, old) == 1 else None


def _places_of(text: str, old: str) -> int:
    """How often the old text occurs, overlapping occurrences included; counts up to two.

    Servers differ in how they count overlapping occurrences, so a text that overlaps itself counts
    as occurring twice.
    """
    at, count = text.find(old), 0
    while at >= 0 and count < 2:  # noqa: PLR2004 - one, or more than one
        count += 1
        at = text.find(old, at + 1)
    return count


class TextStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The text under a key, as far as our own verdicts tell it; no client's claim counts.

    `text` is None where it is unknown. `mine`: this principal wrote all of the text, and nothing
    under the key waits for the server's answer. `source` and `ceiling` are the lowest of its
    labels.
    """

    text: str | None = None
    mine: bool = False
    source: SourceKind = SourceKind.UNKNOWN
    ceiling: SourceKind = SourceKind.UNKNOWN
    # The most powerful class among the memories under the key.
    memory_class: MemoryClass | None = None


NOBODY_KNOWS: Final = TextStanding()


class Looked(NamedTuple):
    """What is searched for to find an edit's origin: words to find, and words to ignore."""

    known: str
    fresh: str


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a known text on a server behind us: the text before and after.

    The labels and the class are those that the text had before.
    """

    before: str
    after: str
    source: SourceKind
    ceiling: SourceKind
    memory_class: MemoryClass

    @property
    def says_more(self) -> bool:
        """Whether the edit adds a word that the text did not have.

        An edit that adds none is a removal.
        """
        return not _words(self.after) <= _words(self.before)

    def looked(self, key: str) -> Looked:
        """The edit as a search in the session's segments.

        `known` is the old text and the name of the memory. `fresh` is every changed line, whole: a
        changed word alone says nothing, but the line around the word may have been copied from a
        page.
        """
        before = frozenset(self.before.split(NEWLINE))
        fresh = (line for line in self.after.split(NEWLINE) if line not in before)
        return Looked(known=f"{key}{NEWLINE}{self.before}", fresh=NEWLINE.join(fresh))


def edit_of(
    standing: TextStanding, pieces: Sequence[str], effect: Effect | None, change: ChangeKind
) -> Edit | None:
    """The edit that a call makes.

    None where the call makes no edit, or where the text before it is not known whole.
    """
    before = standing.text if standing.mine and change is ChangeKind.UPDATE else None
    after = text_after(before, pieces, effect)
    if before is None or after is None or standing.memory_class is None:
        return None
    return Edit(
        before=before,
        after=after,
        source=standing.source,
        ceiling=standing.ceiling,
        memory_class=standing.memory_class,
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(skeleton(text)))
