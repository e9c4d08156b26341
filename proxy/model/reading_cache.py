"""A cache of a conversation's parts, which every request repeats.

An agent sends its whole history each time. A list element with the same bytes as before is decoded
to the same object, and values parsed from the object are kept with it. All elements but the last
few are also cached as one byte string, so that a request costs only its new turns. Decoded bodies
are never modified in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from policy.model import PrincipalId
from proxy.dialects.model.reading import object_of
from proxy.dialects.strict_json.tolerant import Json, check_depth, read_body
from proxy.seams.by_identity import Past, SharedList

_R = TypeVar("_R")

BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of all principals' elements as received; decoded, elements take a few times as much."""
COUNT_MAX: Final = 50_000
BEGINNINGS_MAX: Final = 64
"""The number of conversations, over all principals, whose beginning is cached; the last used."""
# The newest elements are in no beginning, because clients still change parts of them, such as the
# marks of a provider's cache.
_UNSETTLED: Final = 4
_CONVERSATIONS: Final = frozenset({"contents", "input", "messages"})
_LISTS: Final = _CONVERSATIONS | {"system", "tools"}
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE: Final = msgspec.json.Decoder()


class _Element(msgspec.Struct, eq=False):
    """One element of a list, and the value that each reader has parsed from it."""

    value: dict[str, Json]
    read: dict[object, Any] = msgspec.field(default_factory=dict[object, Any])


class _Conversation(list[Json]):
    """A decoded list that begins with the elements of `begun`."""

    begun: _Beginning | None = None


class _Beginning:
    """The first elements of a principal's conversation, and the values that readers made of them.

    `raw` is the list's text, from its start to the end of the last of these elements.
    """

    def __init__(self, whose: PrincipalId, raw: bytes, elements: _Conversation) -> None:
        self.whose = whose
        self.raw = raw
        self.elements = elements
        self.read: dict[object, Past[Any]] = {}

    def forget_shorter(self) -> None:
        """Drop the shorter beginning of the same conversation that this one was made from."""
        self.elements.begun = None
        for past in self.read.values():
            past.values.past = None


_Elements: TypeAlias = dict[bytes, _Element]


class ReadingCache:
    """A bounded cache of parsed parts of request bodies (`Readings`). Event loop only."""

    def __init__(self, bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> None:
        self._bytes_max = bytes_max // 2
        self._count_max = count_max // 2
        self._size = self._count = 0
        # Each principal's elements, keyed by their bytes. An element that is used moves to
        # `_young`. When `_young` takes half of the room, it becomes `_old`, and the elements that
        # were left in `_old` are dropped.
        self._young: dict[PrincipalId, _Elements] = {}
        self._old: dict[PrincipalId, _Elements] = {}
        self._of: dict[int, _Element] = {}
        self._beginnings: list[_Beginning] = []

    @property
    def count(self) -> int:
        """The number of parts of conversations that this cache keeps."""
        return len(self._of) + sum(len(begun.elements) for begun in self._beginnings)

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
        """The value of `read(part, *args)`, cached if `part` is an element of a cached list."""
        element = self._of.get(id(part))
        if element is None:
            return read(part, *args)
        name = (read, args)
        if name not in element.read:
            element.read[name] = read(part, *args)
        found: _R = element.read[name]
        return found

    def each(self, parts: list[Json], read: Callable[[dict[str, Json]], _R]) -> tuple[_R, ...]:
        """The value of `read` for each element of a list, from the cache where it has them."""
        begun = parts.begun if isinstance(parts, _Conversation) else None
        past: Past[_R] | None = None
        if begun is not None:
            past = begun.read.get(read)
            if past is None:
                past = begun.read[read] = Past(SharedList(self.each(begun.elements, read)))
        before = () if past is None else past.values
        known, found = self._of, list[_R]()
        for part in parts[len(before) :]:
            element = known.get(id(part))
            if element is None:
                found.append(read(object_of(part)))
                continue
            made: _R | None = element.read.get(read)
            if made is None:
                made = element.read[read] = read(element.value)
            found.append(made)
        values = SharedList((*before, *found))
        values.past = past
        return values

    def _value(self, principal_id: PrincipalId, key: str, part: msgspec.Raw) -> Json:
        raw = bytes(part)
        if key not in _LISTS or not raw.startswith(b"["):
            value: Json = _VALUE.decode(raw)
            check_depth(value, raw)
            return value
        begun = self._begun(principal_id, raw) if key in _CONVERSATIONS else None
        found, rest = _Conversation(), raw
        if begun is not None:
            found, rest = _Conversation(begun.elements), b"[" + _after(begun, raw)[1:]
            found.begun = begun
        names = list(map(bytes, _ELEMENTS.decode(rest)))
        young = self._young.get(principal_id)
        for name in names:
            element = None if young is None else young.get(name)
            if element is None:
                found.append(self._other(principal_id, name))
                young = self._young.get(principal_id)
            else:
                found.append(element.value)
        if key in _CONVERSATIONS and len(names) > 2 * _UNSETTLED:
            self._begin(principal_id, raw, names[:-_UNSETTLED], found)
        return found

    def _begun(self, principal_id: PrincipalId, raw: bytes) -> _Beginning | None:
        """The known beginning of a conversation; None if there is none."""
        for begun in self._beginnings:
            mine = begun.whose == principal_id and raw.startswith(begun.raw)
            # Only a comma after these bytes proves that the last element has ended, and that a
            # further element follows.
            if mine and _after(begun, raw).startswith(b","):
                self._beginnings.remove(begun)
                self._beginnings.insert(0, begun)
                return begun
        return None

    def _begin(
        self, principal_id: PrincipalId, raw: bytes, names: list[bytes], found: _Conversation
    ) -> None:
        """Cache the elements `names`, with all elements before them, as one beginning."""
        shorter = found.begun
        at = 1 if shorter is None else len(shorter.raw)
        for name in names:
            at = raw.index(name, at) + len(name)
        elements = _Conversation(found[:-_UNSETTLED])
        elements.begun = shorter
        if shorter is not None:
            shorter.forget_shorter()
            self._beginnings.remove(shorter)
        found.begun = _Beginning(principal_id, raw[:at], elements)
        self._beginnings.insert(0, found.begun)
        while (
            len(self._beginnings) > BEGINNINGS_MAX
            or sum(len(one.raw) for one in self._beginnings) > self._bytes_max
        ):
            self._beginnings.pop()

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


def _after(begun: _Beginning, raw: bytes) -> bytes:
    return raw[len(begun.raw) :].lstrip()
