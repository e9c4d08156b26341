"""Quarantined items removed from LangGraph's server, and put back.

A tag would have to stand in the value, which is the client's own: a read of one item by its key has
no filter, and would show it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.verdict import InvariantBroken
from proxy.backends.kept_request import json_request, request_parts
from proxy.backends.langgraph.store_items import ITEMS, item_question, item_told, place_of
from proxy.dialects.strict_json.strict import JsonValue, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Unsettled
from proxy.seams.operation import HttpReply, HttpRequest

_OK: Final = 200
# How the client asked for the item to be kept; the server does not tell it.
_OPTIONS: Final = ("index", "ttl")


class LangGraphHiding:
    """Implements `HidesItems` but for tags. Every item is a place of its own."""

    tagged_at_once = removed_at_once = 1

    def tagging(self, items: tuple[Unsettled, ...], *, tagged: bool) -> HttpRequest:
        """Never asked for, because the start refuses such a table."""
        del items, tagged
        raise InvariantBroken("this server's items cannot be tagged")

    def tagged(self, request: HttpRequest) -> None:
        """No item has a tag."""
        del request

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """The read as it is."""
        return request

    def standing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The read of the item."""
        namespace, key = _place(items[0])
        return item_question(namespace, key)

    def kept(self, items: tuple[Unsettled, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """The value that stands there, with how the client asked for it to be kept."""
        namespace, key = _place(items[0])
        stands = item_told(reply, namespace, key) if reply.status == _OK else None
        if stands is None:
            return (b"",)
        _, _, body = request_parts(items[0])
        options: dict[str, JsonValue] = {name: body[name] for name in _OPTIONS if name in body}
        value: JsonValue = {
            "namespace": [*namespace],
            "key": key,
            "value": stands.value,
            **options,
        }
        return (msgspec.json.encode(value),)

    def removing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The deletion of the item."""
        namespace, key = _place(items[0])
        return json_request("DELETE", ITEMS, {"namespace": [*namespace], "key": key})

    def restoring(self, items: tuple[Unsettled, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """The put of the value."""
        del items
        value = decode_object(kept[0], any_text=True)
        return json_request("PUT", ITEMS, value)


def _place(item: Unsettled) -> tuple[tuple[str, ...], str]:
    _, path, body = request_parts(item)
    if path != ITEMS:
        raise MalformedRequest("item: it is none of this server's")
    return place_of(body)
