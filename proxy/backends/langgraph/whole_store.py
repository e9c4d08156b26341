"""A walk over all items of the store, for an operator's commands."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import ChangeKind
from proxy.backends.kept_request import json_request, kept_request
from proxy.backends.langgraph.store_items import (
    ITEMS,
    SEARCHES,
    ItemPut,
    answer_value,
    is_searched,
    item_question,
    known_key,
)
from proxy.dialects.strict_json.strict import JsonValue, convert
from proxy.seams.backend_listing import ListedMemory, ListPart, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item
from proxy.seams.operation import HttpReply, HttpRequest

# As many items of the longest text that the gate lets in fit into one answer.
PAGE_LEN: Final = 200
_ANSWERED: Final = range(200, 300)


def page_from(offset: int) -> HttpRequest:
    """The search for a page of all items. It does not make them live longer."""
    body: JsonValue = {
        "namespace_prefix": [],
        "limit": PAGE_LEN,
        "offset": offset,
        "refresh_ttl": False,
    }
    return json_request("POST", SEARCHES, body)


def reading(namespace: tuple[str, ...], key: str) -> HttpRequest:
    """The read of one item. It does not make the item live longer."""
    question = item_question(namespace, key)
    if is_searched(namespace):
        return question
    return msgspec.structs.replace(question, query=(*question.query, ("refresh_ttl", "false")))


def listed(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    """What the answer to `page_from` or `reading` shows.

    Raises:
        MalformedRequest: The answer is not of the form that its route has.
    """
    value = answer_value(reply) if reply.status in _ANSWERED else ...
    if request.method == "GET" and (value is None or isinstance(value, dict)):
        return WalkedPage(memories=() if value is None else (_listed(value),))
    found = value.get("items") if isinstance(value, dict) else None
    if request.method == "GET" or not isinstance(found, list):
        raise MalformedRequest(f"answer: {reply.status}, not of the form that this route has")
    memories = tuple(_listed(one) for one in found)
    names = tuple(one.key for one in memories)
    part = ListPart(names=names, is_full=len(names) >= PAGE_LEN, begin=page_from)
    return WalkedPage(memories=memories, part=part)


def _listed(value: JsonValue) -> ListedMemory:
    """One item of an answer, as the put that would have made it is kept."""
    said = value if isinstance(value, dict) else {}
    body: dict[str, JsonValue] = {name: said.get(name) for name in ("namespace", "key", "value")}
    try:
        put = convert(body, ItemPut)
        key = known_key(put.namespace, put.key)
        kept = kept_request("PUT", ITEMS, body, texts=("value",), key=key)
    except MalformedRequest:
        # Not by `known_key`: a key that is too long has to be listed too.
        place = msgspec.json.encode([body["namespace"], body["key"]])
        return ListedMemory(key=place.decode(), item=None)
    item = Item(change=ChangeKind.CREATE, arguments=kept.arguments, pieces=kept.pieces, key=key)
    return ListedMemory(key=key, item=item)
