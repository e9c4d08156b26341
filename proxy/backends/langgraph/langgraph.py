"""The adapter through which the driver of guard mode uses LangGraph's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from policy.labels.effect import Effect, EffectKind
from policy.model import CandidateId, ChangeKind, ForwardStatus, Tenant
from proxy.backends.http_backend import (
    ANSWERED,
    HidesItems,
    HttpBackend,
    answer_value,
    not_understood,
)
from proxy.backends.kept_request import (
    deletion,
    json_request,
    kept_request,
    request_parts,
    strings_of,
    telling_names,
)
from proxy.backends.langgraph.routes import (
    GET,
    NAMESPACES,
    NEW_THREAD,
    PUT,
    RUN,
    SEARCH,
    SEGMENTS,
    TABLE,
    route_of,
)
from proxy.backends.langgraph.runs import check_new_thread, check_run, events_of, said_in
from proxy.backends.langgraph.store_items import (
    ASKED_MAX,
    ITEMS,
    LIMIT_DEFAULT,
    NAMESPACES_DEFAULT,
    REFRESH,
    SEARCHES,
    ItemPut,
    ItemsSearch,
    LangGraphHiding,
    NamespacesSearch,
    StoredItem,
    asked_place,
    deletion_of,
    get_of,
    is_searched,
    item_in,
    item_question,
    item_told,
    known_key,
    known_prefix,
    list_of,
    place_of,
    put_of,
)
from proxy.dialects.strict_json.strict import JsonValue, as_doubles, convert, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import (
    Attempts,
    ListedMemory,
    ListPart,
    ReadPage,
    RoutedRequest,
    SendOutcome,
    SentMemory,
    ShownMemory,
    WalkedPage,
)
from proxy.seams.operation import HttpReply, HttpRequest

_FORBIDDEN: Final = 403
_KNOWN: Final = frozenset({"namespace", "key", "value"})
# One answer has room for so many items of the longest text that the gate admits.
PAGE_LEN: Final = 200
_EVENTS: Final = "text/event-stream"
_NOT_SHOWN: Final = (
    "withheld: this answer repeats a memory that is hidden, and no part of it can be left out"
)
_SHAPES: Final[Mapping[RoutedRequest | None, type[ItemsSearch | NamespacesSearch]]] = {
    SEARCH: ItemsSearch,
    NAMESPACES: NamespacesSearch,
}


class LangGraph(HttpBackend):
    """Translates requests, answers and items of LangGraph's server (`HttpBackend`)."""

    name = "langgraph"
    segments = SEGMENTS
    table = TABLE
    version = "0.16.7"
    unable: Mapping[str, str] = {
        'quarantine = "tag"': "an item of this server has a value, which is its client's, and no "
        'metadata; `quarantine = "remove"` hides there as well',
        'collections = "create"': "this server has no collections",
    }
    hiding: HidesItems | None = LangGraphHiding()

    def classify(self, request: HttpRequest) -> RoutedRequest | None:
        """The row of the route table; None for a route that it does not have.

        A read of an item that is forwarded as a search (`is_searched`) has its answer rebuilt.
        """
        route = route_of(request)
        if route is not None and route is GET and is_searched(asked_place(request)[0]):
            return msgspec.structs.replace(route, remade=True)
        return route

    def version_question(self) -> HttpRequest:
        """The read of the server's version."""
        return HttpRequest(method="GET", path="/info")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version of `langgraph-api` in the answer; None where it has none."""
        found = answer_value(reply)
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else None

    def attempts(self) -> Attempts:
        """A search of the store, and a malformed put, which has no members."""
        return Attempts(
            alive=self.version_question(), read=_page_from(0), write=json_request("PUT", ITEMS, {})
        )

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the item, because a put of an item that exists is judged as an update."""
        return item_question(*_place(request))

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """The one item of a put or a deletion; () for a deletion of an item that is missing."""
        if known is None:
            raise MalformedRequest("body: what stands there has to be known first")
        stands = item_told(known, *_place(request))
        if route_of(request) is not PUT:
            return () if stands is None else self.named(request)
        body, value = put_of(request)
        key = known_key(body.namespace, body.key)
        change = ChangeKind.CREATE if stands is None else ChangeKind.UPDATE
        item = kept_request("PUT", ITEMS, value, texts=("value",), key=key, change=change)
        # A put replaces the whole value. The replaced text is known where the value is one text.
        effect = Effect(EffectKind.SET, 0) if len(item.pieces) == 1 else None
        return (SentMemory(item=msgspec.structs.replace(item, effect=effect)),)

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletion of the item that a deletion names; () for a put."""
        if route_of(request) is PUT:
            return ()
        gone = deletion_of(request)
        key = known_key(gone.namespace, gone.key)
        return (deletion("DELETE", ITEMS, msgspec.to_builtins(gone), key),)

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The put or the deletion, encoded again; None if it was not admitted."""
        if not items or 0 not in admitted:
            return None
        if route_of(request) is PUT:
            return json_request("PUT", ITEMS, put_of(request)[1])
        return json_request("DELETE", ITEMS, msgspec.to_builtins(deletion_of(request)))

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The read of the item, which does not extend the item's time to live."""
        namespace, key = place_of(request_parts(kept)[2])
        question = item_question(namespace, key)
        if is_searched(namespace):
            return question
        return msgspec.structs.replace(question, query=(*question.query, (REFRESH, "false")))

    def told(self, item: UnsettledItem, reply: HttpReply) -> SendOutcome | None:
        """The outcome that a read shows: DONE if the key has the sent value, or was deleted.

        None where a new item was sent and the key has another value, because the server itself may
        have changed the value.
        """
        if reply.status not in ANSWERED:
            return None
        _, _, body = request_parts(item)
        stands = item_told(reply, *place_of(body))
        arrived = stands is None
        if item.change is not ChangeKind.DELETE:
            arrived = stands is not None and as_doubles(stands.value) == as_doubles(
                body.get("value")
            )
            if item.change is ChangeKind.CREATE and stands is not None and not arrived:
                return None
        return SendOutcome(state=ForwardStatus.DONE if arrived else ForwardStatus.FAILED)

    # ---- reads -----------------------------------------------------------------------------------

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """A read, or a request that concerns no item, checked and encoded again."""
        route = route_of(request)
        if route is GET:
            exact, place = get_of(request), asked_place(request)
            return item_question(*place) if is_searched(place[0]) else exact
        shape = _SHAPES.get(route)
        if shape is not None:
            body = list_of(request, shape)[1]
            first = {} if count is None else {"limit": count, "offset": 0}
            return json_request("POST", request.path, {**body, **first})
        if request.body:
            if route is NEW_THREAD:
                check_new_thread(request)
            if route is RUN:
                check_run(request)
            value = decode_object(request.body, any_text=True)
            again = json_request(request.method, request.path, value)
            return msgspec.structs.replace(again, query=request.query)
        return super().asking(request)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """The items or namespaces of an answer; for a run or thread, one entry with all strings."""
        route = route_of(request)
        if route is None or route.whole:
            return (ShownMemory(key="", strings=_said(reply), place=0),)
        if route is GET:
            value = item_in(reply, *asked_place(request))
            return () if value is None else (_shown(value, 0),)
        found = _listed(reply, "items" if route is SEARCH else "namespaces")
        if route is SEARCH:
            return tuple(_shown(one, at) for at, one in enumerate(found))
        return tuple(_shown_namespace(one, at) for at, one in enumerate(found))

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these items; `null` in place of a single one."""
        route = route_of(request)
        if route is GET:
            value = None if places else item_in(reply, *asked_place(request))
            return msgspec.structs.replace(reply, body=msgspec.json.encode(value))
        if route is not SEARCH and route is not NAMESPACES:
            raise MalformedRequest(_NOT_SHOWN, status=_FORBIDDEN)
        name = "items" if route is SEARCH else "namespaces"
        left = [one for at, one in enumerate(_listed(reply, name)) if at not in places]
        return msgspec.structs.replace(reply, body=msgspec.json.encode({name: left}))

    def page(self, request: HttpRequest) -> ReadPage | None:
        """Offset and limit of a search or a listing; a limit of null is the server's own."""
        route = route_of(request)
        shape = _SHAPES.get(route)
        if shape is None:
            return None
        body, _ = list_of(request, shape)
        own = LIMIT_DEFAULT if route is SEARCH else NAMESPACES_DEFAULT
        limit = own if body.limit is None else body.limit
        return ReadPage(offset=body.offset or 0, limit=limit, most=ASKED_MAX)

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The search for all items, because a namespace belongs to no tenant."""
        del tenant
        return _page_from(0)

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The items of a page of the walk's search, or the one item of an exact read.

        Raises:
            MalformedRequest: The answer is not of the form that its route has.
        """
        value = answer_value(reply) if reply.status in ANSWERED else ...
        if request.method == "GET" and (value is None or isinstance(value, dict)):
            return WalkedPage(memories=() if value is None else (_listed_item(value),))
        found = value.get("items") if isinstance(value, dict) else None
        if request.method == "GET" or not isinstance(found, list):
            raise MalformedRequest(f"answer: {reply.status}, not of the form that this route has")
        memories = tuple(_listed_item(one) for one in found)
        names = tuple(one.key for one in memories)
        part = ListPart(names=names, is_full=len(names) >= PAGE_LEN, begin=_page_from)
        return WalkedPage(memories=memories, part=part)

    def says_same(self, kept: UnsettledItem, found: Item) -> bool:
        """Whether the server's value equals the sent one, as a put replaces the whole value."""
        # A server may round numbers, so they are compared as doubles.
        return as_doubles(request_parts(kept)[2].get("value")) == as_doubles(
            request_parts(found)[2].get("value")
        )

    # ---- answers of our own ----------------------------------------------------------------------

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """204 for a change that was carried out; else the server's own failure, or a refusal."""
        del request
        if replies and replies[0].status not in ANSWERED:
            return replies[0]
        if replies or not judged:
            return HttpReply(status=204)
        detail = {"detail": judged[0].observation}
        return HttpReply(status=_FORBIDDEN, body=msgspec.json.encode(detail))


