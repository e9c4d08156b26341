"""Searches bodies and headers of any route for withheld texts, and rewrites JSON.

JSON is parsed and rewritten, so that a repeated key cannot hide its first value. Other text is
searched in all its readings (escapes, percent signs, entities, base64). A body that is no text
cannot be searched, and is refused.
"""

from __future__ import annotations

import binascii
import re
from array import array
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import Final, Protocol
from urllib.parse import parse_qsl

from proxy.dialects.model.reading import list_of
from proxy.dialects.strict_json.tolerant import Json, read_json, write_body
from proxy.seams.faults import MalformedRequest

_ITEMS: Final = "data"
_VECTOR: Final = "embedding"
_LEN_MIN: Final = 64
# The range in which nearly all components of vectors are. The bytes of a text, read as numbers,
# rarely are in this range.
_LARGEST: Final = 1e3
_LEAST: Final = 1e-5
_SHARE_MIN: Final = 0.95
_NUMBERS: Final = ({float}, {float, int})


# Vectors are not searched as text: a few hundred would block every other request for a second.
def vectors_apart(body: Json) -> tuple[Json, dict[int, Json]]:
    """An answer without its vectors, and a mapping of each item's index to its vector.

    The same answer object if it has no vectors.
    """
    if not isinstance(body, dict):
        return body, {}
    items = list_of(body.get(_ITEMS))
    found: dict[int, Json] = {}
    lean: list[Json] = []
    for at, item in enumerate(items):
        if isinstance(item, dict) and _is_vector(item.get(_VECTOR)):
            found[at] = item[_VECTOR]
            lean.append({**item, _VECTOR: None})
        else:
            lean.append(item)
    return ({**body, _ITEMS: lean}, found) if found else (body, found)


def vectors_back(body: Json, vectors: dict[int, Json]) -> Json:
    """The answer with its vectors back; a vector whose item was removed is dropped."""
    if not vectors or not isinstance(body, dict):
        return body
    items: list[Json] = [
        {**item, _VECTOR: vectors[at]}
        if at in vectors and isinstance(item, dict) and _VECTOR in item
        else item
        for at, item in enumerate(list_of(body.get(_ITEMS)))
    ]
    return {**body, _ITEMS: items} if _ITEMS in body else body


def _is_vector(value: Json) -> bool:
    if isinstance(value, list):
        # A list of whole numbers is no vector. It may be a text, given as a model's token numbers.
        return len(value) >= _LEN_MIN and set(map(type, value)) in _NUMBERS
    if not isinstance(value, str) or not value.isascii():
        return False
    try:
        data = a2b_base64(value, strict_mode=True)
    except binascii.Error:
        return False
    if len(data) < 4 * _LEN_MIN or len(data) % 4:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        # `array` reads this machine's byte order, which is little-endian like that of the API.
        fit = sum(_LEAST < abs(one) < _LARGEST for one in array("f", data))
        return 4 * fit >= _SHARE_MIN * len(data)
    return False


