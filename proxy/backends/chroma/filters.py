"""The filters of reads and deletions: `where` on metadata, `where_document` on documents.

A server reads a condition that it does not know in its own way, so only known ones pass.
"""

from __future__ import annotations

from typing import Final

from proxy.backends.chroma.records import invalid
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.http_backend import OWN_FIELD

CONDITIONS_MAX: Final = 1_024
_JOINING: Final = frozenset({"$and", "$or"})
_ONE: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})
_TEXT: Final = frozenset({"$contains", "$not_contains", "$regex", "$not_regex"})
_MANY: Final = frozenset({"$in", "$nin"})


def check_where(where: JsonValue) -> None:
    """Refuse a filter that this adapter does not understand whole; null is none.

    Raises:
        MalformedRequest: A condition is not known, or the filter is not of the form.
    """
    left = [where]
    seen = 0
    while left:
        found = left.pop()
        seen += 1
        if found is None and seen == 1:
            return
        if not isinstance(found, dict) or seen > CONDITIONS_MAX:
            raise invalid("where: not a filter")
        for name, value in found.items():
            if name in _JOINING:
                if not isinstance(value, list) or not value:
                    raise invalid("where: a list of conditions is missing")
                left.extend(value)
            elif name in _TEXT:
                _check_operand(name, value)  # a filter on documents has no field's name
            elif name.startswith("$"):
                raise invalid("where: an operator is not known")
            elif name == OWN_FIELD:
                raise invalid(f"where: {OWN_FIELD} is the name of a field that is not yours")
            else:
                _check_field(value)


def _check_field(value: JsonValue) -> None:
    if isinstance(value, dict):
        if len(value) != 1:
            raise invalid("where: one operator for each field")
        ((operator, operand),) = value.items()
        _check_operand(operator, operand)
    elif not isinstance(value, str | int | float):
        raise invalid("where: not a value")


def _check_operand(operator: str, operand: JsonValue) -> None:
    if operator in _MANY:
        good = isinstance(operand, list) and all(
            isinstance(one, str | int | float) for one in operand
        )
    elif operator in _ONE or operator in _TEXT:
        good = isinstance(operand, str | int | float)
    else:
        raise invalid("where: an operator is not known")
    if not good:
        raise invalid("where: not what its operator takes")
