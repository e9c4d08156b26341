"""The part of JSON Schema that our OpenAPI documents use, and stricter: it names every member."""

from __future__ import annotations

import re
from typing import Any, Final, cast

Json = Any
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN: Final = frozenset({
    *("$ref", "title", "description", "default", "type", "enum", "anyOf", "properties"),
    *("required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    *("minLength", "maxLength", "pattern", "minimum", "maximum", "maxProperties", "discriminator"),
    *("propertyNames",),
})  # fmt: skip


def misfits(value: Json, schema: Json, document: Json, where: str = "$") -> list[str]:
    """The places where a value contradicts a schema of the document; empty where none does."""
    unread = [name for name in schema if name not in _KNOWN]
    if unread:
        return [f"{where}: this reads no {unread}"]
    if "$ref" in schema:
        named = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return misfits(value, named, document, where)
    if "anyOf" in schema:
        tried = [misfits(value, one, document, where) for one in schema["anyOf"]]
        return [] if any(found == [] for found in tried) else min(tried, key=len)
    if not _fits(value, schema):
        return [f"{where}: {value!r} does not fit {schema}"]
    items: tuple[Json, ...] = tuple(value) if "items" in schema else ()
    if isinstance(value, dict) and "properties" in schema:
        return _object(cast("dict[str, Json]", value), schema, document, where)
    return [
        one
        for at, item in enumerate(items)
        for one in misfits(item, schema["items"], document, f"{where}[{at}]")
    ]


def _fits(value: Json, schema: Json) -> bool:
    """What can be said of a value without what is in it."""
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if isinstance(value, bool) or (kind is not None and not isinstance(value, _TYPES[kind])):
        return kind in {None, "boolean"} and isinstance(value, bool)
    if not isinstance(value, str):
        return True
    lengths = range(schema.get("minLength", 0), schema.get("maxLength", len(value)) + 1)
    return len(value) in lengths and re.search(schema.get("pattern", ""), value) is not None


def _object(value: dict[str, Json], schema: Json, document: Json, where: str) -> list[str]:
    properties = schema["properties"]
    found = [
        f"{where}.{name}: is missing" for name in schema.get("required", ()) if name not in value
    ]
    found += [f"{where}.{name}: nothing says so" for name in value if name not in properties]
    for name, member in value.items():
        if name in properties:
            found += misfits(member, properties[name], document, f"{where}.{name}")
    return found
