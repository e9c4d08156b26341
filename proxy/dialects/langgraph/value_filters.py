"""Filters of LangGraph's searches: comparisons of fields of a value, exact or refused."""

from __future__ import annotations

from typing import Any, Final

from policy.query import AllOf, Compare, Field, Filter, FilterRefused, Test, validate
from proxy.dialects.langgraph.items import VALUE
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

_OPERATORS: Final = {
    "$eq": Compare.EQ,
    "$ne": Compare.NE,
    "$gt": Compare.GT,
    "$gte": Compare.GTE,
    "$lt": Compare.LT,
    "$lte": Compare.LTE,
}
_ORDERS: Final = frozenset({Compare.GT, Compare.GTE, Compare.LT, Compare.LTE})


def value_filter(given: dict[str, Any], within: Filter) -> Filter:
    """A filter that matches items that `within` matches and whose named fields are as asked for.

    Raises:
        MalformedRequest: A comparison is not one of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, is
            made with a list or with an empty object, or there are too many of them.
    """
    pending: list[tuple[tuple[str, ...], JsonValue]] = [((name,), given[name]) for name in given]
    tests: list[Filter] = []
    while pending:
        path, wanted = pending.pop()
        if not isinstance(wanted, dict):
            tests.append(_test(path, Compare.EQ, wanted))
            continue
        operators = [name for name in wanted if name.startswith("$")]
        if not wanted or (operators and len(operators) < len(wanted)):
            raise MalformedRequest("filter: an object has operators alone, or fields alone")
        for name, part in wanted.items():
            if not operators:
                pending.append(((*path, name), part))
            elif name in _OPERATORS:
                tests.append(_test(path, _OPERATORS[name], part))
            else:
                raise MalformedRequest(f"filter: the operators are {', '.join(_OPERATORS)}")
    where = AllOf(parts=(within, *tests))
    try:
        validate(where)
    except FilterRefused as refused:
        raise MalformedRequest(f"filter: {refused}") from None
    return where


def _test(path: tuple[str, ...], compare: Compare, wanted: JsonValue) -> Test:
    if isinstance(wanted, list | dict):
        raise MalformedRequest("filter: a field is compared with a string, number, boolean or null")
    if compare in _ORDERS and (wanted is None or isinstance(wanted, bool)):
        raise MalformedRequest("filter: only strings and numbers have an order")
    return Test(field=Field.METADATA, key=VALUE, path=path, compare=compare, values=(wanted,))
