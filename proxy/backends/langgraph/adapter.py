"""LangGraph's server as the driver of guard mode sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from policy.labels.editing import Effect, How
from policy.model import CandidateId, ChangeKind, Forwarded, Tenant
from proxy.backends.http_outcome import state_of
from proxy.backends.kept_request import (
    json_request,
    kept_request,
    request_again,
    request_parts,
    strings_of,
    telling_names,
)
from proxy.backends.langgraph import whole_store
from proxy.backends.langgraph.hiding import LangGraphHiding
from proxy.backends.langgraph.routes import (
    GET,
    NAMESPACES,
    NEW_THREAD,
    PUT,
    RUN,
    SEARCH,
    SEGMENTS,
    VERSIONS,
    route_of,
)
from proxy.backends.langgraph.runs import check_run, events_of, said_in
from proxy.backends.langgraph.store_items import (
    ASKED_MAX,
    ITEMS,
    LIMIT_DEFAULT,
    NAMESPACES_DEFAULT,
    ItemsSearch,
    NamespacesSearch,
    StoredItem,
    answer_value,
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
from proxy.backends.langgraph.threads import check_new_thread
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_object
from proxy.seams.backend_listing import Attempts, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, Unsettled
from proxy.seams.http_backend import Outcome, Page, Routed, Sending, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

NOBODY: Final = ""  # no principal has this key, so a request with it is refused
_FORBIDDEN: Final = 403
_DONE: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
_BEARER: Final = "bearer "
_KNOWN: Final = frozenset({"namespace", "key", "value"})
_EVENTS: Final = "text/event-stream"
_NOT_SHOWN: Final = (
    "withheld: this answer repeats a memory that is hidden, and no part of it can be left out"
)


class LangGraph:
    """Implements `HttpBackend` for LangGraph's server."""

    name = "langgraph"
    segments = SEGMENTS
    versions = VERSIONS
    unable: Mapping[str, str] = {
        'quarantine = "tag"': "an item of this server has a value, which is its client's, and no "
        'metadata; `quarantine = "remove"` hides there as well',
        'collections = "create"': "this server has no collections",
    }
    hiding = LangGraphHiding()

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `x-api-key`, where the SDK puts it, or behind `Bearer`.

        Two different keys are nobody's.
        """
        given = request.headers.get("x-api-key")
        header = request.headers.get("authorization", "")
        bearer = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else None
        if given is not None and bearer and given != bearer:
            return NOBODY
        return bearer if given is None else given

    def classify(self, request: HttpRequest) -> Routed | None:
        """The row of the route table; None for a route that it does not have."""
        route = route_of(request)
        if route is not None and route is GET and is_searched(asked_place(request)[0]):
            return msgspec.structs.replace(route, remade=True)
        return route

    def folder(self, request: HttpRequest) -> str:
        """No request is bound to a place: a namespace is a convention among programs."""
        del request
        return ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Every tenant may use the server: whose an item is, its key tells."""
        del request, tenant
        return True

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """The server has no places: a namespace is there once an item is in it."""
        del request
        return None

    def version_question(self) -> HttpRequest:
        """The read of the server's version."""
        return HttpRequest(method="GET", path="/info")

    def version_told(self, reply: HttpReply) -> str | None:
        """The version of `langgraph-api`."""
        found = answer_value(reply)
        version = found.get("version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else None

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the item: a put over an item that is there is an update."""
        return item_question(*_place(request))

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[Sending, ...]:
        """The one item of a put or a deletion; none for a deletion of what is not there."""
        if known is None:
            raise MalformedRequest("body: what stands there has to be known first")
        stands = item_told(known, *_place(request))
        if route_of(request) is not PUT:
            gone = deletion_of(request)
            return () if stands is None else (_deletion(gone.namespace, gone.key),)
        body, value = put_of(request)
        key = known_key(body.namespace, body.key)
        kept = kept_request("PUT", ITEMS, value, texts=("value",), key=key)
        change = ChangeKind.CREATE if stands is None else ChangeKind.UPDATE
        # A put replaces the whole value. What it replaces can be told from the candidate where the
        # value is one text.
        effect = Effect(How.SET, 0) if len(kept.pieces) == 1 else None
        item = Item(
            change=change, arguments=kept.arguments, pieces=kept.pieces, key=key, effect=effect
        )
        return (Sending(item=item),)

    def named(self, request: HttpRequest) -> tuple[Sending, ...]:
        """The deletion of the item that is named."""
        if route_of(request) is PUT:
            return ()
        gone = deletion_of(request)
        return (_deletion(gone.namespace, gone.key),)

    def forward(
        self,
        request: HttpRequest,
        items: tuple[Sending, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The put or the deletion, encoded anew; None if it was not admitted."""
        if not items or 0 not in admitted:
            return None
        if route_of(request) is PUT:
            return json_request("PUT", ITEMS, put_of(request)[1])
        return json_request("DELETE", ITEMS, msgspec.to_builtins(deletion_of(request)))

    def outcome(
        self, request: HttpRequest, admitted: tuple[Sending, ...], reply: HttpReply
    ) -> tuple[Outcome, ...]:
        """Done, or failed by the server's word; unknown where the server failed on its side."""
        del request
        return tuple(Outcome(state=state_of(reply.status)) for _ in admitted)

    def released(self, item: Unsettled, blob: bytes) -> HttpRequest:
        """The put or the deletion that was kept."""
        del blob
        return request_again(item)

    def question(self, item: Unsettled) -> HttpRequest | None:
        """The read of the item."""
        _, _, body = request_parts(item)
        return item_question(*place_of(body))

    def told(self, item: Unsettled, reply: HttpReply) -> Outcome | None:
        """The outcome that a key shows: it has the sent value, or for a deletion none.

        None where a new item was sent and another value stands there: the server may have changed
        the value that was sent.
        """
        if reply.status not in _DONE:
            return None
        _, _, body = request_parts(item)
        stands = item_told(reply, *place_of(body))
        arrived = stands is None
        if item.change is not ChangeKind.DELETE:
            arrived = stands is not None and stands.value == body.get("value")
            if item.change is ChangeKind.CREATE and stands is not None and not arrived:
                return None
        return Outcome(state=Forwarded.DONE if arrived else Forwarded.FAILED)

    # ---- reads -----------------------------------------------------------------------------------

    def asking(self, request: HttpRequest) -> HttpRequest:
        """The read, or the request for something else, checked and encoded anew."""
        route = route_of(request)
        if route is GET:
            exact, place = get_of(request), asked_place(request)
            return item_question(*place) if is_searched(place[0]) else exact
        if route is SEARCH:
            return json_request("POST", request.path, list_of(request, ItemsSearch)[1])
        if route is NAMESPACES:
            return json_request("POST", request.path, list_of(request, NamespacesSearch)[1])
        if request.body:
            if route is NEW_THREAD:
                check_new_thread(request)
            if route is RUN:
                check_run(request)
            value = decode_object(request.body, any_text=True)
            again = json_request(request.method, request.path, value)
            return msgspec.structs.replace(again, query=request.query)
        return HttpRequest(method=request.method, path=request.path, query=request.query)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """The items, or namespaces, of an answer; of a run or a thread, all that it says as one."""
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

    def page(self, request: HttpRequest) -> Page | None:
        """Offset and limit of a search or a listing; a limit of null is the server's own."""
        route = route_of(request)
        if route is not SEARCH and route is not NAMESPACES:
            return None
        body, _ = list_of(request, ItemsSearch if route is SEARCH else NamespacesSearch)
        own = LIMIT_DEFAULT if route is SEARCH else NAMESPACES_DEFAULT
        limit = own if body.limit is None else body.limit
        return Page(offset=body.offset or 0, limit=limit, most=ASKED_MAX)

    def from_start(self, request: HttpRequest, count: int | None) -> HttpRequest:
        """The same search or listing, with this limit and no offset."""
        shape = ItemsSearch if route_of(request) is SEARCH else NamespacesSearch
        _, value = list_of(request, shape)
        return json_request("POST", request.path, {**value, "limit": count, "offset": 0})

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The search for everything: a namespace is nobody's place."""
        del tenant
        return whole_store.page_from(0)

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The items of a page of that search, or the one of an exact read."""
        return whole_store.listed(request, reply)

    def reading(self, kept: Unsettled) -> HttpRequest:
        """The exact read of an item, which does not make it live longer."""
        _, _, body = request_parts(kept)
        return whole_store.reading(*place_of(body))

    def says_same(self, kept: Unsettled, found: Item) -> bool:
        """Whether the value on the server is the one that was sent: a put replaces all of it."""
        return request_parts(kept)[2].get("value") == request_parts(found)[2].get("value")

    def mark_of(self, found: Item) -> str | None:
        """None: a key is its client's word here, so nothing is marked."""
        del found
        return None

    def attempts(self) -> Attempts:
        """A search of the store, and a put without its members."""
        return Attempts(
            alive=self.version_question(),
            read=whole_store.page_from(0),
            write=json_request("PUT", ITEMS, {}),
        )

    # ---- answers of our own ----------------------------------------------------------------------

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """204, as the server says it of what is done; its failure, or a refusal in its shape."""
        del request
        if replies and replies[0].status not in _DONE:
            return replies[0]
        if replies or not judged:
            return HttpReply(status=204)
        return _detail(_FORBIDDEN, judged[0].observation)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure as `{"detail"}`, with the headers that its status asks for."""
        del request
        headers: tuple[tuple[str, str], ...] = ()
        if refusal.retry_after_s is not None:
            headers += (("Retry-After", str(refusal.retry_after_s)),)
        if refusal.status == _UNAUTHORIZED:
            headers += (("WWW-Authenticate", 'Bearer realm="mnemogate"'),)
        return _detail(refusal.status, refusal.detail, headers)


def _detail(status: int, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
    return HttpReply(status=status, body=msgspec.json.encode({"detail": detail}), headers=headers)


def _place(request: HttpRequest) -> tuple[tuple[str, ...], str]:
    """Namespace and key of a put or a deletion."""
    named = put_of(request)[0] if route_of(request) is PUT else deletion_of(request)
    return named.namespace, named.key


def _deletion(namespace: tuple[str, ...], name: str) -> Sending:
    key = known_key(namespace, name)
    body: JsonValue = {"namespace": [*namespace], "key": name}
    kept = kept_request("DELETE", ITEMS, body, texts=(), key=key)
    # The key as the only piece says that all of the item goes.
    item = Item(change=ChangeKind.DELETE, arguments=kept.arguments, pieces=(key,), key=key)
    return Sending(item=item)


def _shown(value: JsonValue, place: int) -> ShownMemory:
    try:
        item = convert(value, StoredItem)
        key = known_key(item.namespace, item.key)
    except MalformedRequest:
        return ShownMemory(key="", strings=(), place=place, is_withheld=True)
    found = value if isinstance(value, dict) else {}
    # Members that are not known here are shown as well.
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
    # A member beside the list would go on unread.
    found = value.get(name) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(found, list):
        raise MalformedRequest("answer: not of the form that this route has")
    return found


def _said(reply: HttpReply) -> tuple[str, ...]:
    """Every string in the answer of a run or a thread, be it JSON or a stream of events."""
    if not reply.body.strip():
        return ()
    if reply.content_type.partition(";")[0].strip().lower() != _EVENTS:
        return said_in(answer_value(reply))
    data, others = events_of(reply.body)
    values = [answer_value(HttpReply(status=200, body=one.encode())) for one in data]
    return (*said_in(values), *said_in([*others]))
