"""Memories that a server stored earlier, read as calls of the server's own write tool.

In this form the gate can judge them.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.mcp.paths import MisfitError, parse_path, places
from proxy.dialects.strict_json.in_text import read_container
from proxy.dialects.strict_json.strict import JsonValue, canonical_json
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item

LISTED_MAX: Final = 20_000


class ServerItems(NamedTuple):
    """The distinct items that a server stores, and the number of elements that cannot be read.

    An unreadable element is too long, or has a form that the map does not describe. Anyone who can
    write to the server can put one there, so the other elements are read nevertheless.
    """

    items: tuple[Item, ...]
    unreadable: int


def items_listed(tool_map: ToolMap, result: JsonValue) -> ServerItems:
    """Read the items in the answer of the tool that lists all memories of a server.

    Raises:
        MalformedRequest: The map describes no such tool, or the answer does not have the form that
            the map describes, or has too many items.
    """
    adopts = tool_map.adopts
    if adopts is None:
        raise MalformedRequest("the map does not say how all that the server keeps is listed")
    try:
        elements = [one for _, one in places(json_of(result), parse_path(adopts.found))]
    except MisfitError:
        raise MalformedRequest("the answer is not of the form that the map says") from None
    found: dict[str, Item] = {}
    unreadable = 0
    for alone in (one for element in elements for one in _each(element, adopts.each)):
        given: JsonValue = {"name": adopts.write, "arguments": {adopts.into: [alone]}}
        try:
            items = read_call(tool_map, given).items
        except MalformedRequest:
            unreadable += 1
            continue
        for item in items:
            found.setdefault(digest_of_item(item), item)
        if len(found) > LISTED_MAX:
            raise MalformedRequest(f"the server keeps more than {LISTED_MAX} memories")
    if unreadable and not found:
        raise MalformedRequest("no item in the answer is of the form that the map says")
    return ServerItems(tuple(found.values()), unreadable)


def digest_of_item(item: Item) -> str:
    """SHA-256 (hex) of an item's key, arguments and pieces."""
    said: JsonValue = [item.key, item.arguments, list(item.pieces)]
    return hashlib.sha256(canonical_json(said).encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_all(items: tuple[Item, ...]) -> str:
    """SHA-256 (hex) of all items, whatever their order."""
    return hashlib.sha256("\n".join(sorted(map(digest_of_item, items))).encode()).hexdigest()


def _each(element: JsonValue, name: str | None) -> list[JsonValue]:
    parts = element.get(name) if name is not None and isinstance(element, dict) else None
    if name is None or not isinstance(element, dict) or not isinstance(parts, list) or not parts:
        return [element]
    return [{**element, name: [part]} for part in parts]


def json_of(result: JsonValue) -> JsonValue:
    """The structured content of a tool's result, or the value that its one text block encodes.

    Raises:
        MalformedRequest: The result is an error, or has neither.
    """
    if not isinstance(result, dict) or result.get("isError") is True:
        raise MalformedRequest("the server answered with an error")
    if isinstance(result.get("structuredContent"), dict):
        return result["structuredContent"]
    blocks = result.get("content")
    first = blocks[0] if isinstance(blocks, list) and len(blocks) == 1 else None
    text = first.get("text") if isinstance(first, dict) else None
    found = read_container(text) if isinstance(text, str) else None
    if found is None:
        raise MalformedRequest("the answer is no JSON")
    return found
