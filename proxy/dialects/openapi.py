"""OpenAPI documents of the sidecar's APIs, made from their routing tables to stay in step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec

from proxy.dialects.described import ARGUMENT, RouteRow
from proxy.dialects.problem import PROBLEM_TYPE, Problem
from proxy.dialects.strict_json.strict import JsonValue

Schema = Mapping[str, JsonValue]


_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_NONCE: Final[Schema] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The nonce of this write, where its body has none.",
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
    summary: str
    responses: Mapping[str, _Told]
    parameters: tuple[Schema, ...] = ()
    request_body: _RequestBody | None = msgspec.field(name="requestBody", default=None)


@cache
def document(title: str, root: str, routes: Sequence[RouteRow]) -> bytes:
    """The OpenAPI 3.1 document (JSON) of a routing table; each path begins with `root`. Cached."""
    shapes: set[type[msgspec.Struct]] = {Problem}
    for route in routes:
        shapes |= {route.takes, route.answers}
        shapes |= {shape for shape in (route.asks, route.refuses) if shape is not None}
    ordered = sorted(shapes, key=lambda shape: shape.__name__)
    refs, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    schemas = _Schemas(dict(zip(ordered, refs, strict=True)), components)
    paths: dict[str, dict[str, _Operation]] = {}
    for route in routes:
        paths.setdefault(root + route.template, {})[route.method.lower()] = _operation(
            route, schemas
        )
    bodies = {route.asks for route in routes}
    for shape in {route.takes for route in routes} - bodies:
        del components[shape.__name__]  # a struct of the query is described as parameters instead
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": title, "version": "1"},
            "security": [{"key": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


class _Schemas:
    """Makes the parts of an OpenAPI document that refer to the schemas of structs."""

    def __init__(
        self,
        refs: Mapping[type[msgspec.Struct], Schema],
        components: Mapping[str, dict[str, JsonValue]],
    ) -> None:
        self._refs = refs
        self._components = components

    def ref(self, shape: type[msgspec.Struct], status: str, media: str = _JSON) -> _Told:
        """The description of an answer, with a reference to the schema of the answer's struct."""
        return _Told(description=status, content={media: _Media(schema=self._refs[shape])})

    def body(self, route: RouteRow) -> _RequestBody | None:
        """The description of a request's body; None if the route has no body.

        Members in the path are not in the body's schema; a struct's tag is optional there.
        """
        if route.asks is None:
            return None
        schema = self._refs[route.asks]
        tag = route.asks.__struct_config__.tag_field
        if tag is not None or route.in_path:
            whole = self._components[route.asks.__name__]
            schema = {
                **whole,
                "title": f"{route.asks.__name__}Body",
                "properties": _without(whole["properties"], route.in_path),
                "required": _without(whole.get("required", []), (*route.in_path, tag)),
            }
        return _RequestBody(content={_JSON: _Media(schema=schema)})

    def parameters(self, route: RouteRow) -> tuple[Schema, ...]:
        """The descriptions of the parameters that a request has in its path, query and head."""
        found: list[Schema] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in ARGUMENT.findall(route.template)
        ]
        whole = self._components[route.takes.__name__]
        properties, required = whole["properties"], whole.get("required", [])
        if isinstance(properties, dict) and isinstance(required, list):
            found += [
                {"name": name, "in": "query", "required": name in required, "schema": schema}
                for name, schema in properties.items()
            ]
        return (*found, _NONCE) if route.refuses is not None else tuple(found)


def _without(whole: JsonValue, names: tuple[str | None, ...]) -> JsonValue:
    if isinstance(whole, dict):
        return {name: value for name, value in whole.items() if name not in names}
    return [one for one in whole if one not in names] if isinstance(whole, list) else whole


def _operation(route: RouteRow, schemas: _Schemas) -> _Operation:
    responses = {str(route.status): schemas.ref(route.answers, "Done.")}
    if route.refuses is not None:
        for status in route.refused:
            told = schemas.ref(route.refuses, "A verdict: it is not done.", PROBLEM_TYPE)
            responses[str(status)] = told
    responses["default"] = schemas.ref(Problem, "Problem details (RFC 9457).", PROBLEM_TYPE)
    return _Operation(
        summary=route.summary,
        responses=responses,
        parameters=schemas.parameters(route),
        request_body=schemas.body(route),
    )
