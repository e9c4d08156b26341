"""The adapter through which the driver of guard mode uses a Chroma server.

The server merges: a stored record keeps each part, and each key of its metadata, that a later write
does not name. So the record as it will be after the write is judged, and not the write alone.
A walk reads ids first, and then records by their ids. One answer has room for the ids of most
collections, so that a deletion during the walk hides no record from it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import CandidateId, ChangeKind, ForwardStatus, Tenant
from proxy.backends.chroma.hiding import ChromaHiding
from proxy.backends.chroma.reads import ChromaReads
from proxy.backends.chroma.records import (
    Record,
    check_where,
    checked_ids,
    columns_of,
    found_in,
    kept_of,
    records_of,
)
from proxy.backends.chroma.routes import (
    ADD,
    CREATE,
    DELETE,
    GET,
    GET_OR_CREATE,
    MAKE,
    ROOT,
    SEGMENTS,
    TABLE,
    UPDATE,
    CollectionPath,
    invalid,
    making,
    place_of,
    reading,
    route_of,
    tenant_of,
    to,
    wanted,
)
from proxy.backends.http_backend import ANSWERED, OK, HidesItems, HttpBackend, not_understood
from proxy.backends.kept_request import deletion, json_request, kept_request, merged
from proxy.dialects.problem import refusal_headers
from proxy.dialects.strict_json.strict import JsonValue, check_text, decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import (
    Attempts,
    Does,
    ListedMemory,
    ListPart,
    RoutedRequest,
    SendOutcome,
    SentMemory,
    WalkedPage,
)
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

_CREATED: Final = 201
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_OBSERVATIONS_MAX: Final = 3
# Only names that the client knows become exceptions of their own; it shows others as bare text.
_ERRORS: Final = {
    401: "AuthorizationError",
    _FORBIDDEN: "AuthorizationError",
    _NOT_FOUND: "NotFoundError",
    429: "RateLimitError",
}
_INVALID: Final = "InvalidArgumentError"
_NO_COLLECTION: Final = (
    "there is no collection of that name, and agents may create none here: an operator creates it "
    'on the server, or sets collections = "create" in the [[backend]] table of this server'
)
_INTERNAL: Final = "InternalError"
_SERVER_ERRORS: Final = 500
_ADMIT: Final = "admit"
_DEFAULT: Final = "default"
_DEFAULT_THERE: Final = "default_tenant"
_OF_COLLECTION: Final = frozenset({Does.READ, Does.WRITE, Does.REMOVE})
_TEXTS: Final = ("documents", "metadatas", "uris")
# One answer has room for so many records of the longest text that the gate admits.
PAGE_LEN: Final = 200
# One answer has room for so many ids of three hundred characters.
IDS_AT_ONCE: Final = 50_000
_NOBODYS: Final = "00000000-0000-4000-8000-000000000000"
_DATABASES: Final = "databases"
_COLLECTIONS: Final = "collections"
# The name of a database becomes a segment of a path. `.` and `..` would be another path.
_SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[^/\\%?#\x00-\x20\x7f]{1,512}")


class _Removal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `delete`."""

    # Ids of any length and characters: what another client filed under one can be removed.
    ids: tuple[str, ...] | None = None
    where: dict[str, JsonValue] | None = None
    where_document: dict[str, JsonValue] | None = None
    limit: Annotated[int, Meta(ge=0)] | None = None


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """A database or a collection in an answer, without its further members."""

    id: str
    name: str


