"""Strings out of JSON values, and paragraphs and sentences out of strings."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypedDict, cast

import msgspec

from policy.text.readings import readings_of
from policy.text.sentences import sentences_of
from proxy.dialects.strict_json.in_text import looks_like_json, read_container
from proxy.seams.slices import resting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class _Style(TypedDict):
    ensure_ascii: bool
    indent: int | None
    separators: tuple[str, str]


_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n+")
_TAG: Final = re.compile(r"</?[A-Za-z][\w.:-]{0,63}(?:\s[^<>\n]{0,200})?/?>")
# Finds the marks at the beginning of a block and at its end. A full stop, an exclamation or a
# question mark at the end stays, because it ends a sentence.
_AT_AN_END: Final = re.compile(r"\A[\W_]+|(?:[^\w.!?]|_|\.{2,})+\Z")
END_LEN: Final = 640
"""As long as a sentence is that is looked for in every way."""
_LONG_WORDS: Final = 8
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
)
_WORDS: Final = re.compile(r"[^\W_]+")
_JSON: Final = msgspec.json.Decoder()
_JSON_LEN_MAX: Final = 4_000_000


_BEGINS: Final = "\0("
_ENDS: Final = "\0)"
_MEMBERS_MAX: Final = 2
_LEFT_OUT_OF_MAX: Final = 32
"""A server may leave out what it has already, of so few strings of a call."""
# The forms in which the libraries of servers write JSON. Any other white space could carry words.
_STYLES: Final[tuple[_Style, ...]] = tuple(
    {"ensure_ascii": ascii_only, "indent": indent, "separators": separators}
    for ascii_only in (False, True)
    for indent, separators in ((None, (",", ":")), (None, (", ", ": ")), (2, (",", ": ")))
)


_VARYING: Final = re.compile(
    r"\d+|\b(?:[ap]m|utc|gmt|mon(?:day|tag)?|tue(?:s(?:day)?)?|dienstag|wed(?:nesday)?|mittwoch"
    r"|thu(?:rs(?:day)?)?|donnerstag|fri(?:day)?|freitag|sat(?:urday)?|samstag|sun(?:day)?|sonntag"
    r"|jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|m\u00e4rz|apr(?:il)?"
    r"|may|mai|june?|juni|july?|juli"
    r"|aug(?:ust)?|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\b",
    re.IGNORECASE,
)
_NAME_PARTS_MAX: Final = 8


@lru_cache(maxsize=1_024)
def standing(text: str, model: str = "") -> str:
    """The parts of a text that stay the same between requests: without numbers and dates."""
    numbered = _VARYING.sub("0", text)
    words: list[str] = re.findall(r"[A-Za-z]{3,}", model)
    parts = words[:_NAME_PARTS_MAX]
    if not parts:
        return numbered
    name = f"(?:{'|'.join(dict.fromkeys(map(re.escape, parts)))})"
    return re.sub(rf"\b{name}(?:[\s._/-]+(?:{name}|0))*\b", "0", numbered, flags=re.IGNORECASE)


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each paragraph; together the paragraphs cover the text."""
    at = 0
    for gap in _PARAGRAPH.finditer(text):
        if text[at : gap.start()].strip():
            yield at, gap.end()
            at = gap.end()
    if text[at:].strip():
        yield at, len(text)


def readings(text: str) -> Iterator[str]:
    """The readings of a text, without those that have the words of another one in a row."""
    known = [_WORDS.findall(text)]
    yield text
    for reading in readings_of(text):
        words = _WORDS.findall(reading)
        if words not in known:
            known.append(words)
            yield reading


def all_readings(text: str) -> tuple[str, ...]:
    """All readings of a text, computed together."""
    return tuple(readings(text))


def is_long(sentence: str) -> bool:
    """Whether a sentence is so long that two people would not say it by accident."""
    if sentence.count(" ") >= _LONG_WORDS - 1:
        return True
    return not sentence.isascii() and len(_UNSPACED.findall(sentence)) >= _LONG_WORDS


def sentences_between(text: str) -> tuple[str, ...]:
    """The sentences of a text; tags end a sentence."""
    return sentences_of(_TAG.sub("\n", text) if "<" in text else text)


