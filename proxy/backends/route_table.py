"""The routes of a server, by which its requests are told apart and its version is known."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.seams.http_backend import RoutedRequest
from proxy.seams.operation import HttpReply, HttpRequest

_PARAMETER: Final = re.compile(r"\{[^/{}]*\}")
_DIGEST_LEN: Final = 16
_OK: Final = 200


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an OpenAPI document that lists the routes."""

    paths: dict[str, dict[str, msgspec.Raw]]


class RouteTable:
    """Every route of one version of a server, and what each does with memories."""

    def __init__(self, rows: Mapping[tuple[str, str], RoutedRequest], root: str = "") -> None:
        """`rows` by method and path below `root`; a star in a path stands for one segment."""
        self.rows = rows
        self._root = f"{root}/"
        self._shapes: dict[tuple[str, int], list[tuple[list[str], RoutedRequest]]] = {}
        # A row that names its segments wins over one with a star.
        for method, path in sorted(rows, key=lambda row: row[1].count("*")):
            shape = path.split("/")
            fitting = self._shapes.setdefault((method, len(shape)), [])
            fitting.append((shape, rows[method, path]))

    def route_of(self, request: HttpRequest) -> RoutedRequest | None:
        """The row of a request; None for a route that the table does not have."""
        parts = self.parts_of(request)
        for shape, routed in self._shapes.get((request.method, len(parts)), ()):
            if all(want in ("*", got) and got for want, got in zip(shape, parts, strict=True)):
                return routed
        return None

    def parts_of(self, request: HttpRequest) -> list[str]:
        """The segments of a path below the root; none for a path elsewhere."""
        path = request.path
        return path.removeprefix(self._root).split("/") if path.startswith(self._root) else []

    def version_of(self, reply: HttpReply, own: str) -> str | None:
        """The version whose routes an OpenAPI document lists; None where this is no document.

        `own` is the version with the routes of this table. Other routes get a name of their own, so
        that an operator is asked about them once.
        """
        if reply.status != _OK:
            return None
        try:
            document = msgspec.json.decode(reply.body, type=_Document)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        listed = {
            (method.upper(), _PARAMETER.sub("*", path).removeprefix(self._root))
            for path, methods in document.paths.items()
            for method in methods
        }
        if listed == set(self.rows):
            return own
        names = "\n".join(f"{method} {path}" for method, path in sorted(listed))
        return f"routes-{hashlib.sha256(names.encode()).hexdigest()[:_DIGEST_LEN]}"