_BOM: Final = b"\xef\xbb\xbf"
_UTF_8: Final = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})
# Encodings that equal UTF-8 for ASCII text; others spell words differently.
_ASCII_LIKE: Final = _UTF_8 | {"iso-8859-1", "latin1", "windows-1252"}
_MULTIPART: Final = "multipart/"
_FORM: Final = "application/x-www-form-urlencoded"
_PLAIN_CODINGS: Final = frozenset({"7bit", "8bit", "binary"})
_PARAM: Final = re.compile(r";\s*([\w*-]+)\s*=\s*(?:\"([^\"]*)\"|([^;\s]*))")
_PART_CODING: Final = re.compile(
    r"^content-transfer-encoding\s*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_PART_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_PART_HEAD_END: Final = re.compile(r"\r?\n\r?\n")
_FIELDS_MAX: Final = 10_000
# The member in which an API repeats a text token by token, or as numbers.
LOGPROBS: Final = "logprobs"

# These headers are always forwarded, because their values have no room for a text. Otherwise an
# attacker could have such a header removed, by proposing its value as a memory.
_PROTOCOL: Final = frozenset(
    {
        *("accept", "accept-language", "content-type", "content-length", "date", "user-agent"),
        *("anthropic-beta", "anthropic-version", "openai-beta", "openai-organization"),
        *("authorization", "api-key", "openai-project", "retry-after", "x-api-key"),
        *("x-goog-api-key", "traceparent", "cache-control", "server", "vary"),
    }
)
_PROTOCOL_QUERY: Final = frozenset({"api-version", "beta", "limit", "order", "stream"})
_NAME: Final = re.compile(r"(?:Bearer )?[A-Za-z0-9._:/,;=+~-]*", re.ASCII)
_NAME_LEN_MAX: Final = 512


class BodySieve(Protocol):
    """Reports whether a text contains a withheld text, and removes withheld texts from JSON."""

    def carries(self, text: str) -> bool:
        """Whether a text contains a withheld text."""
        ...

    def sieved(self, value: Json) -> Json:
        """A JSON value without the texts that are withheld."""
        ...


class WithheldError(Exception):
    """The error for a body that contains a withheld text at a place that cannot be edited."""


class UnsearchedError(Exception):
    """The error for a body that cannot be searched, because it is no text in UTF-8."""


def sifted(raw: bytes, content_type: str, sieve: BodySieve) -> bytes:
    """A body to forward: JSON and JSON Lines without withheld texts, other text unchanged.

    Raises:
        WithheldError: The body contains a withheld text, and is no JSON.
        UnsearchedError: The body is no text, or in an encoding that hides its words.
    """
    if not raw:
        return raw
    named = [(name.lower(), quoted or bare) for name, quoted, bare in _PARAM.findall(content_type)]
    charsets = {value.lower() for name, value in named if name.startswith("charset")}
    text = _text(raw, charsets)
    made = _json(raw, sieve)
    if made is not None:
        return made
    kind = content_type.partition(";")[0].strip().lower()
    readings: Iterable[str] = (text,)
    if kind.startswith(_MULTIPART):
        readings = _parts(text, dict(named).get("boundary", ""))
    elif kind == _FORM:
        readings = _fields(text)
    if any(sieve.carries(one) for one in readings):
        raise WithheldError
    return raw


def _text(raw: bytes, charsets: set[str]) -> str:
    known = _ASCII_LIKE if raw.isascii() else _UTF_8
    if not charsets <= known or b"\0" in raw:
        raise UnsearchedError
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        raise UnsearchedError from None


def _json(raw: bytes, sieve: BodySieve) -> bytes | None:
    """One JSON value, or one on each line, without withheld texts; None if the body is neither."""
    bare = raw.removeprefix(_BOM).strip()
    if not bare.startswith((b"{", b"[", b'"')):
        return None
    try:
        lean, vectors = vectors_apart(read_json(bare))
        return write_body(vectors_back(sieve.sieved(bare_of_tokens(lean)), vectors))
    except MalformedRequest:
        lines = bare.splitlines()
    try:
        values: list[Json] = [read_json(line) for line in lines if line.strip()]
    except MalformedRequest:
        return None
    # All lines are also searched as one text, because a withheld text may run from one line into
    # the next.
    made = sieve.sieved(bare_of_tokens(values))
    if not isinstance(made, list):
        raise WithheldError
    return b"\n".join(map(write_body, made)) + (b"\n" if raw.endswith(b"\n") else b"")


def bare_of_tokens(value: Json) -> Json:
    """JSON without the members that repeat its texts token by token, such as `logprobs`."""
    if isinstance(value, list):
        return [bare_of_tokens(part) for part in value]
    if isinstance(value, dict):
        return {
            key: None
            if part and key == LOGPROBS and isinstance(part, (dict, list))
            else bare_of_tokens(part)
            for key, part in value.items()
        }
    return value


def _fields(text: str) -> Iterator[str]:
    """The texts of an HTTP form that are searched: the raw text, and all values as one text."""
    yield text
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise UnsearchedError from None
    yield "\n".join(value for _, value in pairs)


def _parts(text: str, boundary: str) -> Iterator[str]:
    """The texts of a multipart form that are searched: the raw text, and all parts as one text."""
    if not boundary:
        raise UnsearchedError
    contents: list[str] = []
    for part in text.split(f"--{boundary}"):
        found = _PART_HEAD_END.search(part)
        head = part if found is None else part[: found.start()]
        coding, charset = _PART_CODING.search(head), _PART_CHARSET.search(head)
        if coding is not None and coding[1].strip().lower() not in _PLAIN_CODINGS:
            raise UnsearchedError
        if charset is not None and charset[1].lower() not in _UTF_8:
            raise UnsearchedError
        contents.append("" if found is None else part[found.end() :].strip())
    yield text
    yield "\n".join(contents)


def kept_headers(headers: dict[str, str], sieve: BodySieve) -> dict[str, str]:
    """The headers that may be sent, without those whose name or value contains a withheld text."""
    return {
        name: value
        for name, value in headers.items()
        if (name in _PROTOCOL and _names(value)) or not sieve.carries(f"{name}: {value}")
    }


def target_carries(path: str, query: tuple[tuple[str, str], ...], sieve: BodySieve) -> bool:
    """Whether a path or a query contains a withheld text.

    Query parameters of the API itself, such as `api-version` and `limit`, are not searched.
    """
    texts = [segment for segment in path.split("/") if segment]
    told = [pair for pair in query if not (pair[0] in _PROTOCOL_QUERY and _names(pair[1]))]
    texts += [word for pair in told for word in pair]
    texts += [
        " ".join(value for _, value in told),
        " ".join(word for pair in told for word in pair),
    ]
    return any(sieve.carries(text) for text in texts)


def _names(value: str) -> bool:
    return len(value) <= _NAME_LEN_MAX and _NAME.fullmatch(value) is not None
