"""Paths to places in a JSON value, written as in `entities[].observations[]`.

A name steps into an object, `[]` into every element of an array. Names cannot contain a dot or a
bracket. The functions do not recurse; the depth of a value is bounded where it is decoded.
"""

from __future__ import annotations

import re
from typing import Final, NewType

from proxy.dialects.strict_json.strict import JsonValue

Step = str | int
"""A name, or the index of an element."""

Location = tuple[Step, ...]
"""One place in one value: names and indices from the root."""

Pattern = NewType("Pattern", tuple[str, ...])
"""A parsed path: names, and `[]` for any element."""

ELEMENT: Final = "[]"
_STEP = re.compile(r"(?P<name>[^.\[\]]+)?(?P<elements>(?:\[\])*)")
_PATH_LEN_MAX = 256


class PathError(ValueError):
    """The error for a text that is no path; the message quotes the text, for the map's author."""


class MisfitError(Exception):
    """The error for a value that does not have the objects and arrays which a path requires."""


def parse_path(text: str) -> Pattern:
    """Parse a path into its steps.

    Raises:
        PathError: The text is not a path.
    """
    steps: list[str] = []
    if not text or len(text) > _PATH_LEN_MAX:
        raise PathError(f"{text!r} is not a path")
    for position, part in enumerate(text.split(".")):
        found = _STEP.fullmatch(part)
        if not part or found is None or (position and not found["name"]):
            raise PathError(
                f"{text!r} is not a path: write names, dots and [], as in `items[].text`"
            )
        if found["name"]:
            steps.append(found["name"])
        steps.extend([ELEMENT] * (len(found["elements"]) // 2))
    return Pattern(tuple(steps))


def pattern_of(location: Location) -> Pattern:
    """The path that leads to a place, with `[]` instead of each index."""
    return Pattern(tuple([ELEMENT if isinstance(step, int) else step for step in location]))


def places(value: JsonValue, pattern: Pattern) -> list[tuple[Location, JsonValue]]:
    """Every place that the path leads to, in order, with its value.

    There is no place below an absent name or a null.

    Raises:
        MisfitError: A name leads into a value that is no object, or `[]` into one that is no array.
    """
    level: list[tuple[Location, JsonValue]] = [((), value)]
    for step in pattern:
        below: list[tuple[Location, JsonValue]] = []
        for location, found in level:
            if found is None:
                continue
            if step == ELEMENT:
                if not isinstance(found, list):
                    raise MisfitError
                below += [((*location, index), item) for index, item in enumerate(found)]
            elif not isinstance(found, dict):
                raise MisfitError
            elif step in found:
                below.append(((*location, step), found[step]))
        level = below
    return level


def value_at(value: JsonValue, location: Location) -> JsonValue:
    """The value at a place; None if there is no such place."""
    for step in location:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def ends_with(pattern: Pattern, tail: Pattern) -> bool:
    """Whether a path ends with `tail`: a server may wrap its result in one more object."""
    return len(tail) <= len(pattern) and pattern[len(pattern) - len(tail) :] == tail
