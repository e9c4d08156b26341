"""Memories that a server stored earlier, read as calls of the server's own write tool.

In this form the gate can judge them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
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

    # Keyed by the tool that would have written them.
    by_tool: dict[str, tuple[Item, ...]]
    unreadable: int

    @property
    def items(self) -> tuple[Item, ...]:
        """The items of all tools."""
        return tuple(item for items in self.by_tool.values() for item in items)


def items_listed(tool_map: ToolMap, result: JsonValue) -> ServerItems:
    """Read the items in the answer of the tool that lists all memories of a server.

    Raises:
        MalformedRequest: The map describes no such tool, or the answer does not have the form that
            the map describes, or has too many items.
    """
    if not tool_map.imports:
        raise MalformedRequest("the map does not say how all that the server keeps is listed")
    found: dict[str, dict[str, Item]] = {}
    unreadable = 0
    for write, arguments in _calls(tool_map, json_of(result)):
        try:
            items = read_call(tool_map, {"name": write, "arguments": arguments}).items
        except MalformedRequest:
            unreadable += 1
            continue
        found.setdefault(write, {}).update((digest_of_item(item), item) for item in items)
        if sum(map(len, found.values())) > LISTED_MAX:
            raise MalformedRequest(f"the server keeps more than {LISTED_MAX} memories")
    if unreadable and not found:
        raise MalformedRequest("no item in the answer is of the form that the map says")
    by_tool = {write: tuple(items.values()) for write, items in found.items()}
    return ServerItems(by_tool, unreadable)


def _calls(tool_map: ToolMap, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """The write that would have made each element of an answer, with its arguments."""
    try:
        for imports in tool_map.imports:
            for _, element in places(value, parse_path(imports.found)):
                for alone in _each(element, imports.each):
                    yield imports.write, {imports.into: [alone]}
    except MisfitError:
        raise MalformedRequest("the answer is not of the form that the map says") from None


def own_texts(key: str, pieces: Sequence[str], labels: Sequence[int]) -> tuple[str, ...]:
    """The texts that only this item contains: no shared names, and not its key."""
    own = (text for number, text in enumerate(pieces) if number not in labels)
    return tuple(text for text in own if text != key)


def text_digests(key: str, pieces: Sequence[str], labels: Sequence[int]) -> tuple[str, ...]:
    """SHA-256 (hex) of each of an item's own texts with its key; of the key alone without any."""
    said = own_texts(key, pieces, labels) or ("",)
    return tuple(hashlib.sha256(canonical_json([key, one]).encode()).hexdigest() for one in said)


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
