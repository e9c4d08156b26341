"""Items of LangGraph's store: bodies of their requests, their keys, and the hiding of an item."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.backends.http_backend import OK, HidesItems, answer_value, not_understood
from proxy.backends.kept_request import json_request, request_parts, tells
from proxy.dialects.strict_json.strict import (
    JsonValue,
    canonical_json,
    convert,
    decode_object,
)
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import UnsettledItem
from proxy.seams.operation import HttpReply, HttpRequest

ITEMS: Final = "/store/items"
SEARCHES: Final = f"{ITEMS}/search"
KEY_LEN_MAX: Final = 1_024
LIMIT_DEFAULT: Final = 10
REFRESH: Final = "refresh_ttl"
NAMESPACES_DEFAULT: Final = 100
LIMIT_MAX: Final = 10_000
ASKED_MAX: Final = 100_000
"""The most items that one search asks for, where some of its results have to be left out."""
# A cache is worth while, because most reads of an agent show items that earlier reads showed.
_NAMES_KEPT_MAX: Final = 4_096

# The server joins the labels of a namespace by dots in its queries, so a label with a dot would be
# ambiguous.
Label = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^.]+$")]
Namespace = Annotated[tuple[Label, ...], Meta(min_length=1, max_length=32)]
Key = Annotated[str, Meta(min_length=1, max_length=512)]


class ItemPut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `PUT /store/items`."""

    namespace: Namespace
    key: Key
    value: dict[str, JsonValue]
    index: bool | tuple[str, ...] | None = None
    ttl: float | None = None


class ItemPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `DELETE /store/items`."""

    namespace: Namespace
    key: Key


class ItemsSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /store/items/search`."""

    namespace_prefix: tuple[str, ...] = ()
    filter: dict[str, JsonValue] | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] | None = LIMIT_DEFAULT
    offset: Annotated[int, Meta(ge=0)] | None = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespacesSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /store/namespaces`."""

    prefix: tuple[str, ...] | None = None
    suffix: tuple[str, ...] | None = None
    max_depth: Annotated[int, Meta(ge=1)] | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] | None = NAMESPACES_DEFAULT
    offset: Annotated[int, Meta(ge=0)] | None = 0


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item in an answer, without its further members."""

    namespace: tuple[str, ...]
    key: str
    value: JsonValue


def put_of(request: HttpRequest) -> tuple[ItemPut, dict[str, JsonValue]]:
    """The body of a put: decoded, and as the value that is forwarded.

    Raises:
        MalformedRequest: The body has another form.
    """
    value = _body(request, each_judged=True)
    return convert(value, ItemPut), value


def place_of(value: JsonValue) -> tuple[Namespace, Key]:
    """Namespace and key in the body of a put or a deletion.

    Raises:
        MalformedRequest: The body has another form.
    """
    found = value if isinstance(value, dict) else {}
    named = convert({name: found.get(name) for name in ("namespace", "key")}, ItemPlace)
    return named.namespace, named.key


def deletion_of(request: HttpRequest) -> ItemPlace:
    """The body of a deletion.

    Raises:
        MalformedRequest: The body has another form.
    """
    return convert(_body(request), ItemPlace)


def list_of(
    request: HttpRequest, shape: type[ItemsSearch | NamespacesSearch]
) -> tuple[ItemsSearch | NamespacesSearch, dict[str, JsonValue]]:
    """The body of a search or of a listing of namespaces: decoded, and as it is forwarded.

    It is forwarded without `refresh_ttl`, by which a read would extend the items' time to live.

    Raises:
        MalformedRequest: The body has another form.
    """
    value = _body(request)
    body = convert(value, shape)
    if value.get(REFRESH) is True:
        del value[REFRESH]
    return body, value


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def known_key(namespace: tuple[str, ...], key: str) -> str:
    """The key of an item in the store of the gate; it begins with the namespace's `known_prefix`.

    Raises:
        MalformedRequest: The key is too long with its namespace.
    """
    name = canonical_json([*namespace, key])
    if len(name) > KEY_LEN_MAX:
        raise MalformedRequest("key: too long with its namespace")
    return name


def known_prefix(namespace: tuple[str, ...]) -> str:
    """The beginning of the keys (`known_key`) of all items in a namespace and in those below it."""
    return canonical_json([*namespace])[:-1] + ("," if namespace else "")


@lru_cache(maxsize=_NAMES_KEPT_MAX)
def is_searched(namespace: tuple[str, ...]) -> bool:
    """Whether an item of this namespace is read by a search instead of an exact read.

    An exact read creates a missing namespace, which the server then lists to its clients; a search
    does not. So a namespace whose labels could be a sentence or a directive is searched.
    """
    return tells(namespace)


def item_question(namespace: tuple[str, ...], key: str) -> HttpRequest:
    """The exact read of one item, or the search of its namespace (`is_searched`)."""
    if is_searched(namespace):
        body: JsonValue = {
            "namespace_prefix": [*namespace],
            "limit": ASKED_MAX,
            "offset": 0,
            "refresh_ttl": False,
        }
        return json_request("POST", SEARCHES, body)
    query = (("key", key), ("namespace", ".".join(namespace)))
    return HttpRequest(method="GET", path=ITEMS, query=query)


def item_in(reply: HttpReply, namespace: tuple[str, ...], key: str) -> JsonValue:
    """The item in the answer to `item_question`, undecoded; None where there is none.

    Raises:
        MalformedRequest: The answer has another form, or the search returned its maximum of items
            without this one.
    """
    value = answer_value(reply)
    if not is_searched(namespace):
        return value
    found = value.get("items") if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise not_understood()
    for one in found:
        place = (one.get("namespace"), one.get("key")) if isinstance(one, dict) else None
        if place == ([*namespace], key) and isinstance(one, dict):
            return {name: member for name, member in one.items() if name != "score"}
    if len(found) >= ASKED_MAX:
        raise MalformedRequest("answer: too many items for this one to be found")
    return None


def item_told(reply: HttpReply, namespace: tuple[str, ...], key: str) -> StoredItem | None:
    """The item in the answer to `item_question`, decoded; None where there is none.

    Raises:
        MalformedRequest: The answer is neither an item nor `null`.
    """
    value = item_in(reply, namespace, key)
    return None if value is None else convert(value, StoredItem)


def asked_place(request: HttpRequest) -> tuple[tuple[str, ...], str]:
    """Namespace and key in the query of a read of one item; `get_of` checks the query."""
    given = dict(request.query)
    return tuple(given.get("namespace", "").split(".")), given.get("key", "")


def _body(request: HttpRequest, *, each_judged: bool = False) -> dict[str, JsonValue]:
    if request.query:
        raise MalformedRequest("query: this route takes none")
    value = decode_object(request.body, each_judged=each_judged)
    if not isinstance(value, dict):
        raise MalformedRequest("body: must be a JSON object")
    return value


def get_of(request: HttpRequest) -> HttpRequest:
    """The read of one item as it is forwarded: without extending the item's time to live.

    Raises:
        MalformedRequest: A parameter is missing, unknown or repeated, so that the server could read
            another item.
    """
    names = [name for name, _ in request.query]
    if sorted(names) not in (["key", "namespace"], ["key", "namespace", REFRESH]):
        raise MalformedRequest("query: it has to name key and namespace, once each")
    query = tuple(pair for pair in request.query if pair[0] != REFRESH or pair[1] == "false")
    return HttpRequest(method="GET", path=request.path, query=query)


# How the client asked for the item to be stored; the server does not return these members.
_OPTIONS: Final = ("index", "ttl")


class LangGraphHiding(HidesItems):
    """Removes quarantined items from the server and restores them, one item per request.

    Items cannot be tagged: a tag would be part of the value, which is the client's own, and a read
    of one item by its key takes no filter and would show the tagged item.
    """

    def standing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The read of the item with its value."""
        namespace, key = _place(items[0])
        return item_question(namespace, key)

    def kept(self, items: tuple[UnsettledItem, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """The item's value on the server with the client's `index` and `ttl`; b"" if it is gone."""
        namespace, key = _place(items[0])
        stands = item_told(reply, namespace, key) if reply.status == OK else None
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

    def removing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The deletion of the item by namespace and key."""
        namespace, key = _place(items[0])
        return json_request("DELETE", ITEMS, {"namespace": [*namespace], "key": key})

    def restoring(self, items: tuple[UnsettledItem, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """The put of the stored value, index and ttl."""
        del items
        value = decode_object(kept[0], each_judged=True)
        return json_request("PUT", ITEMS, value)


def _place(item: UnsettledItem) -> tuple[tuple[str, ...], str]:
    _, path, body = request_parts(item)
    if path != ITEMS:
        raise MalformedRequest("item: it is none of this server's")
    return place_of(body)
