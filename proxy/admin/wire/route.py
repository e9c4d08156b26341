"""A row of the operator API's routing table, which server and command line share.

It imports no feature: a feature binds its method to the row, and a command asks by the row.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from proxy.dialects.described import NoQuery, RouteRow

_Asked = TypeVar("_Asked", bound=msgspec.Struct)
_Asked_co = TypeVar("_Asked_co", bound=msgspec.Struct, covariant=True)
_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Answer_co = TypeVar("_Answer_co", bound=msgspec.Struct, covariant=True)

__all__ = ["AnyRoute", "Empty", "NoQuery", "Route", "get", "post"]


class Empty(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that needs no fields."""


class Route(RouteRow, Generic[_Asked_co, _Answer_co], frozen=True, kw_only=True):
    """One call of the operator API: `asked` is its query (GET) or its body (POST)."""

    asked: type[_Asked_co]
    answers: type[_Answer_co]
    # Whether the answer may take minutes, because the call reads or rewrites the whole store.
    slow: bool = False


AnyRoute = Route[Any, Any]


def get(
    template: str, asked: type[_Asked], answers: type[_Answer], summary: str, *, slow: bool = False
) -> Route[_Asked, _Answer]:
    """The row of a call that reads."""
    return Route(
        method="GET",
        template=template,
        summary=summary,
        takes=asked,
        asked=asked,
        answers=answers,
        slow=slow,
    )


def post(
    template: str, asked: type[_Asked], answers: type[_Answer], summary: str, *, slow: bool = False
) -> Route[_Asked, _Answer]:
    """The row of a call that changes something, or that needs a body to say what it asks."""
    return Route(
        method="POST",
        template=template,
        summary=summary,
        asks=asked,
        asked=asked,
        answers=answers,
        slow=slow,
    )