def _place(request: HttpRequest) -> tuple[tuple[str, ...], str]:
    """Namespace and key of a put or a deletion."""
    named = put_of(request)[0] if route_of(request) is PUT else deletion_of(request)
    return named.namespace, named.key


def _shown(value: JsonValue, place: int) -> ShownMemory:
    try:
        item = convert(value, StoredItem)
        key = known_key(item.namespace, item.key)
    except MalformedRequest:
        return ShownMemory(key="", strings=(), place=place, is_withheld=True)
    found = value if isinstance(value, dict) else {}
    # The strings of members that this adapter does not know are shown to agents as well.
    rest: JsonValue = {name: one for name, one in found.items() if name not in _KNOWN}
    names = telling_names((*item.namespace, item.key))
    made_there = telling_names(strings_of(rest))
    return ShownMemory(
        key=key,
        strings=(*names, *strings_of(item.value), *made_there),
        place=place,
        made_there=made_there,
    )


def _shown_namespace(value: JsonValue, place: int) -> ShownMemory:
    try:
        labels = convert(value, tuple[str, ...])
    except MalformedRequest:
        return ShownMemory(key="", strings=(), place=place, is_withheld=True)
    return ShownMemory(
        key=known_prefix(labels), strings=telling_names(labels), place=place, is_prefix=True
    )


