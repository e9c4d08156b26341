"""The OpenAPI document of the operator API, made from its routing table: it cannot fall behind."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.dialects.strict_json.strict import JsonValue

    Schema = Mapping[str, JsonValue]

_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_ONE_NAME: Final[Schema] = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}


class _Media(msgspec.Struct, frozen=True, kw_only=True):
    schema: Schema


class _RequestBody(msgspec.Struct, frozen=True, kw_only=True):
    content: Mapping[str, _Media]


class _Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    description: str
    content: Mapping[str, _Media] | None = None


class _Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    responses: Mapping[str, _Told]
    parameters: tuple[Schema, ...] = ()
    request_body: _RequestBody | None = msgspec.field(name="requestBody", default=None)


_PROBLEM: Final = _Told(description="Problem details (RFC 9457).")


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
    paths: dict[str, dict[str, _Operation]] = {}
    for route in routes:
        done = {_JSON: _Media(schema=schema_of[route.answers])}
        asks = None if route.asks is None else {_JSON: _Media(schema=schema_of[route.asks])}
        operation = _Operation(
            responses={"200": _Told(description="Done.", content=done), "default": _PROBLEM},
            parameters=(_ONE_NAME,) if "{}" in route.template else (),
            request_body=None if asks is None else _RequestBody(content=asks),
        )
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