class _Refused(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""


_NAMED: Final = msgspec.json.Decoder(tuple[_Named, ...])


class Chroma(ChromaReads, HttpBackend):
    """Translates requests, answers and memories of a Chroma server (`HttpBackend`)."""

    name = "chroma"
    segments = SEGMENTS
    table = TABLE
    version = "1.5.9"
    key_header = "x-chroma-token"
    unable: Mapping[str, str] = {}
    hiding: HidesItems | None = ChromaHiding()

    def __init__(self, *, creates: bool = False) -> None:
        """`creates`: agents may create collections, each below the path of its own tenant."""
        self._creates = creates

    def classify(self, request: HttpRequest) -> RoutedRequest | None:
        """The row of the route table; None for a route that it does not have.

        A `create_collection` with `get_or_create` is a read of the collection, unless agents may
        create collections.
        """
        routed = route_of(request)
        if routed is not CREATE:
            return routed
        if self._creates:
            return MAKE
        return routed if wanted(request) is None else GET_OR_CREATE

    def folder(self, request: HttpRequest) -> str:
        """The beginning of the keys of the request's collection; "" if there is no single one."""
        routed = route_of(request)
        about_one = routed is not None and routed.does in _OF_COLLECTION
        return place_of(request.path).folder if about_one else ""

    def is_open_to(self, request: HttpRequest, tenant: str) -> bool:
        """Whether the server's tenant in the path has the name of the principal's own tenant.

        The tenant `default` has the server's `default_tenant`, so a tenant that is itself named
        `default_tenant` may use none.
        """
        named = tenant_of(request)
        if tenant == _DEFAULT_THERE:
            return False
        return named is None or named == _there(tenant)

    def place(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the collection by its uuid; None for a request that is about no collection.

        The server checks tenant and database of a path in this read alone. In every other request a
        collection's uuid opens the collection through the path of any tenant.
        """
        routed = route_of(request)
        if routed is None or routed.does not in _OF_COLLECTION:
            return None
        return HttpRequest(method="GET", path=place_of(request.path).by_id)

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure as `{"error", "message"}`, with the headers that its status asks for."""
        other = _INTERNAL if refusal.status >= _SERVER_ERRORS else _INVALID
        name = _ERRORS.get(refusal.status, other)
        is_new = refusal.status == _NOT_FOUND and route_of(request) is CREATE
        message = _NO_COLLECTION if is_new else refusal.detail
        return _error(refusal.status, name, message, refusal_headers(refusal))

    def attempts(self) -> Attempts:
        """A read of the server's databases, and a malformed `add` to a collection of no one."""
        database = f"{ROOT}/tenants/{_DEFAULT_THERE}/{_DATABASES}/default_database"
        nowhere = f"{database}/{_COLLECTIONS}/{_NOBODYS}/{ADD.operation}"
        return Attempts(
            alive=HttpRequest(method="GET", path=f"{ROOT}/heartbeat"),
            read=_page_from(f"{ROOT}/tenants/{_DEFAULT_THERE}/{_DATABASES}", 0),
            write=json_request("POST", nowhere, {}),
        )

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """A read as it is forwarded; a `create_collection` becomes a read unless agents create."""
        if route_of(request) is CREATE:
            return making(request) if self._creates else reading(request)
        return super().asking(request, count)

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the records that a write is merged with, or that a deletion names.

        Raises:
            MalformedRequest: The write or the deletion is not of the known form.
        """
        place = place_of(request.path)
        if route_of(request) is not DELETE:
            return _get(place, [one.record_id for one in _written_records(request)])
        removal = decode_as(request.body, _Removal, each_judged=True)
        if removal.ids is None and removal.where is None and removal.where_document is None:
            raise invalid("ids, where: one of them must be there")
        check_where(removal.where)
        check_where(removal.where_document)
        body: dict[str, JsonValue] = {
            "ids": None if removal.ids is None else [*checked_ids(removal.ids)],
            "where": removal.where,
            "where_document": removal.where_document,
            # The limit counts records that the agent may see, so it is applied here and not by the
            # server; the texts are read to find out which records those are.
            "include": [*_TEXTS],
        }
        return to(place, GET, body)

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """One entry for each record that the request would write or delete.

        A record that the server would leave as it is has no entry: an `add` of an id that exists,
        and an `update` of an id that does not.
        """
        if known is None or known.status != OK:
            raise MalformedRequest("ids: what stands there has to be known first")
        route, place, found = route_of(request), place_of(request.path), found_in(known)
        if route is DELETE:
            most = decode_as(request.body, _Removal, each_judged=True).limit
            return tuple(_removed(place, record_id) for record_id in [*found][:most])
        sendings: list[SentMemory] = []
        for record in _written_records(request):
            there = found.get(record.record_id)
            stays = there is not None if route is ADD else route is UPDATE and there is None
            if not stays:
                sendings.append(_written(place, record, there))
        return tuple(sendings)

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletions of the ids that a deletion names without a filter or a limit."""
        if route_of(request) is not DELETE:
            return ()
        removal = decode_as(request.body, _Removal, each_judged=True)
        if any(one is not None for one in (removal.where, removal.where_document, removal.limit)):
            return ()
        place = place_of(request.path)
        return tuple(_removed(place, record_id) for record_id in removal.ids or ())

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The request for the admitted records alone; a deletion names ids and has no filter."""
        place = place_of(request.path)
        ids = [place.record_id(one.item.key) for at, one in enumerate(items) if at in admitted]
        if not ids:
            return None
        if route_of(request) is DELETE:
            return to(place, DELETE, {"ids": [*ids]})
        kept = frozenset(ids)
        records = [one for one in _written_records(request) if one.record_id in kept]
        # An `upsert` of new records is forwarded as an `add`. If another client created one of the
        # records meanwhile, an `upsert` would merge into a text that was not judged with this one.
        if all(items[at].item.change is ChangeKind.CREATE for at in admitted):
            return to(place, ADD, columns_of([_new(one) for one in records]))
        return to(place, route_of(request) or UPDATE, columns_of(records))

    def released(self, item: UnsettledItem, blob: bytes) -> HttpRequest:
        """The request that sends one released item.

        A new record is sent as an `add`, so that it is never merged into one created meanwhile. A
        changed record is sent as an `update`, so that a deleted one is not created again.

        Raises:
            MalformedRequest: The vector is not the one that was judged.
        """
        place, kept = kept_of(item)
        if item.change is ChangeKind.DELETE:
            return to(place, DELETE, {"ids": [*kept.ids]})
        has_vector = kept.embeddings is not None
        if has_vector and (_digest(blob),) != kept.embeddings:
            raise MalformedRequest("item: its vector is not the one that was judged")
        record = kept.record(blob if has_vector else None)
        if item.change is ChangeKind.CREATE:
            return to(place, ADD, columns_of([_new(record)]))
        return to(place, UPDATE, columns_of([record]))

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The `get` of the record by its id, with its texts and without its vector."""
        place, record = kept_of(kept)
        return _get(place, [*record.ids])

    def told(self, item: UnsettledItem, reply: HttpReply) -> SendOutcome | None:
        """The outcome that a record shows: DONE if it has every part of the write, or was deleted.

        An update FAILED where the record is as it was when the update was judged. None where
        another write may have come since, because this one may then have arrived before it.
        """
        if reply.status not in ANSWERED:
            return None
        _, kept = kept_of(item)
        there = found_in(reply).get(kept.ids[0])
        if item.change is ChangeKind.DELETE:
            return SendOutcome(state=ForwardStatus.DONE if there is None else ForwardStatus.FAILED)
        if there is None:
            return SendOutcome(state=ForwardStatus.FAILED)
        # A write that arrived changes nothing when it is merged once more.
        if there.has(kept.record()):
            return SendOutcome(state=ForwardStatus.DONE)
        return (
            SendOutcome(state=ForwardStatus.FAILED) if kept.stood == (_print_of(there),) else None
        )

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """An answer of the server's form if all records were admitted; else a 403 with refusals.

        A request that concerns no record gets the same answer as one whose records were admitted.
        """
        reply = replies[0] if replies else None
        if reply is not None and reply.status not in ANSWERED:
            return reply
        refused = [one.observation for one in judged if one.decision != _ADMIT]
        if refused:
            said = " ".join([*dict.fromkeys(refused)][:_OBSERVATIONS_MAX])
            message = f"{len(refused)} of {len(judged)} records: {said}"
            return _error(_FORBIDDEN, _ERRORS[_FORBIDDEN], message)
        routed = route_of(request)
        status = _CREATED if routed is ADD else OK
        # The body is built here, because the server's own was not checked.
        body = b'{"deleted":%d}' % len(judged) if routed is DELETE else b"{}"
        return HttpReply(status=status, body=body)

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The read of the tenant's databases, because the server has no list of tenants."""
        return _page_from(f"{ROOT}/tenants/{_there(tenant)}/{_DATABASES}", 0)

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The memories, names and further reads in the answer to a read of the walk.

        Raises:
            MalformedRequest: The answer is not of the form that its route has.
        """
        last = request.path.rpartition("/")[2]
        if last == GET.operation:
            return _of_collection(request, reply)
        if last == _DATABASES and _is_nobody(reply):
            return WalkedPage()
        found = _named(reply)
        if last == _DATABASES and not all(_SEGMENT.fullmatch(one.name) for one in found):
            raise MalformedRequest("answer: a database whose name can stand in no path")
        names = tuple(one.name if last == _DATABASES else one.id for one in found)
        part = ListPart(
            names=names,
            is_full=len(names) >= PAGE_LEN,
            begin=partial(_page_from, request.path),
            below=partial(_below, request.path),
        )
        return WalkedPage(part=part)

    def says_same(self, kept: UnsettledItem, found: Item) -> bool:
        """Whether a record on the server has every part that was sent, and no other text.

        The parts that a merge left unchanged were judged with the write, so they are among the kept
        pieces.
        """
        _, sent = kept_of(kept)
        _, stands = kept_of(found)
        there = stands.record()
        return (
            there.has(sent.record())
            and {*there.strings()} <= {*kept.pieces}
            and {*kept.pieces} <= {*found.pieces, kept.key}
        )


def _there(tenant: str) -> str:
    """The name that a tenant of Mnemogate has on the server."""
    return {_DEFAULT: _DEFAULT_THERE}.get(tenant, tenant)


def _error(
    status: int, name: str, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> HttpReply:
    body = msgspec.json.encode({"error": name, "message": message})
    return HttpReply(status=status, body=body, headers=headers)


def _written_records(request: HttpRequest) -> tuple[Record, ...]:
    """The checked records of a write (`records_of`); an `update` may lack vectors."""
    return records_of(request.body, needs_vectors=route_of(request) is not UPDATE)


def _removed(place: CollectionPath, record_id: str) -> SentMemory:
    return deletion("POST", place.path, {"ids": [record_id]}, place.key(record_id))


def _written(place: CollectionPath, record: Record, there: Record | None) -> SentMemory:
    body: dict[str, JsonValue] = {"ids": [record.record_id]}
    parts = (record.document, record.metadata, record.uri)
    body |= {name: [part] for name, part in zip(_TEXTS, parts, strict=True) if part is not None}
    if record.vector is not None:
        body["embeddings"] = [_digest(record.vector)]
    change = ChangeKind.CREATE
    if there is not None:
        body["stood"] = [_print_of(there)]
        change = ChangeKind.UPDATE
    key = place.key(record.record_id)
    item = kept_request("POST", place.path, body, texts=_TEXTS, key=key, change=change)
    if there is not None:
        item = merged(item, there.after(record).strings())
    return SentMemory(item=item, blob=record.vector or b"")


def _new(record: Record) -> Record:
    """A new record without null values: an `add` rejects a null, which would remove a key."""
    return Record(record.record_id).after(record)._replace(vector=record.vector)


def _get(place: CollectionPath, ids: list[str]) -> HttpRequest:
    return to(place, GET, {"ids": [*ids], "include": [*_TEXTS]})


def _print_of(record: Record) -> str:
    """The SHA-256 (hex) of the parts of a record that a read shows."""
    shown = (record.document, record.metadata, record.uri)
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def _digest(vector: bytes) -> str:
    return hashlib.sha256(vector).hexdigest()


def _below(path: str, names: tuple[str, ...]) -> tuple[HttpRequest, ...]:
    """The first reads of the collections in databases, or of the ids in collections."""
    if path.endswith(_DATABASES):
        return tuple(_page_from(f"{path}/{one}/{_COLLECTIONS}", 0) for one in names)
    return tuple(_ids_from(place_of(f"{path}/{one}"), 0) for one in names)


def _of_collection(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    if reply.status != OK:
        raise MalformedRequest(f"answer: {reply.status} to a read of a collection")
    place = place_of(request.path)
    if "ids" in msgspec.json.decode(request.body):
        return WalkedPage(memories=tuple(_listed(place, one) for one in found_in(reply).values()))
    names = tuple(found_in(reply))
    part = ListPart(
        names=names,
        is_full=len(names) >= IDS_AT_ONCE,
        begin=partial(_ids_from, place),
        below=partial(_records_of, place),
    )
    return WalkedPage(part=part)


def _listed(place: CollectionPath, record: Record) -> ListedMemory:
    key = place.key(record.record_id)
    try:
        checked_ids((record.record_id,))
        check_text(key, "id")
        return ListedMemory(key=key, item=_written(place, record, None).item)
    except MalformedRequest:
        return ListedMemory(key=key, item=None)


def _ids_from(place: CollectionPath, begin: int) -> HttpRequest:
    return to(place, GET, {"limit": IDS_AT_ONCE, "offset": begin, "include": []})


def _records_of(place: CollectionPath, ids: tuple[str, ...]) -> tuple[HttpRequest, ...]:
    return tuple(
        _get(place, [*ids[begin : begin + PAGE_LEN]]) for begin in range(0, len(ids), PAGE_LEN)
    )


def _page_from(path: str, begin: int) -> HttpRequest:
    query = (("limit", str(PAGE_LEN)), ("offset", str(begin)))
    return HttpRequest(method="GET", path=path, query=query)


def _named(reply: HttpReply) -> tuple[_Named, ...]:
    if reply.status != OK:
        raise MalformedRequest(f"answer: {reply.status} to a read of what the server has")
    try:
        return _NAMED.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeError):
        raise not_understood() from None


def _is_nobody(reply: HttpReply) -> bool:
    """Whether the answer is the server's 404 for an unknown tenant, and not another 404."""
    if reply.status != _NOT_FOUND:
        return False
    try:
        return msgspec.json.decode(reply.body, type=_Refused).error == "NotFoundError"
    except (msgspec.MsgspecError, UnicodeError):
        return False
