"""Parses Mem0's filter language into the filter tree that stores evaluate.

`{"AND": [...]}`, `{"OR": [...]}`, `{"NOT": ...}`, `{field: value}`, `{field: {operator: value}}`.
Several keys at one level must all match; `"*"` matches any value.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from policy.model import NAME_LEN_MAX
from policy.query import (
    FILTER_DEPTH_MAX,
    FILTER_NODES_MAX,
    AllOf,
    AnyOf,
    Compare,
    Field,
    Filter,
    Not,
    Scalar,
    Test,
)
from proxy.dialects.mem0.calls import shown
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

IN_LEN_MAX = 1_000
VALUE_LEN_MAX = 1_024

NOTHING: Final = AnyOf(parts=())

ENTITY_FIELDS: Final = {
    "user_id": Field.USER_ID,
    "agent_id": Field.AGENT_ID,
    "run_id": Field.RUN_ID,
    "app_id": Field.APP_ID,
}
_TIMES: Final = {"created_at": Field.CREATED_AT_MS, "updated_at": Field.UPDATED_AT_MS}
_IDS: Final = frozenset({"memory_ids", "memory_id", "id"})
_COMPARES: Final = {
    "eq": Compare.EQ,
    "ne": Compare.NE,
    "gt": Compare.GT,
    "gte": Compare.GTE,
    "lt": Compare.LT,
    "lte": Compare.LTE,
    "contains": Compare.CONTAINS,
    "icontains": Compare.ICONTAINS,
}
_ORDERED: Final = frozenset({Compare.GT, Compare.GTE, Compare.LT, Compare.LTE})
_EQUAL: Final = frozenset({"eq", "ne", "in", "nin"})
_WITHIN: Final = frozenset({"contains", "icontains"})
_KEYS: Final = ", ".join(
    (*ENTITY_FIELDS, *_TIMES, "memory_ids", "categories", "keywords", "metadata")
)
# A client's unset variable arrives as null. If null meant "has no such id", it would select other
# users' memories.
_NULL: Final = "null selects nothing; leave the key out"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def read_filter(value: JsonValue, *, free_keys: bool = False) -> Filter:
    """The tree of a filter. With `free_keys`, an unknown key is taken for a metadata field.

    The self-hosted server filters metadata by bare keys; the platform nests them under `metadata`,
    so that an unknown key is a mistake.

    Raises:
        MalformedRequest: Unknown key or operator, wrong type, too deep (8) or too large (64).
    """
    return _Reader(free_keys=free_keys).group(value, 0)


def equals(field: Field, value: str) -> Filter:
    """The filter for memories with one id; the value `*` matches any id."""
    if value == "*":
        return Test(field=field, compare=Compare.PRESENT)
    return Test(field=field, compare=Compare.EQ, values=(value,))


def names_an_entity(where: Filter) -> bool:
    """Whether any part of the filter tests the id of a user, agent, run or app."""
    match where:
        case Test():
            return where.field in ENTITY_FIELDS.values()
        case AllOf() | AnyOf():
            return any(names_an_entity(part) for part in where.parts)
        case Not():
            return names_an_entity(where.part)


def instant_ms(text: str, where: str) -> int:
    """Unix milliseconds of an ISO 8601 date (midnight UTC) or date-time (UTC without an offset).

    Raises:
        MalformedRequest: The text is neither a date nor a date-time, or is out of range.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise MalformedRequest(f"{where}: not an ISO 8601 date or date-time") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=dt.UTC)
    try:
        return (found - _EPOCH) // dt.timedelta(milliseconds=1)
    except OverflowError:
        raise MalformedRequest(f"{where}: out of range") from None


