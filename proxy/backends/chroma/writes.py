"""Writes and deletions: one item for each record, and the request for those that were admitted.

The server merges. A record that is there keeps each part, and each key of its metadata, that a
later write does not name. So what is judged is the record as it will be after the write.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import ChangeKind, Forwarded
from proxy.backends.chroma.filters import check_where
from proxy.backends.chroma.records import (
    Id,
    Metadata,
    Record,
    checked_ids,
    found_in,
    invalid,
    records_of,
)
from proxy.backends.chroma.routes import (
    ADD,
    DELETE,
    GET,
    UPDATE,
    CollectionPath,
    place_of,
    route_of,
)
from proxy.backends.http_outcome import state_of
from proxy.backends.kept_request import json_request, kept_request, request_parts
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, Unsettled
from proxy.seams.http_backend import Outcome, Routed, Sending
from proxy.seams.operation import HttpReply, HttpRequest

_DONE: Final = range(200, 300)
_POST: Final = "POST"
_TEXTS: Final = ("documents", "metadatas", "uris")


class Removal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `delete`."""

    ids: tuple[Id, ...] | None = None
    where: dict[str, JsonValue] | None = None
    where_document: dict[str, JsonValue] | None = None
    limit: Annotated[int, Meta(ge=0)] | None = None


class _KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of one record, as an item keeps them."""

    ids: tuple[Id]
    documents: tuple[str] | None = None
    metadatas: tuple[Metadata] | None = None
    uris: tuple[str] | None = None
    # SHA-256 (hex) of the vector, which is kept apart.
    embeddings: tuple[str] | None = None
    # SHA-256 (hex) of the record that stood there when the write was judged (`_print_of`).
    stood: tuple[str] | None = None

    def record(self, vector: bytes | None = None) -> Record:
        return Record(
            record_id=self.ids[0],
            document=None if self.documents is None else self.documents[0],
            metadata=None if self.metadatas is None else self.metadatas[0],
            uri=None if self.uris is None else self.uris[0],
            vector=vector,
        )


def written_records(request: HttpRequest) -> tuple[Record, ...]:
    """The records of a write; see `records_of`."""
    return records_of(request.body, needs_vectors=route_of(request) is not UPDATE)


def standing_records(request: HttpRequest, place: CollectionPath) -> HttpRequest:
    """The read of the records that a write is merged with, or that a deletion names.

    Raises:
        MalformedRequest: The write or the deletion is not of the known form.
    """
    if route_of(request) is not DELETE:
        return _get(place, [one.record_id for one in written_records(request)])
    removal = decode_as(request.body, Removal)
    if removal.ids is None and removal.where is None and removal.where_document is None:
        raise invalid("ids, where: one of them must be there")
    check_where(removal.where)
    check_where(removal.where_document)
    body: dict[str, JsonValue] = {
        "ids": None if removal.ids is None else [*checked_ids(removal.ids)],
        "where": removal.where,
        "where_document": removal.where_document,
        # The limit counts what may be seen, so it is kept here; texts tell what that is.
        "include": [*_TEXTS],
    }
    return to(place, GET, body)


def sendings_of(
    request: HttpRequest, place: CollectionPath, found: dict[str, Record]
) -> tuple[Sending, ...]:
    """One entry for each record that the request would write or delete.

    Records that the server would leave as they are have none: an `add` of an id that is there, and
    an `update` of one that is not.
    """
    route = route_of(request)
    if route is DELETE:
        most = decode_as(request.body, Removal).limit
        return tuple(_removed(place, record_id) for record_id in [*found][:most])
    sendings: list[Sending] = []
    for record in written_records(request):
        there = found.get(record.record_id)
        stays = there is not None if route is ADD else route is UPDATE and there is None
        if not stays:
            sendings.append(_written(place, record, there))
    return tuple(sendings)


def named(request: HttpRequest, place: CollectionPath) -> tuple[Sending, ...]:
    """The deletions of the ids that a deletion names without a filter or a limit."""
    if route_of(request) is not DELETE:
        return ()
    removal = decode_as(request.body, Removal)
    if any(one is not None for one in (removal.where, removal.where_document, removal.limit)):
        return ()
    return tuple(_removed(place, record_id) for record_id in removal.ids or ())


def forwarded(
    request: HttpRequest,
    place: CollectionPath,
    sendings: tuple[Sending, ...],
    admitted: frozenset[int],
) -> HttpRequest | None:
    """The request for the admitted records alone; a deletion names ids and has no filter."""
    ids = [place.record_id(one.item.key) for at, one in enumerate(sendings) if at in admitted]
    if not ids:
        return None
    if route_of(request) is DELETE:
        return to(place, DELETE, {"ids": [*ids]})
    kept = frozenset(ids)
    records = [one for one in written_records(request) if one.record_id in kept]
    # An `upsert` of new records is forwarded as an `add`. Were one of them made meanwhile by
    # somebody else, an `upsert` would merge into a text that nobody judged together with this one.
    if all(sendings[at].item.change is ChangeKind.CREATE for at in admitted):
        return to(place, ADD, _columns([_new(one) for one in records]))
    return to(place, route_of(request) or UPDATE, _columns(records))


def outcomes_of(admitted: Sequence[Sending], reply: HttpReply) -> tuple[Outcome, ...]:
    """Done or failed by the server's word, for all records alike: it takes a request whole."""
    return tuple(Outcome(state=state_of(reply.status)) for _ in admitted)


