"""Hiding of quarantined records on a Chroma server itself: by a tag, or by removal."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.backends.chroma.reads import body_of, read_again
from proxy.backends.chroma.records import Record, columns_of, found_in, kept_of
from proxy.backends.chroma.routes import (
    ADD,
    DELETE,
    GET,
    QUERY,
    UPDATE,
    CollectionPath,
    place_of,
    route_of,
    to,
)
from proxy.backends.http_backend import OK, HidesItems, not_understood
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import OWN_FIELD
from proxy.seams.operation import HttpReply, HttpRequest

_ALL: Final = ("documents", "metadatas", "uris", "embeddings")
_TAGGED: Final[dict[str, JsonValue]] = {OWN_FIELD: {"$eq": True}}
# A condition that a record without the field fulfils as well.
_UNTAGGED: Final[dict[str, JsonValue]] = {OWN_FIELD: {"$ne": True}}


class ChromaHiding(HidesItems):
    """Builds the requests that hide records of a collection, or restore them (`HidesItems`)."""

    # The answer that confirms a tagging has room for so many records of the longest text.
    tagged_at_once = 200
    # A vector of 16,384 numbers is 200 KB of JSON, and an answer is at most 16 MB.
    removed_at_once = 32

    def tagging(self, items: tuple[UnsettledItem, ...], *, tagged: bool) -> HttpRequest:
        """An update of the metadata alone; the server ignores ids that it does not have."""
        place, ids = _named(items)
        metadata: JsonValue = {OWN_FIELD: True if tagged else None}
        return to(place, UPDATE, {"ids": [*ids], "metadatas": [metadata for _ in ids]})

    def tagged(self, request: HttpRequest) -> HttpRequest | None:
        """The `get` of one tagged record in the read's collection; None if it takes no filter."""
        if route_of(request) not in {GET, QUERY}:
            return None
        where: dict[str, JsonValue] = {**_TAGGED}
        return to(place_of(request.path), GET, {"where": where, "limit": 1, "include": []})

    def untagged(self, request: HttpRequest) -> HttpRequest:
        """The read with a filter that leaves tagged records out; as it is if it takes no filter."""
        if route_of(request) not in {GET, QUERY}:
            return request
        body = body_of(request)
        where: dict[str, JsonValue] = {**_UNTAGGED}
        if body.where:
            where = {"$and": [body.where, where]}
        return read_again(request, replace(body, where=where))

    def standing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The read of the records with every column, vectors included."""
        place, ids = _named(items)
        return to(place, GET, {"ids": [*ids], "include": [*_ALL]})

    def kept(self, items: tuple[UnsettledItem, ...], reply: HttpReply) -> tuple[bytes, ...]:
        """The records that the answer has, each as JSON without the sidecar's own field."""
        if reply.status != OK:
            return (b"",) * len(items)
        found = found_in(reply)
        if any(one.vector is None for one in found.values()):
            raise not_understood()
        named = (found.get(one) for one in _named(items)[1])
        return tuple(b"" if one is None else msgspec.json.encode(_kept(one)) for one in named)

    def removing(self, items: tuple[UnsettledItem, ...]) -> HttpRequest:
        """The deletion of the records by their ids."""
        place, ids = _named(items)
        return to(place, DELETE, {"ids": [*ids]})

    def restoring(self, items: tuple[UnsettledItem, ...], kept: tuple[bytes, ...]) -> HttpRequest:
        """An `add` of the records: the server does not change a record that exists again by now."""
        place, _ = _named(items)
        return to(place, ADD, columns_of([msgspec.json.decode(one, type=Record) for one in kept]))


def _named(items: tuple[UnsettledItem, ...]) -> tuple[CollectionPath, tuple[str, ...]]:
    place, _ = kept_of(items[0])
    return place, tuple(place.record_id(one.key) for one in items)


def _kept(record: Record) -> Record:
    own = {name: value for name, value in (record.metadata or {}).items() if name != OWN_FIELD}
    return record._replace(metadata=own or None)