class _Reader:
    """Parses one filter, and limits its number of parts and its depth."""

    def __init__(self, *, free_keys: bool) -> None:
        self._free_keys = free_keys
        self._nodes = 0

    def group(self, value: JsonValue, depth: int) -> Filter:
        """The filter of one object; a memory has to match each of the object's keys."""
        self._count(depth)
        if not isinstance(value, dict):
            raise MalformedRequest("filters: must be an object")
        parts = tuple(self._entry(key, found, depth) for key, found in value.items())
        return parts[0] if len(parts) == 1 else AllOf(parts=parts)

    def _entry(self, key: str, value: JsonValue, depth: int) -> Filter:
        if key in {"AND", "OR", "NOT"}:
            many = value if isinstance(value, list) else [value]
            parts = tuple(self.group(one, depth + 1) for one in many)
            if key == "AND":
                return AllOf(parts=parts)
            # In a NOT with several parts, none of the parts may match.
            return AnyOf(parts=parts) if key == "OR" else Not(part=AnyOf(parts=parts))
        self._count(depth)
        if key in ENTITY_FIELDS:
            return self._field(ENTITY_FIELDS[key], value, key)
        if key in _TIMES:
            return self._time(_TIMES[key], value, key)
        if key in _IDS:
            return self._field(Field.MEMORY_ID, value, key)
        return self._other(key, value, depth)

    def _other(self, key: str, value: JsonValue, depth: int) -> Filter:
        if key == "categories":
            return self._categories(value)
        if key == "keywords":
            return self._keywords(value)
        if key == "metadata":
            if not isinstance(value, dict):
                raise MalformedRequest("filters.metadata: must be an object")
            parts = tuple(self._metadata(inner, found, depth) for inner, found in value.items())
            return AllOf(parts=parts)
        if self._free_keys:
            return self._metadata(key, value, depth)
        raise MalformedRequest(
            f"filters: {shown(key)} is not a key that can be filtered by; the keys are {_KEYS}"
        )

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth >= FILTER_DEPTH_MAX:
            raise MalformedRequest(f"filters: nested deeper than {FILTER_DEPTH_MAX}")
        if self._nodes > FILTER_NODES_MAX:
            raise MalformedRequest(f"filters: more than {FILTER_NODES_MAX} parts")

    def _field(self, field: Field, value: JsonValue, where: str) -> Filter:
        """The filter for an id, which is compared as text: for equality or containment."""
        if not _only_texts(value):
            raise MalformedRequest(f"filters.{where}: must be text")
        if isinstance(value, dict):
            return self._operators(value, field, where, _EQUAL | _WITHIN)
        return _leaf(field, value, where)

    def _metadata(self, key: str, value: JsonValue, depth: int) -> Filter:
        self._count(depth)
        if not 0 < len(key) <= NAME_LEN_MAX:
            raise MalformedRequest(f"filters.metadata: keys of 1 to {NAME_LEN_MAX} characters")
        if isinstance(value, dict):
            known = frozenset(_COMPARES) | _EQUAL
            return self._operators(value, Field.METADATA, "metadata", known, key)
        return _leaf(Field.METADATA, value, "metadata", key)

    def _operators(
        self,
        value: dict[str, JsonValue],
        field: Field,
        where: str,
        known: frozenset[str],
        key: str | None = None,
    ) -> Filter:
        if not value:
            raise MalformedRequest(f"filters.{where}: names no operator")
        parts: list[Filter] = []
        for operator, operand in value.items():
            self._count(0)
            if operator not in known:
                raise MalformedRequest(f"filters.{where}: {shown(operator)} is not an operator")
            if operator in {"in", "nin"}:
                inside = _one_of(field, operand, where, key)
                parts.append(inside if operator == "in" else Not(part=inside))
                continue
            compare = _COMPARES[operator]
            found = _scalar(operand, where)
            if compare in _ORDERED and isinstance(found, bool):
                raise MalformedRequest(f"filters.{where}: {operator} needs a number or a text")
            parts.append(Test(field=field, compare=compare, values=(found,), key=key))
        return parts[0] if len(parts) == 1 else AllOf(parts=tuple(parts))

    def _time(self, field: Field, value: JsonValue, where: str) -> Filter:
        operators = value if isinstance(value, dict) else {"eq": value}
        parts: list[Filter] = []
        for operator, operand in operators.items():
            self._count(0)
            compare = _COMPARES.get(operator)
            if compare is None or operator in _WITHIN:
                raise MalformedRequest(f"filters.{where}: {shown(operator)} is not an operator")
            if not isinstance(operand, str):
                raise MalformedRequest(f"filters.{where}: not an ISO 8601 date or date-time")
            moment = instant_ms(operand, f"filters.{where}")
            parts.append(Test(field=field, compare=compare, values=(moment,)))
        return AllOf(parts=tuple(parts))

    def _categories(self, value: JsonValue) -> Filter:
        """The filter for categories, which no memory has, because no model assigns them.

        So a test for a category matches nothing, and a test for its absence matches everything.
        """
        if value is None:
            raise MalformedRequest(f"filters.categories: {_NULL}")
        if isinstance(value, dict):
            if len(value) != 1 or not set(value) <= set(_COMPARES) | _EQUAL:
                raise MalformedRequest("filters.categories: one operator")
            return AllOf(parts=()) if set(value) & {"ne", "nin"} else NOTHING
        return NOTHING

    def _keywords(self, value: JsonValue) -> Filter:
        """The filter for words that the memory's text must contain."""
        operators: dict[str, JsonValue] = value if isinstance(value, dict) else {"icontains": value}
        if any(not isinstance(operand, str) for operand in operators.values()):
            raise MalformedRequest("filters.keywords: must be text")
        return self._operators(operators, Field.TEXT, "keywords", _WITHIN)


def _only_texts(value: JsonValue) -> bool:
    """Whether all values are strings; ids are stored as text, so a number would match nothing."""
    if isinstance(value, dict):
        return all(_only_texts(operand) for operand in value.values())
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str)


def _leaf(field: Field, value: JsonValue, where: str, key: str | None = None) -> Filter:
    if value == "*":
        return Test(field=field, compare=Compare.PRESENT, key=key)
    if isinstance(value, list):
        return _one_of(field, value, where, key)
    return Test(field=field, compare=Compare.EQ, values=(_scalar(value, where),), key=key)


def _one_of(field: Field, value: JsonValue, where: str, key: str | None) -> Filter:
    if not isinstance(value, list) or len(value) > IN_LEN_MAX:
        raise MalformedRequest(f"filters.{where}: a list of at most {IN_LEN_MAX} values")
    if not value:
        return NOTHING
    values = tuple(_scalar(one, where) for one in value)
    return Test(field=field, compare=Compare.IN, values=values, key=key)


def _scalar(value: JsonValue, where: str) -> Scalar:
    if value is None:
        raise MalformedRequest(f"filters.{where}: {_NULL}")
    if isinstance(value, list | dict):
        raise MalformedRequest(f"filters.{where}: must be a single value")
    if isinstance(value, str) and len(value) > VALUE_LEN_MAX:
        raise MalformedRequest(f"filters.{where}: at most {VALUE_LEN_MAX} characters")
    return value
