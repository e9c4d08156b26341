"""JSON inside strings: read as leniently as a server might, and encoded in its original format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Final

import msgspec

from policy.text.characters import odd_character
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

DEPTH_MAX: Final = 64
NODES_MAX: Final = 500_000
_INTEGER_DIGITS_MAX = 400
_INDENTS: Final = (2, 4, None, 1, 3, 8)
# The names that a refusal may repeat: words of the APIs themselves. Any other name could be a
# refused text, sent as a key so that the answer repeats it to the agent.
_FIELDS: Final = frozenset(
    {
        *(
            "actor",
            "agent_id",
            "app_id",
            "content",
            "contents",
            "document",
            "documents",
            "entities",
        ),
        *("file_text", "insert_text", "key", "memory", "memories", "memory_id", "message"),
        *("messages", "metadata", "metadatas", "name", "namespace", "new_str", "observations"),
        *("old_str", "query", "relations", "role", "run_id", "target", "text", "texts", "uri"),
        *("uris", "user_id", "value"),
    }
)


class _Pairs(list[tuple[str, object]]):
    """A JSON object as a list of its members, repeated names included."""


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """The format of JSON inside a text; `before` and `after` are the white space around it."""

    indent: int | None
    item_separator: str
    key_separator: str
    ascii_only: bool
    before: str
    after: str


def read_container(text: str) -> JsonValue:
    """The object or array in a text; None if it is neither, or ambiguous.

    A repeated name or NaN, which two readers could understand differently, counts as ambiguous.
    """
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        value: JsonValue = _STRICT.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def write_container(value: JsonValue, text: str, before: JsonValue) -> str:
    """`value` as JSON in the format of `text`, which is the JSON of the earlier value `before`."""
    style = _style(text, before)
    return style.before + _write(value, style) + style.after


def strings_inside(text: str) -> Iterator[str]:
    """Yield every string and key that a reader may find by parsing a text as JSON.

    If a name is repeated in an object, the values of each repetition are yielded.

    Raises:
        MalformedRequest: The JSON is nested too deeply to be searched.
    """
    if text.lstrip()[:1] not in {"{", "[", '"'}:
        return
    try:
        value: object = _LENIENT.decode(text.strip())
    except RecursionError:
        raise MalformedRequest("arguments: JSON in a string is nested too deeply") from None
    except ValueError:
        return
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, _Pairs):
            for name, below in reversed(found):
                stack.append(below)
                stack.append(name)
        elif isinstance(found, list):
            stack.extend(reversed(found))  # pyright: ignore[reportUnknownArgumentType]


def odd_string(value: JsonValue, *, parses: bool) -> str:
    """The place of the first character that may not be stored, and what it is; "" for no such one.

    `parses`: strings in JSON inside of a string are searched too, because a server may parse it.

    Raises:
        MalformedRequest: JSON in a string is nested too deeply to be searched.
    """
    waiting = [("", value)]
    while waiting:
        where, one = waiting.pop()
        if isinstance(one, str):
            odd = "" if one.isascii() and one.isprintable() else odd_character(one)
            if odd:
                return f"{where or 'a string'}: {odd}"
            waiting.extend(zip(repeat(where), strings_inside(one) if parses else ()))
        elif isinstance(one, list):
            waiting.extend(zip(repeat(where), reversed(one)))
        elif isinstance(one, dict):
            for name, below in reversed(one.items()):
                named = f"{where}.{name}".lstrip(".") if name in _FIELDS else where
                waiting += ((named, below), (where, name))
    return ""


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _number(digits: str) -> int:
    # The length is checked first, because converting thousands of digits takes quadratic time.
    if len(digits) > _INTEGER_DIGITS_MAX:
        raise ValueError
    return int(digits)


def _refuse(_name: str) -> JsonValue:
    raise ValueError


def _nothing(_digits: str) -> None:
    return None


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_number, parse_constant=_refuse
)
_LENIENT: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_int=_nothing,
    parse_float=_nothing,
    parse_constant=_nothing,
    strict=False,
)


def _style(text: str, value: JsonValue) -> Style:
    body = text.strip()
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    guesses = [
        Style(
            indent=indent,
            item_separator=item,
            key_separator=key,
            ascii_only=ascii_only,
            before=before,
            after=after,
        )
        for ascii_only in ((False, True) if body.isascii() else (False,))
        for indent in (_INDENTS if "\n" in body else (None,))
        for item, key in (((",", ":"), (", ", ": ")) if indent is None else ((",", ": "),))
    ]
    # If no guess reproduces the text exactly, the closest one is used, which at least keeps line
    # breaks. The value is the same in any formatting.
    closest = guesses[0] if "\n" in body or ": " not in body else guesses[1]
    return next((guess for guess in guesses if _write(value, guess) == body), closest)


def _write(value: JsonValue, style: Style) -> str:
    return json.dumps(
        value,
        ensure_ascii=style.ascii_only,
        indent=style.indent,
        separators=(style.item_separator, style.key_separator),
    )
