"""The OpenAPI document of the operator API, made from its routing table: it cannot fall behind."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_PROBLEM: Final = {"description": "Problem details (RFC 9457)."}


class Described(Protocol):
    """What the document says of one route."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def template(self) -> str:
        """Path below the API's root; `{}` is its one variable segment."""
        ...

    @property
    def asks(self) -> type[msgspec.Struct] | None:
        """Shape of the request's body."""
        ...

    @property
    def answers(self) -> type[msgspec.Struct]:
        """Shape of the answer's body."""
        ...


@cache
def document(root: str, routes: Sequence[Described]) -> bytes:
    """OpenAPI 3.1, as JSON. Computed once per table."""
    shapes = {route.answers for route in routes} | {route.asks for route in routes if route.asks}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    schema_of = dict(zip(ordered, refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation: dict[str, Any] = {
            "responses": {
                "200": {
                    "description": "Done.",
                    "content": {_JSON: {"schema": schema_of[route.answers]}},
                },
                "default": _PROBLEM,
            }
        }
        if "{}" in route.template:
            operation["parameters"] = [
                {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
            ]
        if route.asks is not None:
            operation["requestBody"] = {"content": {_JSON: {"schema": schema_of[route.asks]}}}
        path = root + re.sub(r"\{\}", "{name}", route.template)
        paths.setdefault(path, {})[route.method.lower()] = operation
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Mnemogate operator API", "version": "1"},
            "security": [{"operator": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
            },
        }
    )
