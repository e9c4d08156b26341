"""What a routing table contains about one route: a row of it, without a handler."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import msgspec

ARGUMENT: Final = re.compile(r"\{([a-z_]*)\}")


class NoQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query without parameters."""


class RouteRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a routing table; `{name}` in its template is the variable segment."""

    method: str
    template: str
    summary: str
    # The structs of query, body and answer, which the route's handler also uses.
    takes: type[msgspec.Struct] = NoQuery
    asks: type[msgspec.Struct] | None = None
    answers: type[msgspec.Struct]
    status: int = 200
    # Members of the request's struct (`asks`) that are given in the path, not in the body.
    in_path: tuple[str, ...] = ()
    # The statuses of answers to a write that was not admitted; they carry problem details.
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