def released(item: Unsettled, blob: bytes) -> HttpRequest:
    """The request that sends one released item.

    A new record is added, and so never merged into one that came meanwhile. A changed record is
    updated, and so never made anew.

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
        return to(place, ADD, _columns([_new(record)]))
    return to(place, UPDATE, _columns([record]))


def question(item: Unsettled) -> HttpRequest:
    """The read of the record that an item writes or deletes."""
    place, kept = kept_of(item)
    return _get(place, [*kept.ids])


def told(item: Unsettled, reply: HttpReply) -> Outcome | None:
    """The outcome that a record shows: it has every part of the write, or was deleted.

    A change did not arrive where the record is still what it was when the change was judged. None
    where another write may have come since: then nobody can tell whether this one arrived.
    """
    if reply.status not in _DONE:
        return None
    _, kept = kept_of(item)
    there = found_in(reply).get(kept.ids[0])
    if item.change is ChangeKind.DELETE:
        return Outcome(state=Forwarded.DONE if there is None else Forwarded.FAILED)
    if there is None:
        return Outcome(state=Forwarded.FAILED)
    # A write that arrived changes nothing when it is merged once more.
    unchanged = there.after(Record(there.record_id))
    if there.after(kept.record()) == unchanged:
        return Outcome(state=Forwarded.DONE)
    return Outcome(state=Forwarded.FAILED) if kept.stood == (_print_of(there),) else None


def record_item(place: CollectionPath, record: Record) -> Item:
    """What the write of this very record, new and without a vector, is kept as.

    Raises:
        MalformedRequest: No write through the gate could have made it.
    """
    return _written(place, record, None).item


def says_same(kept: Unsettled, found: Item) -> bool:
    """Whether a record (`record_item`) has every part that was sent, and no other text.

    What a merge left standing was judged with the write, so it is among the kept pieces.
    """
    _, sent = kept_of(kept)
    _, stands = kept_of(found)
    there = stands.record()
    unchanged = there.after(Record(there.record_id))
    return (
        there.after(sent.record()) == unchanged
        and {*there.strings()} <= {*kept.pieces}
        and {*kept.pieces} <= {*found.pieces, kept.key}
    )


def _removed(place: CollectionPath, record_id: str) -> Sending:
    key = place.key(record_id)
    kept = kept_request(_POST, place.path, {"ids": [record_id]}, texts=(), key=key)
    # The key as the only piece says that all of the record goes.
    item = Item(change=ChangeKind.DELETE, arguments=kept.arguments, pieces=(key,), key=key)
    return Sending(item=item)


def _written(place: CollectionPath, record: Record, there: Record | None) -> Sending:
    key = place.key(record.record_id)
    body: dict[str, JsonValue] = {"ids": [record.record_id]}
    parts = (record.document, record.metadata, record.uri)
    body |= {name: [part] for name, part in zip(_TEXTS, parts, strict=True) if part is not None}
    if record.vector is not None:
        body["embeddings"] = [_digest(record.vector)]
    if there is not None:
        body["stood"] = [_print_of(there)]
    kept = kept_request(_POST, place.path, body, texts=_TEXTS, key=key)
    pieces = kept.pieces
    if there is not None:
        # What stays of the old record is shown beside the new parts, so it is judged with them, and
        # in the order in which a read shows all of it: an order may begin in what stays.
        own = () if pieces == (key,) else pieces
        shown = there.after(record).strings()
        stays = (*dict.fromkeys(one for one in shown if one not in own),)
        in_order = not stays or (*own, *stays) == shown
        pieces = (*own, *(stays if in_order else shown)) or (key,)
    item = Item(
        change=ChangeKind.CREATE if there is None else ChangeKind.UPDATE,
        arguments=kept.arguments,
        pieces=pieces,
        key=key,
    )
    return Sending(item=item, blob=record.vector or b"")


def kept_of(item: Item | Unsettled) -> tuple[CollectionPath, _KeptRecord]:
    """The collection of an item, and the record that its request was kept of.

    Raises:
        MalformedRequest: The item is no record's.
    """
    _, path, body = request_parts(item)
    # A request is kept under the path of its collection, without an operation.
    return place_of(path), convert(body, _KeptRecord)


def _new(record: Record) -> Record:
    """A record that is not there yet: an `add` takes no null that would remove a key."""
    return Record(record.record_id).after(record)._replace(vector=record.vector)


def _columns(records: list[Record]) -> dict[str, JsonValue]:
    columns: dict[str, list[JsonValue]] = {
        "embeddings": [
            None if one.vector is None else b64encode(one.vector).decode() for one in records
        ],
        "documents": [one.document for one in records],
        "metadatas": [one.metadata for one in records],
        "uris": [one.uri for one in records],
    }
    body: dict[str, JsonValue] = {"ids": [one.record_id for one in records]}
    filled: dict[str, JsonValue] = {
        name: values for name, values in columns.items() if any(one is not None for one in values)
    }
    return body | filled


def _get(place: CollectionPath, ids: list[str]) -> HttpRequest:
    return to(place, GET, {"ids": [*ids], "include": [*_TEXTS]})


def to(place: CollectionPath, route: Routed, body: JsonValue) -> HttpRequest:
    """A request for one operation on a collection."""
    return json_request(_POST, f"{place.path}/{route.operation}", body)


def _print_of(record: Record) -> str:
    """SHA-256 (hex) of what a read shows of a record."""
    shown = (record.document, record.metadata, record.uri)
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


def _digest(vector: bytes) -> str:
    return hashlib.sha256(vector).hexdigest()