def _listed(reply: HttpReply, name: str) -> list[JsonValue]:
    value = answer_value(reply)
    # A member beside the list would be forwarded unchecked.
    found = value.get(name) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(found, list):
        raise not_understood()
    return found


def _said(reply: HttpReply) -> tuple[str, ...]:
    """Every string in the answer of a run or a thread, which is JSON or a stream of events."""
    if not reply.body.strip():
        return ()
    if reply.content_type.partition(";")[0].strip().lower() != _EVENTS:
        return said_in(answer_value(reply))
    data, others = events_of(reply.body)
    values = [answer_value(HttpReply(status=200, body=one.encode())) for one in data]
    return (*said_in(values), *said_in([*others]))


def _page_from(offset: int) -> HttpRequest:
    """The search for one page of all items. It does not extend the items' time to live."""
    body: JsonValue = {
        "namespace_prefix": [],
        "limit": PAGE_LEN,
        "offset": offset,
        REFRESH: False,
    }
    return json_request("POST", SEARCHES, body)


def _listed_item(value: JsonValue) -> ListedMemory:
    """One item of an answer, in the form that a put of it would be stored in."""
    said = value if isinstance(value, dict) else {}
    body: dict[str, JsonValue] = {name: said.get(name) for name in ("namespace", "key", "value")}
    try:
        put = convert(body, ItemPut)
        key = known_key(put.namespace, put.key)
        item = kept_request("PUT", ITEMS, body, texts=("value",), key=key)
    except MalformedRequest:
        # `known_key` is not used here, because it refuses a long key, and this key is listed too.
        labels = body["namespace"] if isinstance(body["namespace"], list) else [body["namespace"]]
        place = msgspec.json.encode([*labels, body["key"]])
        return ListedMemory(key=place.decode(), item=None)
    return ListedMemory(key=key, item=item)
