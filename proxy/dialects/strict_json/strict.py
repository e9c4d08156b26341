"""JSON from a peer, read so that no two readers can understand the JSON differently.

Python's own reader takes the last of two equal keys, accepts `NaN` and `1e999`, guesses UTF-16 and
accepts lone surrogates. With each of these, two readers can see different content, such as class
`L4` here and `L1` elsewhere. The functions below raise `MalformedRequest` and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
import rfc8785

from policy.text.characters import odd_character
from proxy.seams.faults import MalformedRequest

if TYPE_CHECKING:
    JsonValue: TypeAlias = (
        "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
    )
else:
    # At run time the type is `Any`, because msgspec does not support aliases that refer to
    # themselves.
    JsonValue = Any


BODY_BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 32
NODES_MAX = 200_000
INTEGER_MAX = 2**64 - 1
_INTEGER_DIGITS_MAX = 21  # a sign and 20 digits
_LONG_DIGITS_MAX = 308
_DOUBLE_INTEGER_MAX = 2**53 - 1  # RFC 8785 rounds integers beyond this one

_SURROGATE = re.compile("[\ud800-\udfff]")

_T = TypeVar("_T")


def decode_object(
    body: bytes,
    *,
    bytes_max: int = BODY_BYTES_MAX,
    any_text: bool = False,
    each_judged: bool = False,
) -> JsonValue:
    """Decode `body` as JSON.

    In the value, keys are unique in every object, numbers are doubles or integers of 64 bits and a
    sign, depth is at most 32, no string or key has a character that may not be stored. With
    `each_judged`, for items whose characters are judged one by one, only lone surrogates are
    illegal; with `any_text`, for text that is forwarded and not stored, an integer may also be as
    large as a double: a server in JavaScript writes doubles below 1e21 as digits.

    Raises:
        MalformedRequest: The body breaks one of these rules; the detail names the rule, and never
            quotes the body.
    """
    if len(body) > bytes_max:
        raise MalformedRequest("body: too large", status=413)
    if body.startswith(b"\xef\xbb\xbf"):
        raise MalformedRequest("body: must not start with a byte order mark")
    try:
        text = body.decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise MalformedRequest("body: not UTF-8") from None
    try:
        value: JsonValue = (_ANY_TEXT if any_text else _DECODER).decode(text)
    except RecursionError:
        raise MalformedRequest("body: nested too deeply") from None
    # Also catches JSONDecodeError; its text is dropped, because it would quote the body.
    except ValueError:
        raise MalformedRequest("body: not JSON") from None
    encodable = any_text or each_judged
    if not _plainly_fine(text, encodable=encodable):
        _inspect(value, check_encodable if encodable else check_text)
    return value


def decode_as(body: bytes, shape: type[_T], *, each_judged: bool = False) -> _T:
    """Decode a body by the rules of `decode_object`, and convert the value to a struct.

    Raises:
        MalformedRequest: The body is not JSON by these rules, or does not fit the struct.
    """
    return convert(decode_object(body, each_judged=each_judged), shape)


def convert(value: JsonValue, shape: type[_T]) -> _T:
    """Convert a decoded value to a struct.

    Raises:
        MalformedRequest: The value does not fit; the detail names the struct's field and rule.
    """
    try:
        return msgspec.convert(value, shape, strict=True)
    except msgspec.ValidationError as error:
        raise MalformedRequest(_describe(str(error), shape)) from None


def canonical_json(value: JsonValue) -> str:
    """The canonical JSON text of a value: that of RFC 8785, but for numbers from 2^53 on.

    RFC 8785 would round an integer there, so the text has all of its digits; and it would write a
    float as digits, so the text has the float's fraction or exponent. Thus `decode_object` returns
    the same numbers, and two numbers never have the same text. Inside a candidate the text is a
    string, so the candidate's own canonical form is that of RFC 8785.

    Raises:
        MalformedRequest: The value has no canonical form.
    """
    try:
        text = _canonical(value)
        text.encode()  # raises for a lone surrogate
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError):
        raise MalformedRequest(
            "body: has no canonical form: NaN, half a character, or an integer beyond +-(2^64 - 1)"
        ) from None
    return text


def storable(value: JsonValue) -> JsonValue:
    """The value itself, or the nearest double to an integer that only a server's answer can have.

    A server in JavaScript rounds 2^64 - 1 to such an integer.
    """
    return float(value) if isinstance(value, int) and abs(value) > INTEGER_MAX else value


def as_doubles(value: object) -> JsonValue:
    """The value with every integer as its nearest double, as a server in JavaScript returns it."""
    nearest: JsonValue = _DOUBLES.decode(json.dumps(value))
    return nearest


def check_text(text: str, where: str) -> None:
    """Refuse characters that no stored text may have (`policy.text.characters`).

    Raises:
        MalformedRequest: The text has such a character; the detail names it and its position.
    """
    if text.isascii() and text.isprintable():
        return
    odd = odd_character(text)
    if odd:
        raise MalformedRequest(f"{where}: {odd} is not allowed")


def check_encodable(text: str, where: str) -> None:
    """Refuse lone surrogates, which JSON escapes can spell and UTF-8 cannot.

    Raises:
        MalformedRequest: The text has a lone surrogate.
    """
    half = None if text.isascii() else _SURROGATE.search(text)
    if half is not None:
        raise MalformedRequest(
            f"{where}: U+{ord(half[0]):04X} (half of a character) at offset {half.start()} of a "
            "string is not allowed"
        )


def known_names(shape: object) -> str:
    """The names of a struct's fields, in the form ": it may have a, b", for an error's message.

    "" if `shape` is no struct.
    """
    if not isinstance(shape, type) or not issubclass(shape, msgspec.Struct):
        return ""
    names = ", ".join(field.encode_name for field in msgspec.structs.fields(shape))
    return f": it may have {names}" if names else ": it may have none"


def _describe(message: str, shape: object) -> str:
    """Turn msgspec's message into one that cannot contain the peer's words.

    msgspec quotes unknown keys and enum values; a refused text that was sent as a key would reach
    the model again. So the message lists the known names, and not the unknown one.
    """
    rule, separator, place = message.partition(" - at `")
    where = place.rstrip("`") if separator else "$"
    if rule.startswith(("Expected ", "Object missing required field ")):
        return f"{where}: {rule}"
    if rule.startswith("Object contains unknown field"):
        known = "" if separator else known_names(shape)
        return f"{where}: has a field that is not known here{known}"
    if rule.startswith("Invalid enum value"):
        return f"{where}: not one of the allowed values"
    return f"{where}: not valid"


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedRequest("body: an object has the same key twice")
    return found


def _constant(_name: str) -> JsonValue:
    raise MalformedRequest("body: NaN and Infinity are not JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedRequest("body: a number is too large for a double")
    return number


def _int(digits: str) -> int:
    # The length is checked first, because converting thousands of digits takes quadratic time.
    if len(digits) > _INTEGER_DIGITS_MAX or abs(int(digits)) > INTEGER_MAX:
        raise MalformedRequest("body: an integer is outside +-(2^64 - 1)")
    return int(digits)


def _long_int(digits: str) -> int:
    # Every integer of so many digits has a nearest double.
    return int(digits) if len(digits) <= _LONG_DIGITS_MAX else _int(digits)


def _canonical(value: JsonValue) -> str:
    match value:
        case dict():
            # RFC 8785 orders keys by their UTF-16 code units.
            keys = sorted(value, key=_UTF_16)
            return "{" + ",".join(f"{_quoted(key)}:{_canonical(value[key])}" for key in keys) + "}"
        case list():
            return "[" + ",".join(map(_canonical, value)) + "]"
        case str():
            return _quoted(value)
        case int() if _DOUBLE_INTEGER_MAX < abs(value) <= INTEGER_MAX:
            return str(value)
        case float() if _DOUBLE_INTEGER_MAX < abs(value) < math.inf:
            return repr(value)
        case _:
            return rfc8785.dumps(value).decode()


_UTF_16: Final = methodcaller("encode", "utf-16-be")
_quoted = json.JSONEncoder(ensure_ascii=False).encode


def _decoder(parse_int: Callable[[str], int]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float, parse_int=parse_int
    )


_DECODER = _decoder(_int)
_ANY_TEXT = _decoder(_long_int)
_DOUBLES = json.JSONDecoder(parse_int=float)


def _plainly_fine(text: str, *, encodable: bool) -> bool:
    """Whether the raw JSON text alone shows that `_inspect` would accept it.

    If so, the slow check is not needed. Without escapes, every string consists of characters of the
    raw text, depth is at most the number of brackets, and there are fewer values than characters.
    With `encodable`, lone surrogates alone are illegal, which only an escape by number spells.
    """
    plain = "\\u" not in text if encodable else text.isascii() and text.isprintable()
    return (
        plain
        and (encodable or "\\" not in text)
        and text.count("{") + text.count("[") <= DEPTH_MAX
        and len(text) <= NODES_MAX
    )


def _inspect(value: JsonValue, check: Callable[[str, str], None]) -> None:
    """Check depth, number of values, and the code points of every string and key; no recursion."""
    level: list[JsonValue] = [value]
    nodes = 0
    for _depth in range(DEPTH_MAX + 1):
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, str):
                check(item, "body")
            elif isinstance(item, dict):
                for key in item:
                    check(key, "body")
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        nodes += len(level)
        if nodes > NODES_MAX:
            raise MalformedRequest("body: too many values")
        if not below:
            return
        level = below
    raise MalformedRequest("body: nested too deeply")
