"""Filters over memories, as small closed trees; dialects build filters, stores evaluate them."""

from __future__ import annotations

import enum
import math
import unicodedata
from collections.abc import Callable
from typing import TypeGuard, cast

import msgspec

from policy.model import Memory

FILTER_DEPTH_MAX = 8
FILTER_NODES_MAX = 64


class Field(enum.Enum):
    """What a filter may look at. `METADATA` compares one member of the client's metadata."""

    USER_ID = "user_id"
    AGENT_ID = "agent_id"
    RUN_ID = "run_id"
    APP_ID = "app_id"
    TARGET = "target"
    MEMORY_ID = "memory_id"
    MEMORY_CLASS = "memory_class"
    SOURCE = "source"
    CREATED_AT_MS = "created_at_ms"
    UPDATED_AT_MS = "updated_at_ms"
    TEXT = "text"
    METADATA = "metadata"


class Compare(enum.Enum):
    """The comparisons that a filter can make between a field and a value."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    PRESENT = "present"  # Matches any value at all (written "*" in Mem0).
    UNDER = "under"  # Matches a name, and every name that continues with a full stop after it.


Scalar = str | int | float | bool | None


class Test(msgspec.Struct, frozen=True, kw_only=True, tag="test"):
    """One comparison of a filter. `values` holds one scalar, or several for `Compare.IN`."""

    field: Field
    compare: Compare
    values: tuple[Scalar, ...] = ()
    key: str | None = None  # the metadata key, for `Field.METADATA`
    path: tuple[str, ...] = ()  # names of members below that key, from the outermost on


class AllOf(msgspec.Struct, frozen=True, kw_only=True, tag="all"):
    """A filter that matches where every part matches; with no parts, it matches everything."""

    parts: tuple[Filter, ...]


class AnyOf(msgspec.Struct, frozen=True, kw_only=True, tag="any"):
    """A filter that matches where at least one part matches; with no parts, it matches nothing."""

    parts: tuple[Filter, ...]


class Not(msgspec.Struct, frozen=True, kw_only=True, tag="not"):
    """A filter that matches where its part does not."""

    part: Filter


Filter = Test | AllOf | AnyOf | Not

EVERYTHING = AllOf(parts=())


# A dialect's filter is checked against these bounds before anything walks it.
FILTER_VALUES_MAX = 1_000
FILTER_TEXT_LEN_MAX = 4_096


class FilterRefused(ValueError):  # noqa: N818 - says what was done with the filter
    """The error for a filter that is too deep, too large, or makes no sense.

    Its text names the problem.
    """


def validate(where: Filter) -> None:
    """Check that a filter is bounded and that each comparison has the values it needs.

    Raises:
        FilterRefused: Depth over 8, more than 64 parts, values missing or too many or too long.
    """
    pending: list[tuple[Filter, int]] = [(where, 1)]
    seen_count = 0
    while pending:
        node, depth = pending.pop()
        seen_count += 1
        if depth > FILTER_DEPTH_MAX:
            raise FilterRefused(f"filter deeper than {FILTER_DEPTH_MAX}")
        match node:
            case AllOf(parts=parts) | AnyOf(parts=parts):
                pending.extend((part, depth + 1) for part in parts)
            case Not(part=part):
                pending.append((part, depth + 1))
            case Test():
                _validate_test(node)
        if seen_count + len(pending) > FILTER_NODES_MAX:
            raise FilterRefused(f"filter of more than {FILTER_NODES_MAX} parts")


def _validate_test(test: Test) -> None:
    if (test.field is Field.METADATA) != (test.key is not None):
        raise FilterRefused("a metadata comparison names a key, and no other does")
    if test.path and (test.key is None or len(test.path) > FILTER_DEPTH_MAX):
        raise FilterRefused(f"a metadata comparison has at most {FILTER_DEPTH_MAX} names below it")
    count = len(test.values)
    wanted = {Compare.PRESENT: count == 0, Compare.IN: count <= FILTER_VALUES_MAX}
    if not wanted.get(test.compare, count == 1):
        raise FilterRefused(f"wrong number of values for {test.compare.value}")
    for value in (*test.values, test.key, *test.path):
        if isinstance(value, str) and len(value) > FILTER_TEXT_LEN_MAX:
            raise FilterRefused("a value of the filter is too long")
        if isinstance(value, float) and not math.isfinite(value):
            raise FilterRefused("a value of the filter is not finite")


def matches(where: Filter, memory: Memory) -> bool:
    """Whether a filter matches a memory.

    Values of different types are never equal; true is not 1.
    """
    return _matches(where, _Columns(memory))


class _Columns(msgspec.Struct, eq=False):
    """The fields of one memory that a filter compares; the metadata is decoded at most once."""

    _memory: Memory
    _metadata: dict[str, object] | None = None

    def value(self, test: Test) -> object:
        if test.field is Field.METADATA:
            return _member(self._metadata_of(), (test.key or "", *test.path))
        return _READERS[test.field](self._memory)

    def _metadata_of(self) -> dict[str, object]:
        if self._metadata is None:
            text = self._memory.metadata_json
            self._metadata = {} if text is None else _decoded(text)
        return self._metadata


def _decoded(text: str) -> dict[str, object]:
    try:
        return _METADATA.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # A memory whose metadata cannot be decoded must not break every listing; filters see it
        # without metadata.
        return {}


_METADATA = msgspec.json.Decoder(dict[str, object])
_READERS: dict[Field, Callable[[Memory], object]] = {
    Field.USER_ID: lambda memory: memory.scope.user_id,
    Field.AGENT_ID: lambda memory: memory.scope.agent_id,
    Field.RUN_ID: lambda memory: memory.scope.run_id,
    Field.APP_ID: lambda memory: memory.scope.app_id,
    Field.TARGET: lambda memory: memory.target,
    Field.MEMORY_ID: lambda memory: memory.memory_id,
    Field.MEMORY_CLASS: lambda memory: memory.memory_class.value,
    Field.SOURCE: lambda memory: memory.source.value,
    Field.CREATED_AT_MS: lambda memory: memory.created_at_ms,
    Field.UPDATED_AT_MS: lambda memory: memory.updated_at_ms,
    Field.TEXT: lambda memory: memory.text,
}


def _matches(where: Filter, columns: _Columns) -> bool:
    match where:
        case Test():
            return _test(where, columns.value(where))
        case AllOf(parts=parts):
            return all(_matches(part, columns) for part in parts)
        case AnyOf(parts=parts):
            return any(_matches(part, columns) for part in parts)
        case Not(part=part):
            return not _matches(part, columns)


def _test(test: Test, value: object) -> bool:
    if test.compare is Compare.PRESENT:
        return value is not None
    if test.compare is Compare.IN:
        return any(_equal(value, wanted) for wanted in test.values)
    wanted = test.values[0]
    order = _ORDERS.get(test.compare)
    if order is not None:
        compared = _order(value, wanted)
        return compared is not None and order(compared)
    return _COMPARISONS[test.compare](value, wanted)


_ORDERS: dict[Compare, Callable[[int], bool]] = {
    Compare.GT: lambda order: order > 0,
    Compare.GTE: lambda order: order >= 0,
    Compare.LT: lambda order: order < 0,
    Compare.LTE: lambda order: order <= 0,
}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _member(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(name)
    return value


def is_under(value: object, root: object) -> bool:
    """Whether a name is `root`, or continues with a full stop after it."""
    if not isinstance(value, str) or not isinstance(root, str):
        return False
    return value == root or value.startswith(f"{root}.")


def _equal(value: object, wanted: object) -> bool:
    if _is_number(value) and _is_number(wanted):
        return value == wanted
    return type(value) is type(wanted) and value == wanted


def _order(value: object, wanted: object) -> int | None:
    """The order of two values as -1, 0 or 1; None where they cannot be ordered."""
    if _is_number(value) and _is_number(wanted):
        return (value > wanted) - (value < wanted)
    if isinstance(value, str) and isinstance(wanted, str):
        return (value > wanted) - (value < wanted)
    return None


def _composed(value: object, *, folds: bool = False) -> object:
    """A value with its strings in NFKC, in which one text has one form; `folds` drops case."""
    if isinstance(value, str):
        text = value.casefold() if folds else value
        return text if text.isascii() else unicodedata.normalize("NFKC", text)
    if isinstance(value, list):
        return [_composed(part, folds=folds) for part in cast("list[object]", value)]
    return value


def _contains(value: object, wanted: object) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, list):
        return any(_equal(part, wanted) for part in cast("list[object]", value))
    return False


_COMPARISONS: dict[Compare, Callable[[object, object], bool]] = {
    Compare.EQ: _equal,
    Compare.NE: lambda value, wanted: not _equal(value, wanted),
    Compare.CONTAINS: lambda value, wanted: _contains(_composed(value), _composed(wanted)),
    Compare.ICONTAINS: lambda value, wanted: _contains(
        _composed(value, folds=True), _composed(wanted, folds=True)
    ),
    Compare.UNDER: is_under,
}
