"""The rows of routing tables, and the conversion of a request's query to a route's struct."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from proxy.dialects.strict_json.strict import JsonValue, convert, known_names
from proxy.seams.faults import MalformedRequest

ARGUMENT: Final = re.compile(r"\{([a-z_]*)\}")


class NoQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query without parameters."""


class RouteRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a routing table; `{name}` in its template is the variable segment."""

    method: str
    template: str
    summary: str
    # The structs of the query, of the body (None: no body) and of the answer, which the route's
    # handler also uses.
    takes: type[msgspec.Struct] = NoQuery
    asks: type[msgspec.Struct] | None = None
    answers: type[msgspec.Struct]
    status: int = 200
    # Members of the body's struct (`asks`) that a request has in the path, not in the body.
    in_path: tuple[str, ...] = ()
    # The struct and the statuses of the answers to a write that is not admitted (problem details).
    refuses: type[msgspec.Struct] | None = None
    refused: tuple[int, ...] = ()

    @property
    def counted_as(self) -> str:
        """The template without names of variables, under which telemetry counts requests."""
        return ARGUMENT.sub("{}", self.template)

    def match(self, path: str) -> str | None:
        """The variable segment of a path that fits the template; None if the path does not fit.

        "" where the template has no variable segment.
        """
        found = _pattern(self.template).fullmatch(path)
        if found is None:
            return None
        return found[1] if found.re.groups else ""


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(ARGUMENT.sub("([^/]{1,256})", re.sub(r"[.]", r"\\.", template)))


_Shape = TypeVar("_Shape", bound=msgspec.Struct)
_DIGITS: Final = re.compile(r"[0-9]{1,15}")


def query_as(given: Iterable[tuple[str, str]], shape: type[_Shape]) -> _Shape:
    """Convert a query to a struct; each parameter must be a field of the struct, and given once.

    Raises:
        MalformedRequest: A parameter is not known, given twice, or of the wrong type.
    """
    numbers = _numbers(shape)
    read: dict[str, JsonValue] = {}
    for name, text in given:
        if name not in numbers:
            raise MalformedRequest(f"query: a parameter is not known here{known_names(shape)}")
        if name in read:
            raise MalformedRequest(f"query: {name} is given twice")
        bounds = numbers[name]
        read[name] = text if bounds is None else _number(name, text, *bounds)
    return convert(read, shape)


def _number(name: str, text: str, low: int, high: int) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise MalformedRequest(f"{name}: a whole number")
    if not low <= int(text) <= high:
        raise MalformedRequest(f"{name}: from {low} to {high}")
    return int(text)


@cache
def _numbers(shape: type[msgspec.Struct]) -> dict[str, tuple[int, int] | None]:
    """A mapping of parameters to the bounds of their numbers; None for one that is no number."""
    return {field.encode_name: _bounds(field.type) for field in msgspec.structs.fields(shape)}


def _bounds(kind: object) -> tuple[int, int] | None:
    told = inspect.type_info(kind)
    for one in told.types if isinstance(told, inspect.UnionType) else (told,):
        if isinstance(one, inspect.IntType):
            return one.ge or 0, 10**15 - 1 if one.le is None else one.le
    return None
