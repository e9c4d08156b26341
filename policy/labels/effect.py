"""How a change of a memory on another server alters the text there, as far as it can be known.

The upstream server keeps the text, and this sidecar saw every call that changed it. Where the first
call set the whole text, and a tool map says what each later call did to it, the text is known
without asking the server. A change of a known text is judged by the whole text that results. For
any other change the resulting text is unknown.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from policy.model import TEXT_LEN_MAX
from policy.text.skeleton import skeleton

NEWLINE: Final = "\n"
NOTHING: Final = -1
"""The number of a string that a call does not have; such a string counts as empty."""
_WORD: Final = re.compile(r"[^\W_]+")
EDITS_MAX: Final = 1_024
"""A text that was changed more often since it was last set counts as unknown."""


class EffectKind(enum.Enum):
    """What a call does to the text under its key: sets it, adds to it, or replaces a part."""

    __hash__ = object.__hash__

    SET = 1  # The text becomes the given one, no matter what it was before.
    APPEND = 2  # The given text is added at the end, on a line of its own.
    INSERT = 3  # The given text is added after the given line.
    REPLACE = 4  # The given text takes the place of the single occurrence of the old text.


class Effect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a call to another server changes the text that the server keeps under the call's key.

    `text` and `old` say which of the call's strings are the new and the old text: each is a
    string's number among those that a read shows, or `NOTHING`. They are numbers and not texts,
    because the effect is kept in the candidate's metadata, where every text would be judged once
    more.
    """

    how: EffectKind
    text: int
    old: int = NOTHING
    line: int = NOTHING


def text_after(before: str | None, pieces: Sequence[str], effect: Effect | None) -> str | None:
    """The text under the key after a call; None where the resulting text is not known.

    The old text of a replacement must occur exactly once: servers differ in what they do otherwise.
    """
    said = None if effect is None else _piece(pieces, effect.text)
    if effect is None or said is None:
        return None
    after: str | None = None
    if effect.how is EffectKind.SET:
        after = said
    elif before is None:
        return None
    elif effect.how is EffectKind.APPEND:
        after = f"{before}{NEWLINE}{said}" if before else said
    elif effect.how is EffectKind.INSERT:
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


class LineChanges(NamedTuple):
    """The lines that a change removes from a text (`gone`), and those that it adds (`new`)."""

    gone: frozenset[str]
    new: frozenset[str]

    @property
    def keeps_half(self) -> bool:
        """Whether at least half of the words of the removed lines are in the added lines."""
        gone = _words("\n".join(self.gone))
        return 2 * len(gone & _words("\n".join(self.new))) >= len(gone)


def lines_of(text: str) -> frozenset[str]:
    """The lines of a text as they are compared: skeletons without spaces around them."""
    shapes = (skeleton(line).strip() for line in text.split(NEWLINE))
    return frozenset(shape for shape in shapes if shape)


def changed_lines(
    before: str | None, pieces: Sequence[str], effect: Effect | None
) -> LineChanges | None:
    """The lines that a call removes from the text under its key, and those that it adds.

    None where it is not known what the call leaves in place. Where the text before is not known,
    the old and the new string of the call itself are compared.
    """
    if effect is None or effect.how is EffectKind.SET:
        after = text_after(before, pieces, effect)
        if before is None or after is None:
            return None
        return _between(before, after)
    new = _piece(pieces, effect.text)
    if new is None:
        return None
    if effect.how is not EffectKind.REPLACE:
        return LineChanges(frozenset(), lines_of(new))
    after = text_after(before, pieces, effect)
    if before is not None and after is not None:
        return _between(before, after)
    old = _piece(pieces, effect.old)
    return None if old is None else LineChanges(lines_of(old), lines_of(new))


def _between(before: str, after: str) -> LineChanges:
    # A change of case or accents alone is a change too, so the lines are compared as they are.
    was, becomes = ({line.strip() for line in text.split(NEWLINE)} for text in (before, after))
    return LineChanges(lines_of(NEWLINE.join(was - becomes)), lines_of(NEWLINE.join(becomes - was)))


def keeps_half(before: str, after: str) -> bool:
    """Whether a new text keeps at least half of the words of the text before it."""
    words = _words(before)
    return 2 * len(words & _words(after)) >= len(words)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(skeleton(text)))
