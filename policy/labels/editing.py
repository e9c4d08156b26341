"""What a change of a memory behind another server makes of the text that is there.

A server behind us keeps the text; we saw every call that made it. Where the first of them set the
whole text, and a map says what each later one did to it, the text is known without asking anybody.
A change of such a text is judged by what it will say; of any other one, nobody knows what it says.
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
"""In place of a piece's number: the empty text."""
_WORD: Final = re.compile(r"[^\W_]+")
EDITS_MAX: Final = 1_024
"""A text that was changed more often since it was last set counts as unknown."""


class How(enum.Enum):
    """What a call does to the text under its key."""

    __hash__ = object.__hash__

    SET = 1  # the text is this, whatever it was
    APPEND = 2  # this comes behind it, on a line of its own
    INSERT = 3  # this comes behind so many of its lines
    REPLACE = 4  # this comes in place of the one place where the old text stands


class Effect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a call changes the text under its key; texts are numbers of its pieces, or `NOTHING`.

    Numbers alone: it stands in the metadata of a candidate, which is read like the text.
    """

    how: How
    text: int
    old: int = NOTHING
    line: int = NOTHING


def text_after(before: str | None, pieces: Sequence[str], effect: Effect | None) -> str | None:
    """The text once a call was done; None where nobody can say what it will be.

    A replacement of what stands in no place, or in several, is done differently by every server.
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
    """In how many places it stands, overlapping ones too: servers count them differently."""
    at, count = text.find(old), 0
    while at >= 0 and count < 2:  # noqa: PLR2004 - one, or more than one
        count += 1
        at = text.find(old, at + 1)
    return count


class TextStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What the sidecar's own verdicts say of the text under a key; nothing a client claims.

    `text` is None where nobody knows. `mine`: all that it is made of was written by this principal,
    and nothing under the key waits for the server's answer. `source` and `ceiling` are the lowest
    of its labels.
    """

    text: str | None = None
    mine: bool = False
    source: SourceKind = SourceKind.UNKNOWN
    ceiling: SourceKind = SourceKind.UNKNOWN
    # The most powerful class among the memories under the key.
    memory_class: MemoryClass | None = None


NOBODY_KNOWS: Final = TextStanding()


class Looked(NamedTuple):
    """What an edit asks of what entered a session: which of it brings more than was known."""

    known: str
    fresh: str


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a text that is known: before and after it, and the former's labels and class."""

    before: str
    after: str
    source: SourceKind
    ceiling: SourceKind
    memory_class: MemoryClass

    @property
    def says_more(self) -> bool:
        """Whether a word stands there afterwards that did not before: else it is a removal."""
        return not _words(self.after) <= _words(self.before)

    def looked(self, key: str) -> Looked:
        """What is known is the text and its name; fresh are the lines that were not there, whole.

        A word that is changed says nothing alone; the line that it stands in may be a page's.
        """
        before = frozenset(self.before.split(NEWLINE))
        fresh = (line for line in self.after.split(NEWLINE) if line not in before)
        return Looked(known=f"{key}{NEWLINE}{self.before}", fresh=NEWLINE.join(fresh))


def edit_of(
    standing: TextStanding, pieces: Sequence[str], effect: Effect | None, change: ChangeKind
) -> Edit | None:
    """The edit that a call is; None where it is none, or of a text that nobody knows whole."""
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