def across(texts: Sequence[str]) -> tuple[str, ...]:
    """Neighbouring blocks joined in every way in which a sentence may run across them.

    They are joined as words and as lines, with divided words, and without the marks around the
    place where one block ends and the next begins. Where a sentence ends is decided by the caller.
    Only the ends of a long block can be part of such a sentence.
    """
    if len(texts) < 2:  # noqa: PLR2004 - neighbours
        return ()
    run = [
        one if len(one) <= 2 * END_LEN else f"{one[:END_LEN]}\n{one[-END_LEN:]}" for one in texts
    ]
    joined = (
        " ".join(map(str.strip, run)),
        "\n".join(run),
        "".join(run),
        "".join([one if one[-1:].isalnum() else f"{one} " for one in run]),
        " ".join([_AT_AN_END.sub("", one) for one in run]),
    )
    return tuple(dict.fromkeys(joined))


def strings_in(value: object) -> Iterator[str]:
    """Every string inside a JSON value, keys excluded."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            pending.extend(reversed(cast("list[object]", part)))
        elif isinstance(part, dict):
            pending.extend(reversed(list(cast("dict[str, object]", part).values())))


def spelled_in(value: object) -> Iterator[str]:
    """Every string inside a JSON value, and marks where an object or array inside begins and ends.

    Members of an object come by their names, because libraries of servers write them in another
    order. The outermost object, and arrays in it, have no marks: servers wrap them differently.
    """
    pending: list[tuple[object, int]] = [(value, 0 if isinstance(value, dict) else 1)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list | dict):
            if depth > 1:
                yield _BEGINS
                pending.append((_ENDS, 0))
            inner = cast("list[object]", part)
            if isinstance(part, dict):
                inner = [one for _, one in sorted(cast("dict[str, object]", part).items())]
            pending.extend((one, depth + 1) for one in reversed(inner))


def in_order(found: list[int], spelled: tuple[int, ...]) -> bool:
    """Whether all of `found` are in `spelled`, in its order, and each as often at most.

    Which ones are missing could spell words, so a long row is repeated whole, or not at all.
    """
    if len(spelled) > _LEFT_OUT_OF_MAX and found:
        return tuple(found) == spelled
    left = iter(spelled)
    return all(one in left for one in found)


def echoed_in(text: str, says: frozenset[str]) -> list[str] | None:
    """What an answer repeats (see `spelled_in`), without the fixed texts that its server `says`.

    None if the form of the answer has room for words: unusual white space between the parts of a
    JSON text, values other than strings, names of members that the server does not say, objects
    with other names or another order of them than the first one.
    """
    if not looks_like_json(text):
        return [] if text in says else [text]
    value = rest = read_container(text)
    if isinstance(rest, dict):
        if len(rest) > _MEMBERS_MAX or not says.issuperset(rest):
            return None
        rest = {name: one for name, one in rest.items() if not _is_notice(one, says)}
    parts = list(rest.values()) if isinstance(rest, dict) else [rest]
    if not value or not all(isinstance(one, str) or _is_list(one, says) for one in parts):
        return None
    usual = any(text == json.dumps(value, **style) for style in _STYLES)
    return [*spelled_in(rest)] if usual else None


def _is_notice(value: object, says: frozenset[str]) -> bool:
    """Whether a member beside a whole answer says that the server is done."""
    return value is True or (isinstance(value, str) and value in says)


def _is_list(value: object, says: frozenset[str]) -> bool:
    """Whether a value is an array of strings, or of objects with one row of names of members.

    Members are strings, and arrays of strings.
    """
    if _is_row(value):
        return True
    if not isinstance(value, list):
        return False
    names: list[str] = []
    for one in resting(cast("list[object]", value)):
        members = cast("dict[str, object]", one) if isinstance(one, dict) else {}
        names = names or [*members]
        if not names or [*members] != names or not says.issuperset(names):
            return False
        if not all(isinstance(part, str) or _is_row(part) for part in members.values()):
            return False
    return True


def _is_row(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) for one in cast("list[object]", value)
    )


def strings_of(text: str) -> Iterator[str]:
    """The text itself, and, if it is JSON, the strings in it."""
    yield text
    if text[:1] in {"{", "["} and len(text) <= _JSON_LEN_MAX:
        try:
            value: object = _JSON.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return
        yield from strings_in(value)
