"""Decodes and answers the routes of LangGraph's store.

They differ from LangGraph's server: a read never extends the life of an item (`refresh_ttl`), and
all strings of an item are searched, also those that its `index` leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from policy.model import ChangeKind, Memory
from policy.query import AllOf, Compare, Field, Filter, FilterRefused, Test, validate
from policy.verdict import InvariantBroken, Reason
from proxy.dialects.described import NoQuery, query_as
from proxy.dialects.langgraph.items import (
    TARGET,
    VALUE,
    Labels,
    below,
    checked_key,
    checked_labels,
    checked_namespace,
    encoded,
    found_item,
    item_of,
    metadata_of,
    namespace_of,
    own_key,
    scope_of,
    text_of,
)
from proxy.dialects.strict_json.strict import JsonValue, check_text, decode_as
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    PAGE_LEN_MAX,
    SEARCH_LIMIT_MAX,
    EncodingContext,
    EntitiesResult,
    GetMemory,
    GetResult,
    HttpReply,
    HttpRequest,
    ListEntities,
    ListMemories,
    ListResult,
    Operation,
    Proposal,
    Refusal,
    Result,
    Search,
    SearchResult,
    Write,
    WriteResult,
    WrittenItem,
)

_OPERATORS: Final = {
    "$eq": Compare.EQ,
    "$ne": Compare.NE,
    "$gt": Compare.GT,
    "$gte": Compare.GTE,
    "$lt": Compare.LT,
    "$lte": Compare.LTE,
}
_ORDERS: Final = frozenset({Compare.GT, Compare.GTE, Compare.LT, Compare.LTE})


def value_filter(given: dict[str, Any], within: Filter) -> Filter:
    """A filter for items that `within` matches and whose fields are as `given` asks.

    Raises:
        MalformedRequest: A comparison is not one of `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, or
            is made with a list or an empty object; or there are too many comparisons.
    """
    pending: list[tuple[tuple[str, ...], JsonValue]] = [((name,), given[name]) for name in given]
    tests: list[Filter] = []
    while pending:
        path, wanted = pending.pop()
        if not isinstance(wanted, dict):
            tests.append(_test(path, Compare.EQ, wanted))
            continue
        operators = [name for name in wanted if name.startswith("$")]
        if not wanted or (operators and len(operators) < len(wanted)):
            raise MalformedRequest("filter: an object has operators alone, or fields alone")
        for name, part in wanted.items():
            if not operators:
                pending.append(((*path, name), part))
            elif name in _OPERATORS:
                tests.append(_test(path, _OPERATORS[name], part))
            else:
                raise MalformedRequest(f"filter: the operators are {', '.join(_OPERATORS)}")
    where = AllOf(parts=(within, *tests))
    try:
        validate(where)
    except FilterRefused as refused:
        raise MalformedRequest(f"filter: {refused}") from None
    return where


def _test(path: tuple[str, ...], compare: Compare, wanted: JsonValue) -> Test:
    if isinstance(wanted, list | dict):
        raise MalformedRequest("filter: a field is compared with a string, number, boolean or null")
    if compare in _ORDERS and (wanted is None or isinstance(wanted, bool)):
        raise MalformedRequest("filter: only strings and numbers have an order")
    return Test(field=Field.METADATA, key=VALUE, path=path, compare=compare, values=(wanted,))


ROOT: Final = "/store"
ITEMS: Final = f"{ROOT}/items"
SEARCH: Final = f"{ITEMS}/search"
NAMESPACES: Final = f"{ROOT}/namespaces"
WILD: Final = "*"
TTL_MINUTES_MAX: Final = 52_560_000  # a hundred years
_MINUTE_MS: Final = 60_000
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_UNAUTHORIZED: Final = 401
_Shape = TypeVar("_Shape", bound=msgspec.Struct)
_REFRESH: Final = "refresh_ttl: a read changes nothing here; put the item again"


class Put(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a put. `ttl` is the item's life in minutes."""

    namespace: Labels
    key: str
    value: dict[str, Any]
    index: bool | list[str] | None = None
    ttl: Annotated[float, Meta(gt=0, le=TTL_MINUTES_MAX)] | None = None


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of the deletion of one item."""

    namespace: Labels
    key: str


class NamedInQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of a read of one item; `namespace` is its labels, joined by full stops."""

    namespace: str
    key: str
    refresh_ttl: str | None = None


class SearchItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a search. A search without `query` lists items, newest first."""

    namespace_prefix: Labels | None = None
    filter: dict[str, Any] | None = None
    limit: Annotated[int, Meta(ge=1, le=SEARCH_LIMIT_MAX)] = 10
    offset: Annotated[int, Meta(ge=0)] = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class ListNamespaces(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a listing of namespaces. A label `*` in prefix or suffix matches any label."""

    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: Annotated[int, Meta(ge=1)] | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_LEN_MAX)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0


_LISTING: Final = msgspec.json.Decoder(ListNamespaces)


class LangGraphStore:
    """Decodes and answers requests of LangGraph's store (`Dialect`).

    Pure; one instance serves every request.
    """

    name = "langgraph"
    segments = frozenset({ROOT[1:]})

    def claims(self, request: HttpRequest) -> bool:
        """Whether a request is for this API: its path is `/store` or below."""
        return request.path == ROOT or request.path.startswith(f"{ROOT}/")

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `X-API-Key`, or else in `Authorization: Bearer`."""
        return request.key("x-api-key")

    def decode(self, request: HttpRequest) -> Operation:
        """The operation that a request asks for (`Dialect.decode`)."""
        reads = _ROUTES.get((request.method, request.path))
        if reads is not None:
            return reads(request)
        if request.method in _SAFE:
            raise MalformedRequest("there is nothing here", status=404)
        raise UnknownWrite

    def encode(
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """The answer with the items that were asked for; 204 for a write that was done."""
        del request
        match result:
            case WriteResult():
                return _written(result.items, answering)
            case GetResult(memory=memory):
                item = None if memory is None else item_of(memory)
                asked = operation.own_key if isinstance(operation, GetMemory) else None
                # Another API may have changed the metadata of the memory that has this key.
                if item is not None and own_key(tuple(item.namespace), item.key) != asked:
                    item = None
                return _reply(item)
            case SearchResult():
                offset = int(operation.note) if isinstance(operation, Search) else 0
                return _items((hit.memory, round(hit.score, 6)) for hit in result.hits[offset:])
            case ListResult():
                return _items((memory, None) for memory in result.memories)
            case EntitiesResult():
                return _reply({"namespaces": _namespaces(operation, result)})
            case _:
                raise InvariantBroken("no route of this dialect asks for that")

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """The answer to a failure: `{"detail": ...}`, which `langgraph-sdk` puts into an exception.

        A credential that is missing or unknown is answered with `WWW-Authenticate: Bearer`.
        """
        del request, answering
        headers: tuple[tuple[str, str], ...] = ()
        if refusal.status == _UNAUTHORIZED:
            headers += (("WWW-Authenticate", "Bearer"),)
        if refusal.retry_after_s is not None:
            headers += (("Retry-After", str(refusal.retry_after_s)),)
        return _reply({"detail": refusal.detail}, refusal.status, headers)


def _put(request: HttpRequest) -> Operation:
    body = _body_as(request, Put, each_judged=True)
    namespace, key = checked_namespace(body.namespace), checked_key(body.key)
    if body.index is True:
        raise MalformedRequest("index: false, or a list of fields")
    proposal = Proposal(
        change=ChangeKind.CREATE,
        own_key=own_key(namespace, key),
        text=text_of(body.value),
        metadata_json=metadata_of(namespace, key, body.value),
        scope=scope_of(namespace),
        target=TARGET,
        ttl_ms=None if body.ttl is None else math.ceil(body.ttl * _MINUTE_MS),
    )
    return Write(proposals=(proposal,))


def _delete(request: HttpRequest) -> Operation:
    body = _body_as(request, Named)
    key = own_key(checked_namespace(body.namespace), checked_key(body.key))
    proposal = Proposal(change=ChangeKind.DELETE, own_key=key, target=TARGET)
    return Write(proposals=(proposal,))


def _get(request: HttpRequest) -> Operation:
    asked = query_as(request.query, NamedInQuery)
    if asked.refresh_ttl is not None and asked.refresh_ttl.lower() != "false":
        raise MalformedRequest(_REFRESH)
    namespace = checked_namespace(asked.namespace.split("."))
    return GetMemory(own_key=own_key(namespace, checked_key(asked.key)))


def _search(request: HttpRequest) -> Operation:
    body = _body_as(request, SearchItems)
    if body.refresh_ttl:
        raise MalformedRequest(_REFRESH)
    where = below(checked_labels(body.namespace_prefix or []))
    if body.filter:
        where = value_filter(body.filter, where)
    if not body.query:
        return ListMemories(where=where, offset=body.offset, limit=body.limit)
    check_text(body.query, "query")
    if body.offset + body.limit > SEARCH_LIMIT_MAX:
        raise MalformedRequest(f"offset: with limit at most {SEARCH_LIMIT_MAX}")
    return Search(
        query=body.query, where=where, limit=body.offset + body.limit, note=str(body.offset)
    )


def _list_namespaces(request: HttpRequest) -> Operation:
    body = _body_as(request, ListNamespaces)
    checked_labels(body.prefix or [])
    checked_labels(body.suffix or [])
    return ListEntities(note=encoded(body).decode())


_ROUTES: Final[dict[tuple[str, str], Callable[[HttpRequest], Operation]]] = {
    ("PUT", ITEMS): _put,
    ("GET", ITEMS): _get,
    ("DELETE", ITEMS): _delete,
    ("POST", SEARCH): _search,
    ("POST", NAMESPACES): _list_namespaces,
}


def _body_as(request: HttpRequest, shape: type[_Shape], *, each_judged: bool = False) -> _Shape:
    query_as(request.query, NoQuery)
    return decode_as(request.body, shape, each_judged=each_judged)


def _written(items: tuple[WrittenItem, ...], answering: EncodingContext) -> HttpReply:
    if len(items) != 1:
        raise InvariantBroken("one proposal gives one item")
    [item] = items
    # LangGraph answers the deletion of a missing item like that of any other item.
    if item.decision in {"admit", "missing"}:
        return HttpReply(status=204)
    reason = None if item.reason is None else item.reason.value
    undecided = item.decision == "error" or item.reason is Reason.GATE_UNAVAILABLE
    body = {
        "detail": item.observation,
        "decision": item.decision,
        "reason": reason,
        "candidate_id": item.candidate_id,
        "trace_id": answering.trace_id,
    }
    # No client retries a 403 by itself, and LangGraph's client raises `PermissionDeniedError` with
    # the detail.
    return _reply(body, 503 if undecided else 403)


def _items(found: Iterable[tuple[Memory, float | None]]) -> HttpReply:
    items = [item for one, score in found if (item := found_item(one, score)) is not None]
    return _reply({"items": items})


def _namespaces(operation: Operation, result: EntitiesResult) -> list[list[str]]:
    note = operation.note if isinstance(operation, ListEntities) else ""
    asked = _LISTING.decode(note)
    prefix, suffix = asked.prefix or [], (asked.suffix or [])[::-1]
    there: set[tuple[str, ...]] = set()
    for entity in result.entities:
        labels = namespace_of(entity)
        if labels is not None and _begins(labels, prefix) and _begins(labels[::-1], suffix):
            there.add(labels[: asked.max_depth])
    return [list(one) for one in sorted(there)[asked.offset : asked.offset + asked.limit]]


def _begins(labels: tuple[str, ...], wanted: list[str]) -> bool:
    if len(labels) < len(wanted):
        return False
    return all(one in {WILD, label} for one, label in zip(wanted, labels, strict=False))


def _reply(body: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    return HttpReply(status=status, body=encoded(body), headers=headers)
