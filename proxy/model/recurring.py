"""A cache of a conversation's parts, which every request repeats.

An agent sends its whole history each time. A list element with the same bytes as before is decoded
to the same object, and values parsed from the object are kept with it, so that a request costs only
its new turns. Decoded bodies are never modified in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from policy.model import PrincipalId
from proxy.dialects.model.reading import object_of
from proxy.dialects.strict_json.tolerant import Json, check_depth, read_body

_R = TypeVar("_R")

BYTES_MAX: Final = 16 * 1024 * 1024
"""Of the elements as they came, of all principals; decoded they take a few times as much."""
COUNT_MAX: Final = 50_000
_LISTS: Final = frozenset({"input", "messages", "system", "tools"})
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder()


class _Element:
    """One element of a list, and the value that each reader has parsed from it."""

    __slots__ = ("read", "value")

    def __init__(self, value: dict[str, Json]) -> None:
        self.value = value
        self.read: dict[object, Any] = {}


_Elements: TypeAlias = dict[bytes, _Element]


class Recurring:
    """Implements `proxy.dialects.model.reading.Readings`. Bounded. Event loop only."""

    def __init__(self, bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> None:
        self._bytes_max = bytes_max // 2
        self._count_max = count_max // 2
        self._size = self._count = 0
        # By principal, then by bytes. An element that is used moves to `_young`. When that takes
        # half of the room, it becomes `_old`, and what was left in `_old` is dropped.
        self._young: dict[PrincipalId, _Elements] = {}
        self._old: dict[PrincipalId, _Elements] = {}
        self._of: dict[int, _Element] = {}

    @property
    def count(self) -> int:
        """The number of parts of conversations that this cache keeps."""
        return len(self._of)

    def body(self, principal_id: PrincipalId, raw: bytes) -> dict[str, Json]:
        """The object of a request, decoded as by `read_body`.

        Raises:
            MalformedRequest: Not a JSON object in UTF-8, or nested deeper than any client nests.
        """
        try:
            parts = _PARTS.decode(raw)
            return {key: self._value(principal_id, key, part) for key, part in parts.items()}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return read_body(raw)

    def of(self, part: dict[str, Json], read: Callable[..., _R], *args: object) -> _R:
        """Implements `Readings.of`: the value of `read(part, *args)`, perhaps cached."""
        element = self._of.get(id(part))
        if element is None:
            return read(part, *args)
        name = (read, args)
        if name not in element.read:
            element.read[name] = read(part, *args)
        found: _R = element.read[name]
        return found

    def each(self, parts: list[Json], read: Callable[[dict[str, Json]], _R]) -> list[_R]:
        """Implements `Readings.each`: the value of `read` for each element of a list."""
        known, found = self._of, list[_R]()
        for part in parts:
            element = known.get(id(part))
            if element is None:
                found.append(read(object_of(part)))
                continue
            made: _R | None = element.read.get(read)
            if made is None:
                made = element.read[read] = read(element.value)
            found.append(made)
        return found

    def _value(self, principal_id: PrincipalId, key: str, part: msgspec.Raw) -> Json:
        raw = bytes(part)
        if key not in _LISTS or not raw.startswith(b"["):
            value: Json = _VALUE.decode(raw)
            check_depth(value, raw)
            return value
        young = self._young.get(principal_id)
        found: list[Json] = []
        for piece in _ELEMENTS.decode(raw):
            name = bytes(piece)
            element = None if young is None else young.get(name)
            if element is None:
                found.append(self._other(principal_id, name))
                young = self._young.get(principal_id)
            else:
                found.append(element.value)
        return found

    def _other(self, principal_id: PrincipalId, name: bytes) -> Json:
        element = self._old.get(principal_id, {}).get(name)
        if element is None:
            value: Json = _VALUE.decode(name)
            check_depth(value, name)
            if not isinstance(value, dict):
                return value
            element = _Element(value)
        if self._size > self._bytes_max or self._count > self._count_max:
            self._old, self._young, self._size, self._count = self._young, {}, 0, 0
            kept = [one for mine in self._old.values() for one in mine.values()]
            self._of = {id(one.value): one for one in kept}
        self._young.setdefault(principal_id, {})[name] = element
        self._of[id(element.value)] = element
        self._size += len(name)
        self._count += 1
        return element.value
