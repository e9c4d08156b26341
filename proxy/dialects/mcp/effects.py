"""A tool's effect on the text under its key, as a map declares it, and the effect of one call."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.labels.effect import NOTHING, Effect, EffectKind
from proxy.dialects.mcp.paths import MisfitError, Pattern, parse_path, places
from proxy.dialects.strict_json.strict import JsonValue

_Path = Annotated[str, Meta(min_length=1, max_length=256)]
LINE_MAX: Final = 1_000_000


class TextEffect(enum.Enum):
    """How a call changes the text under its key: it sets, extends or partly replaces the text."""

    SET = "set"
    APPEND = "append"
    INSERT = "insert"
    REPLACE = "replace"


_HOW: Final = {
    TextEffect.SET: EffectKind.SET,
    TextEffect.APPEND: EffectKind.APPEND,
    TextEffect.INSERT: EffectKind.INSERT,
    TextEffect.REPLACE: EffectKind.REPLACE,
}


class EffectRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a tool changes the text under its key, and which arguments contain the details.

    `text`, `old` and `line` are paths to the new text, the old text and the line number.
    """

    how: TextEffect
    text: _Path
    # For a replacement: the text to be replaced. The server replaces it if it occurs exactly once.
    old: _Path | None = None
    # For an insertion: the number of the line after which the text is inserted; absent or -1 means
    # at the end.
    line: _Path | None = None

    @property
    def paths(self) -> Iterator[str]:
        """Every path in the rule that leads into the arguments of a call."""
        yield from (one for one in (self.text, self.old, self.line) if one is not None)

    @property
    def fits(self) -> bool:
        """Whether `old` is given exactly for a replacement, and `line` only for an insertion."""
        replaces, inserts = self.how is TextEffect.REPLACE, self.how is TextEffect.INSERT
        return (self.old is not None) == replaces and (self.line is None or inserts)


def effect_of(rule: EffectRule, taken: dict[str, JsonValue]) -> Effect | None:
    """The effect of a call on the text under its key; None if the effect is unknown.

    `taken` are the call's arguments with each piece (judged string) replaced by its number.
    """
    text, old = _piece(rule.text, taken), NOTHING
    if rule.old is not None:
        found = _piece(rule.old, taken)
        if found in {None, NOTHING}:
            return None
        old = found or 0
    if text is None:
        # Without a new text, a replacement removes the old text; a call of any other kind is no
        # edit.
        if rule.how is not TextEffect.REPLACE or _has(rule.text, taken):
            return None
        text = NOTHING
    if rule.how is TextEffect.INSERT:
        return _insertion(rule, text, taken)
    return Effect(how=_HOW[rule.how], text=text, old=old)


def _insertion(rule: EffectRule, text: int, taken: dict[str, JsonValue]) -> Effect | None:
    line: JsonValue = None
    if rule.line is not None:
        found = _values(rule.line, taken)
        line = found[0] if found else None
    if line is None or line == NOTHING:
        return Effect(how=EffectKind.APPEND, text=text)
    if isinstance(line, bool) or not isinstance(line, int) or not 0 <= line <= LINE_MAX:
        return None
    return Effect(how=EffectKind.INSERT, text=text, line=line)


def _values(text: str, taken: dict[str, JsonValue]) -> list[JsonValue]:
    try:
        return [value for _, value in places(taken, Pattern(parse_path(text)))]
    except MisfitError:
        return []


def _has(text: str, taken: dict[str, JsonValue]) -> bool:
    return any(value is not None for value in _values(text, taken))


def _piece(text: str, taken: dict[str, JsonValue]) -> int | None:
    """The number of the one piece (string to be judged) at a path.

    Returns `NOTHING` for an empty string, and None for anything but one string.
    """
    found = _values(text, taken)
    if len(found) != 1 or not isinstance(found[0], str):
        return None
    if not found[0]:
        return NOTHING
    number = found[0].removeprefix("#")
    return int(number) if number != found[0] and number.isdecimal() else None
