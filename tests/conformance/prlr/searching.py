"""Whether a text stands in bytes that were sent: its digest, itself, or five words of it in a row.

Written without the shipped matcher. Everything that a reader could undo is undone first: content
encodings, events, JSON, JSON in strings, base64, entities, percent signs, other forms of letters.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import html
import json
import re
import unicodedata
import urllib.parse
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = "dict[str, Any]"
RUN: Final = 5
_WORD: Final = re.compile(r"[^\W_]+")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_DEPTH_MAX: Final = 6


class Sought:
    """One text, in the three ways in which it is looked for."""

    def __init__(self, text: str) -> None:
        data = text.encode()
        self.text = text
        self._digests = (hashlib.sha256(data).hexdigest(), hashlib.md5(data).hexdigest())  # noqa: S324
        words = _words(text)
        self._runs = {" ".join(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}

    def found_in(self, raw: bytes) -> list[str]:
        """The traces of the text in these bytes, in words for a report."""
        found: list[str] = []
        for view in _views(raw):
            if any(digest in view.lower() for digest in self._digests):
                found.append("digest")
            if self.text in view:
                found.append("substring")
            said = f" {' '.join(_words(view))} "
            found += [f"overlap: {run}" for run in self._runs if f" {run} " in said]
        return sorted(set(found))


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", text)
    shown = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    return _WORD.findall(shown.casefold())


def _views(raw: bytes) -> Iterator[str]:
    for data in _unpacked(raw):
        text = data.decode("utf-8", "replace")
        yield from _read(text, 0)
        yield from _events(text)


def _unpacked(raw: bytes) -> Iterator[bytes]:
    yield raw
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            yield unpack(raw)
        except (OSError, EOFError, zlib.error):
            continue


def _read(text: str, depth: int) -> Iterator[str]:
    yield text
    if depth >= _DEPTH_MAX:
        return
    for other in (html.unescape(text), urllib.parse.unquote(text)):
        if other != text:
            yield from _read(other, depth + 1)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, str | list | dict):
        yield from _json(value, depth + 1)
    for found in _BASE64.finditer(text):
        data = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        try:
            inner = base64.b64decode(data + "=" * (-len(data) % 4)).decode("utf-8")
        except (binascii.Error, ValueError):
            continue
        yield from _read(inner, depth + 1)


def _json(value: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - any JSON
    strings = list(_strings(value))
    yield "\n".join(strings)
    for one in strings:
        if value is not one:
            yield from _read(one, depth)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in cast("list[object]", value):
            yield from _strings(part)
    elif isinstance(value, dict):
        for key, part in cast("Json", value).items():
            yield key
            yield from _strings(part)


def _events(text: str) -> Iterator[str]:
    """The texts of a stream's events: each by itself, and joined."""
    pieces: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        yield from _read(data, 1)
        try:
            body = json.loads(data)
        except ValueError:
            continue
        if isinstance(body, dict):
            for name, piece in _pieces(cast("Json", body)):
                pieces[name].append(piece)
    for parts in pieces.values():
        yield from _read("".join(parts), 1)


def _pieces(body: Json) -> Iterator[tuple[str, str]]:
    delta: Any = body.get("delta")
    if isinstance(delta, str):
        yield f"{body.get('type')} {body.get('output_index')}", delta
    for where, part in (("", delta), *_choices(body)):
        if not isinstance(part, dict):
            continue
        fields = cast("Json", part)
        for key, value in fields.items():
            if isinstance(value, str):
                yield f"{where} {body.get('index')} {key}", value
        calls: list[Json] = fields.get("tool_calls") or []
        for call in calls:
            yield f"{where} {call.get('index')} call", call.get("function", {}).get("arguments", "")


def _choices(body: Json) -> Iterator[tuple[str, Any]]:
    choices: list[Json] = body.get("choices") or []
    for choice in choices:
        yield f"choice {choice.get('index')}", choice.get("delta")
