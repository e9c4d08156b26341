"""Quarantined records hidden on a Chroma server itself: tagged, or removed and put back."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.backends.chroma.reads import body_of, read_again
from proxy.backends.chroma.records import Metadata, not_understood, vector_of
from proxy.backends.chroma.routes import (
    ADD,
    DELETE,
    GET,
    QUERY,
    UPDATE,
    CollectionPath,
    place_of,
    route_of,
)
from proxy.backends.chroma.writes import kept_of, to
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.guard import Unsettled
from proxy.seams.http_backend import OWN_FIELD
from proxy.seams.operation import HttpReply, HttpRequest

_ALL: Final = ("documents", "metadatas", "uris", "embeddings")
_OK: Final = 200
_TAGGED: Final[dict[str, JsonValue]] = {OWN_FIELD: {"$eq": True}}
# A condition that a record without the field fulfils as well.
_UNTAGGED: Final[dict[str, JsonValue]] = {OWN_FIELD: {"$ne": True}}


class _Whole(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `get` with every column."""

    ids: tuple[str, ...]
    documents: tuple[str | None, ...]
    metadatas: tuple[Metadata | None, ...]
    uris: tuple[str | None, ...]
    embeddings: tuple[tuple[float, ...], ...]


class _KeptItem(msgspec.Struct, frozen=True, kw_only=True):
    """One removed record."""

    document: str | None
    metadata: Metadata | None
    uri: str | None
    embedding: str  # float32, little-endian, in base64


class ChromaHiding:
    """Implements `HidesItems`. The items of one call are records of one collection."""

    # As many records of the longest text fit into the answer that confirms it.
    tagged_at_once = 200
    # A vector of 16,384 numbers is 200 KB of JSON, and an answer is at most 16 MB.
    removed_at_once = 32

    def tagging(self, items: tuple[Unsettled, ...], *, tagged: bool) -> HttpRequest:
        """An update of the metadata alone; the server passes over records that it does not have."""
        place, ids = _named(items)
        metadata: JsonValue = {OWN_FIELD: True if tagged else None}
        return to(place, UPDATE, {"ids": [*ids], "metadatas": [metadata for _ in ids]})

    def tagged(self, request: HttpRequest) -> HttpRequest | None:
        """The `get` of one tagged record of the collection."""
        if route_of(request) not in {GET, QUERY}:
            return None
        where: dict[str, JsonValue] = {**_TAGGED}
        return to(place_of(request.path), GET, {"where": where, "limit": 1, "include": []})

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """The read, asked for records that are not tagged."""
        if route_of(request) not in {GET, QUERY}:
            return request
        body = body_of(request)
        where: dict[str, JsonValue] = {**_UNTAGGED}
        if body.where:
            where = {"$and": [body.where, where]}
        return read_again(request, replace(body, where=where))

    def standing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The read of the records with every column."""
        place, ids = _named(items)
        return to(place, GET, {"ids": [*ids], "include": [*_ALL]})

    def kept(self, items: tuple[Unsettled, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """The records that the answer has, each as JSON without the sidecar's own field."""
        if reply.status != _OK:
            return (b"",) * len(items)
        try:
            whole = msgspec.json.decode(reply.body, type=_Whole)
            columns = (whole.documents, whole.metadatas, whole.uris, whole.embeddings)
            rows = dict(zip(whole.ids, zip(*columns, strict=True), strict=True))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
            raise not_understood() from None
        found = (rows.get(one) for one in _named(items)[1])
        return tuple(b"" if row is None else msgspec.json.encode(_kept(*row)) for row in found)

    def removing(self, items: tuple[Unsettled, ...]) -> HttpRequest:
        """The deletion of the records by their ids."""
        place, ids = _named(items)
        return to(place, DELETE, {"ids": [*ids]})

    def restoring(self, items: tuple[Unsettled, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """An `add`: the server leaves a record alone that is there by now."""
        place, ids = _named(items)
        rows = [msgspec.json.decode(one, type=_KeptItem) for one in kept]
        body: dict[str, JsonValue] = {
            "ids": [*ids],
            "embeddings": [row.embedding for row in rows],
            "documents": [row.document for row in rows],
            "metadatas": [row.metadata for row in rows],
            "uris": [row.uri for row in rows],
        }
        return to(place, ADD, body)


def _named(items: tuple[Unsettled, ...]) -> tuple[CollectionPath, tuple[str, ...]]:
    place, _ = kept_of(items[0])
    return place, tuple(place.record_id(one.key) for one in items)


def _kept(
    document: str | None,
    metadata: Metadata | None,
    uri: str | None,
    embedding: tuple[float, ...],
) -> _KeptItem:
    own = {name: value for name, value in (metadata or {}).items() if name != OWN_FIELD}
    vector = b64encode(vector_of(embedding)).decode()
    return _KeptItem(document=document, metadata=own or None, uri=uri, embedding=vector)
