"""Splits a call's arguments into judged strings (pieces) and the rest, and joins both again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import TEXT_LEN_MAX
from proxy.dialects.mcp.maps import Tool
from proxy.dialects.mcp.paths import ELEMENT, Pattern
from proxy.dialects.mcp.words import ORDINARY_NAME, is_short_label
from proxy.dialects.strict_json.in_text import strings_inside
from proxy.dialects.strict_json.strict import JsonValue, check_encodable
from proxy.seams.faults import MalformedRequest

PIECES_MAX: Final = 1_024
DEPTH_MAX: Final = 32
_INNER_DEPTH_MAX: Final = 2

# In `Item.arguments` the string "#7" stands for piece 7, and "=..." for a string that begins with
# "#" or "="; any other string stands for itself.
_PIECE, _LITERAL = "#", "="
_PLAIN = {
    # Where the map expects an id or a time, a string of that form is not judged, because it has no
    # room for words. Ids are UUIDs, hexadecimal and decimal numbers, also with a short prefix.
    "id": re.compile(r"(?:[A-Za-z]{1,12}[-_])?[0-9A-Fa-f]{1,8}(?:-?[0-9A-Fa-f]{1,8}){0,7}"),
    "time": re.compile(
        r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?(?:[T ][0-9:.,]{2,18})?(?:Z|[+-][0-9:]{2,6})?"
    ),
}


class PieceTaker:
    """Collects the pieces of one item's arguments, and replaces each piece by its number."""

    def __init__(self, rule: Tool) -> None:
        self.pieces: list[str] = []
        self.labels: set[int] = set()
        self.length = 0
        # Whether some argument had a name that the map does not list, so that the effect of the
        # call is unknown.
        self.strange = False
        self._rule = rule

    def take(self, value: JsonValue, at: tuple[str, ...]) -> JsonValue:
        """Collect the pieces of a value; return the value with a number in place of each piece."""
        if len(at) > DEPTH_MAX:
            raise MalformedRequest("arguments: nested too deeply")
        if isinstance(value, str):
            return self._string(value, Pattern(at))
        if isinstance(value, list):
            below = (*at, ELEMENT)
            return [self.take(item, below) for item in value]
        if isinstance(value, dict):
            taken: dict[str, JsonValue] = {}
            for name, item in value.items():
                below = (*at, name)
                taken[self._name(name, Pattern(below))] = self.take(item, below)
            return taken
        return value

    def add(self, text: str) -> int:
        """Add one piece; return the piece's number."""
        self.length += len(text) + 1
        if len(self.pieces) >= PIECES_MAX or self.length > TEXT_LEN_MAX + 1:
            raise MalformedRequest("arguments: too much text for one memory", status=413)
        self.pieces.append(text)
        return len(self.pieces) - 1

    def _string(self, text: str, at: Pattern) -> str:
        if not text or self._is_plain(text, at):
            return literal(text)
        number = self.add(text)
        if at in self._rule.of_labels and is_short_label(text):
            self.labels.add(number)
        self._inner(text, 0)
        return f"{_PIECE}{number}"

    def _name(self, name: str, at: Pattern) -> str:
        is_described = at in self._rule.described
        self.strange = self.strange or not is_described
        if is_described or not name or ORDINARY_NAME.fullmatch(name):
            return literal(name)
        return f"{_PIECE}{self.add(name)}"

    def _inner(self, text: str, depth: int) -> None:
        # A server may parse JSON in a string and show the strings inside. So each string inside is
        # a piece of its own, because escapes may hide its words in the outer string.
        if depth >= _INNER_DEPTH_MAX:
            return
        for inner in strings_inside(text):
            check_encodable(inner, "arguments")
            if inner and not ORDINARY_NAME.fullmatch(inner):
                self.add(inner)
                self._inner(inner, depth + 1)

    def _is_plain(self, text: str, at: Pattern) -> bool:
        shape = self._rule.of_plain.get(at)
        if shape is None:
            return False
        if isinstance(shape, str):
            return _PLAIN[shape].fullmatch(text) is not None
        return text in shape


def literal(text: str) -> str:
    """Escape a string so that, in an item's arguments, it is not read as a piece's number."""
    return _LITERAL + text if text[:1] in {_PIECE, _LITERAL} else text


def arguments_of(arguments: str, pieces: Sequence[str]) -> dict[str, JsonValue]:
    """The arguments of the call for one item alone: `Item.arguments` with its pieces put back.

    Raises:
        MalformedRequest: `read_call` did not make these arguments.
    """
    try:
        value: JsonValue = msgspec.json.decode(arguments)
        restored = _restored(value, pieces)
    except (msgspec.DecodeError, UnicodeError, ValueError, IndexError, RecursionError):
        raise MalformedRequest("item: its arguments and pieces do not belong together") from None
    if not isinstance(restored, dict):
        raise MalformedRequest("item: its arguments are no object")
    return restored


def _restored(value: JsonValue, pieces: Sequence[str]) -> JsonValue:
    if isinstance(value, str):
        return _restored_string(value, pieces)
    if isinstance(value, list):
        return [_restored(item, pieces) for item in value]
    if isinstance(value, dict):
        return {
            _restored_string(name, pieces): _restored(item, pieces) for name, item in value.items()
        }
    return value


def _restored_string(text: str, pieces: Sequence[str]) -> str:
    if text.startswith(_PIECE):
        if not text[1:].isdecimal():
            raise ValueError
        return pieces[int(text[1:])]
    return text.removeprefix(_LITERAL)
