"""Removes withheld strings from a JSON value, so that the shape of the value stays valid.

A withheld string in an array is removed with the array's element; any other string is replaced by
`[withheld]`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Final

from proxy.dialects.mcp.maps import AnswerShape, path
from proxy.dialects.mcp.paths import (
    ELEMENT,
    Location,
    Pattern,
    ends_with,
    pattern_of,
    value_at,
)
from proxy.dialects.mcp.shown_text import WITHHELD, Known, asks, cut, is_withheld
from proxy.dialects.mcp.words import ORDINARY_NAME, is_short_label
from proxy.dialects.strict_json.in_text import (
    DEPTH_MAX,
    NODES_MAX,
    read_container,
    write_container,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

INNER_DEPTH_MAX: Final = 4
_TEXT: Final[Callable[[tuple[Location, str]], str]] = itemgetter(1)


class Structure:
    """One JSON value of an answer, including JSON inside its strings.

    Raises:
        MalformedRequest: The value is deeper or larger than can be searched.
    """

    def __init__(self, value: JsonValue, shown: AnswerShape, depth: int = 0) -> None:
        self.value = value
        self._shown = shown
        self._strings: list[tuple[Location, str]] = []
        self._names: list[tuple[Location, str]] = []
        self._units: list[tuple[Location, dict[str, JsonValue]]] = []
        self._inner: dict[Location, Structure] = {}
        self._walk()
        if depth < INNER_DEPTH_MAX:
            for location, text in self._strings:
                container = read_container(text)
                if container is not None:
                    self._inner[location] = Structure(container, shown, depth + 1)

    def texts(self) -> list[str]:
        """Every text of the value; for a string that is JSON, the texts inside it instead."""
        found: list[str] = []
        for location, text in self._strings:
            inner = self._inner.get(location)
            found += [text] if inner is None else inner.texts()
        return [*found, *map(_TEXT, chain(self._names, self._joined))]

    def asks(self, known: Known) -> list[str]:
        """The strings that the caller still has to look up among withheld texts."""
        found: list[str] = []
        for location, text in self._strings:
            inner = self._inner.get(location)
            if inner is not None:
                found += inner.asks(known)
                if self._unit(location) is not None:
                    found += asks(text, known, whole=True)
            elif not self._is_label(location, text):
                found += asks(text, known)
        for _, text in chain(self._names, self._joined):
            found += asks(text, known)
        return found

    def without(self, known: Known) -> JsonValue:
        """The value without its withheld parts; the same object if nothing is withheld."""
        replaced: dict[Location, JsonValue] = {}
        gone = {location for location, text in self._joined if is_withheld(text, known)}
        for location, text in self._strings:
            left = self._left_of(location, text, known)
            if left is text:
                continue
            unit = self._unit(location)
            if unit is None or (left != WITHHELD and not self._is_whole(unit)):
                replaced[location] = left
            else:
                gone.add(unit)
        for location, name in self._names:
            if is_withheld(name, known):
                gone.add(self._unit(location) or location)
        if not gone and not replaced:
            return self.value
        gone |= self._beside(gone)
        gone |= self._hollow(gone)
        gone |= self._linked(gone)
        replaced.update(self._counted(gone))
        return _rebuilt(self.value, (), gone, replaced)

    def _left_of(self, location: Location, text: str, known: Known) -> str:
        if self._is_label(location, text):
            return text
        inner = self._inner.get(location)
        if inner is None:
            return cut(text, known)
        left = inner.without(known)
        if left is not inner.value:
            return write_container(left, text, inner.value)
        # A string in an array is a memory, even if the string is JSON. JSON outside of any array is
        # the server's own. If the names of its members counted, a withheld memory of the same word
        # would empty every answer.
        return WITHHELD if self._unit(location) and is_withheld(text, known) else text

    def _is_label(self, location: Location, text: str) -> bool:
        return is_short_label(text) and any(
            ends_with(pattern_of(location), path(label)) for label in self._shown.labels
        )

    def _unit(self, location: Location) -> Location | None:
        """The location of the element that is removed if the string at `location` is withheld.

        None if only the string itself can be removed.
        """
        for text in self._shown.whole:
            pattern = path(text)
            for end in range(len(pattern), len(location) + 1):
                if ends_with(pattern_of(location[:end]), pattern):
                    return location[:end]
        for end in range(len(location), 0, -1):
            if isinstance(location[end - 1], int):
                return location[:end]
        return None

    def _is_whole(self, unit: Location) -> bool:
        """Whether an element is removed whole even if only a part of a string in it is withheld."""
        at = pattern_of(unit)
        return any(ends_with(at, path(text)) for text in self._shown.whole)

    @cached_property
    def _joined(self) -> list[tuple[Location, str]]:
        told: list[tuple[Location, str]] = []
        for joined in self._shown.joined:
            for location, unit in self._units:
                if self._is_unit(location, joined.unit):
                    found = [unit.get(field) for field in joined.fields]
                    words = [word for word in found if isinstance(word, str) and word]
                    if len(words) == len(joined.fields):
                        told.append((location, " ".join(words)))
        return told

    def _is_unit(self, location: Location, text: str) -> bool:
        pattern = path(text)
        at = pattern_of(location)
        # A server may return an array bare in one answer, and wrapped in an object in another.
        return ends_with(at, pattern) or (at == (ELEMENT,) and pattern[-1] == ELEMENT)

    def _beside(self, gone: set[Location]) -> set[Location]:
        """The elements of parallel arrays that have the same index as a removed element."""
        found: set[Location] = set()
        for columns in self._shown.columns:
            patterns = [path(text) for text in columns]
            for location in gone:
                for pattern in patterns:
                    if ends_with(pattern_of(location), pattern):
                        found.update(_moved(location, pattern, other) for other in patterns)
        return found

    def _hollow(self, gone: set[Location]) -> set[Location]:
        """Elements that are removed because an array that they need (`hollow`) became empty."""
        found: set[Location] = set()
        for text in self._shown.hollow:
            pattern = path(text)
            for array in {location[:-1] for location in gone if location}:
                elements = value_at(self.value, array)
                if isinstance(elements, list) and ends_with(pattern_of(array), pattern):
                    unit = self._unit(array)
                    if unit and all((*array, index) in gone for index in range(len(elements))):
                        found.add(unit)
        return found

    def _linked(self, gone: set[Location]) -> set[Location]:
        found: set[Location] = set()
        for link in self._shown.links:
            names = {
                name
                for location, unit in self._units
                if location in gone and self._is_unit(location, link.target)
                for name in (unit.get(link.name),)
                if isinstance(name, str)
            }
            for location, unit in self._units:
                if self._is_unit(location, link.unit) and any(
                    isinstance(unit.get(field), str) and unit.get(field) in names
                    for field in link.fields
                ):
                    found.add(location)
        return found

    def _counted(self, gone: set[Location]) -> dict[Location, JsonValue]:
        found: dict[Location, JsonValue] = {}
        for count in self._shown.counts:
            unit, number = path(count.unit), path(count.path)
            lost: dict[Location, int] = {}
            for location in gone:
                if ends_with(pattern_of(location), unit):
                    root = location[: len(location) - len(unit)]
                    lost[root] = lost.get(root, 0) + 1
            for root, many in lost.items():
                place = (*root, *number)
                before = value_at(self.value, place)
                if isinstance(before, int) and not isinstance(before, bool):
                    found[place] = max(0, before - many)
        return found

    def _walk(self) -> None:
        level: list[tuple[Location, JsonValue]] = [((), self.value)]
        nodes = 0
        for _ in range(DEPTH_MAX + 1):
            below: list[tuple[Location, JsonValue]] = []
            for location, value in level:
                if isinstance(value, str):
                    self._strings.append((location, value))
                elif isinstance(value, list):
                    below += [((*location, index), item) for index, item in enumerate(value)]
                elif isinstance(value, dict):
                    self._units.append((location, value))
                    # Ordinary member names are not looked up. Otherwise a withheld memory of one
                    # word would remove the member of that name from every answer.
                    self._names += [
                        ((*location, name), name)
                        for name in value
                        if not ORDINARY_NAME.fullmatch(name)
                    ]
                    below += [((*location, name), item) for name, item in value.items()]
            nodes += len(level)
            if nodes > NODES_MAX:
                raise MalformedRequest("result: too many values")
            if not below:
                return
            level = below
        raise MalformedRequest("result: nested too deeply")


def _moved(location: Location, pattern: Pattern, other: Pattern) -> Location:
    """The location with the same indexes in a parallel array, whose path is `other`."""
    root, tail = location[: len(location) - len(pattern)], location[len(location) - len(pattern) :]
    indices = iter([step for step in tail if isinstance(step, int)])
    return (*root, *(next(indices, -1) if step == ELEMENT else step for step in other))


def _rebuilt(
    value: JsonValue,
    at: Location,
    gone: set[Location],
    replaced: dict[Location, JsonValue],
) -> JsonValue:
    if at in replaced:
        return replaced[at]
    if isinstance(value, list):
        return [
            _rebuilt(item, (*at, index), gone, replaced)
            for index, item in enumerate(value)
            if (*at, index) not in gone
        ]
    if isinstance(value, dict):
        return {
            name: _rebuilt(item, (*at, name), gone, replaced)
            for name, item in value.items()
            if (*at, name) not in gone
        }
    return value
