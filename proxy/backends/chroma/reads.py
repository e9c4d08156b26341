"""Reads: the records that an answer shows, and the answer without some of them.

An answer has one list for each column (`ids`, `documents`, `metadatas`, ...), or one list of lists
where several questions are asked at once. The values at one index of all lists are one record.
Values are stored as the server spelled them, so that the rest of an answer keeps its bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import replace

from proxy.backends.chroma.records import Id, Metadata, Record, check_where, checked_ids
from proxy.backends.chroma.routes import (
    COUNT,
    GET,
    QUERY,
    CollectionPath,
    place_of,
    route_of,
    to,
)
from proxy.backends.http_backend import OK, ServerReads, not_understood
from proxy.backends.kept_request import json_request
from proxy.dialects.strict_json.strict import JsonValue, decode_as
from proxy.seams.http_backend import OWN_FIELD, ReadPage, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest

N_RESULTS: Final = 10  # the server's own default for a query that names no number
RESULTS_MAX: Final = 100_000
# Members of an answer that repeat a part of the request, and are no column.
_NO_COLUMNS: Final = frozenset({"include"})
_NULL: Final = b"null"
_NOTHING: Final = Raw(_NULL)

_T = TypeVar("_T")
Limit = Annotated[int, Meta(ge=0, le=RESULTS_MAX)]
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_GROUPS: Final = msgspec.json.Decoder(list[list[Raw]])
_GROUP: Final = msgspec.json.Decoder(list[Raw])
_ID: Final = msgspec.json.Decoder(str)
_TEXT: Final[msgspec.json.Decoder[str | None]] = msgspec.json.Decoder(str | None)
_METADATA: Final[msgspec.json.Decoder[Metadata | None]] = msgspec.json.Decoder(Metadata | None)


class GetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `get`."""

    ids: tuple[Id, ...] | None = None
    where: dict[str, JsonValue] | None = None
    where_document: dict[str, JsonValue] | None = None
    limit: Limit | None = None
    offset: Limit | None = None
    include: tuple[str, ...] = ("documents", "metadatas")


class QueryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `query`."""

    query_embeddings: tuple[tuple[float, ...], ...]
    ids: tuple[Id, ...] | None = None
    where: dict[str, JsonValue] | None = None
    where_document: dict[str, JsonValue] | None = None
    n_results: Limit | None = None
    include: tuple[str, ...] = ("documents", "metadatas", "distances")


def body_of(request: HttpRequest) -> GetBody | QueryBody:
    """The body of a read.

    Raises:
        MalformedRequest: The body has an unknown member, or a filter has an unknown operator.
    """
    body: GetBody | QueryBody
    if route_of(request) is QUERY:
        body = decode_as(request.body, QueryBody)
    else:
        body = decode_as(request.body, GetBody)
    if body.ids:
        checked_ids(body.ids)
    check_where(body.where)
    check_where(body.where_document)
    return body


def read_again(request: HttpRequest, body: GetBody | QueryBody) -> HttpRequest:
    """The same read with another body."""
    again = json_request("POST", request.path, msgspec.to_builtins(body))
    return replace(again, query=request.query)


class AnswerColumns:
    """An answer in columns, with one group of records for each question.

    Raises:
        MalformedRequest: The answer is not of the known form, so nothing of it can be shown.
    """

    def __init__(self, body: bytes, *, nested: bool) -> None:
        self._nested = nested
        self._members = _decoded(body, _MEMBERS)
        self._columns = {
            name: self._groups_of(value)
            for name, value in self._members.items()
            if name not in _NO_COLUMNS and bytes(value) != _NULL
        }
        if "ids" not in self._columns:
            raise not_understood()
        self._sizes = [len(group) for group in self._columns["ids"]]
        if any([len(group) for group in one] != self._sizes for one in self._columns.values()):
            raise not_understood()

    def _groups_of(self, value: Raw) -> list[list[Raw]]:
        return _decoded(value, _GROUPS) if self._nested else [_decoded(value, _GROUP)]

    def records(self) -> list[tuple[int, Record | None]]:
        """Every record in the order of the answer, each with the number of its group.

        A record is None if one of its parts has an unexpected form.
        """
        numbers = [number for number, size in enumerate(self._sizes) for _ in range(size)]
        columns = (self._values(name) for name in ("ids", "documents", "metadatas", "uris"))
        rows = zip(*columns, strict=True)
        return [(number, _record(*row)) for number, row in zip(numbers, rows, strict=True)]

    def _values(self, name: str) -> list[Raw]:
        groups = self._columns.get(name)
        if groups is None:
            return [_NOTHING] * sum(self._sizes)
        return [one for group in groups for one in group]

    def without(self, places: frozenset[int]) -> bytes:
        """The answer without the records with these indexes, counted over all groups."""
        kept: list[list[int]] = []
        begin = 0
        for size in self._sizes:
            kept.append([at for at in range(size) if begin + at not in places])
            begin += size
        members = (
            msgspec.json.encode(name) + b":" + self._written(name, bytes(value), kept)
            for name, value in self._members.items()
        )
        return b"{" + b",".join(members) + b"}"

    def _written(self, name: str, value: bytes, kept: list[list[int]]) -> bytes:
        groups = self._columns.get(name)
        if groups is None:
            return value
        texts = [
            b"[" + b",".join(bytes(group[at]) for at in left) + b"]"
            for group, left in zip(groups, kept, strict=True)
        ]
        return b"[" + b",".join(texts) + b"]" if self._nested else texts[0]


class ChromaReads(ServerReads):
    """Forwards, pages and filters the reads of a Chroma server (`ServerReads`)."""

    def page(self, request: HttpRequest) -> ReadPage | None:
        """The page of records that a read asks for; None where it asks for all of them.

        `most` is twice the longest page, so that a page can be filled past as many hidden records.
        """
        if route_of(request) is COUNT:
            return None
        body = body_of(request)
        if isinstance(body, QueryBody):
            limit = N_RESULTS if body.n_results is None else body.n_results
            return ReadPage(offset=0, limit=limit, most=2 * RESULTS_MAX)
        if body.limit is None and not body.offset:
            return None
        return ReadPage(offset=body.offset or 0, limit=body.limit, most=2 * RESULTS_MAX)

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """A read as it is forwarded: checked, and encoded again.

        A count is forwarded as a read of ids, because the server counts hidden records too.
        """
        route = route_of(request)
        if route is COUNT:
            ids = to(place_of(request.path), GET, {"include": []})
            return replace(ids, query=request.query)
        if route is not GET and route is not QUERY:
            return super().asking(request)
        body = body_of(request)
        if isinstance(body, QueryBody):
            number = body.n_results if count is None else count
            return read_again(request, replace(body, n_results=number))
        limit = body.limit if count is None else count
        return read_again(request, replace(body, limit=limit, offset=None))

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every record in the answer to a read; () if the server answered with a failure."""
        if reply.status != OK:
            return ()
        place = place_of(request.path)
        return tuple(
            _shown(place, record, at, number)
            for at, (number, record) in enumerate(_table_of(request, reply).records())
        )

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these records, in every column; for a count, the remaining number."""
        table = _table_of(request, reply)
        if route_of(request) is COUNT:
            return replace(reply, body=msgspec.json.encode(len(table.records()) - len(places)))
        return replace(reply, body=table.without(places))


def _table_of(request: HttpRequest, reply: HttpReply) -> AnswerColumns:
    return AnswerColumns(reply.body, nested=route_of(request) is QUERY)


def _shown(place: CollectionPath, record: Record | None, at: int, group: int) -> ShownMemory:
    if record is None:
        return ShownMemory(key="", strings=(), place=at, group=group, is_withheld=True)
    return ShownMemory(
        key=place.key(record.record_id),
        strings=record.strings(),
        place=at,
        group=group,
        is_tagged=OWN_FIELD in (record.metadata or {}),
    )


def _record(record_id: Raw, document: Raw, metadata: Raw, uri: Raw) -> Record | None:
    try:
        return Record(
            _ID.decode(record_id),
            _TEXT.decode(document),
            _METADATA.decode(metadata),
            _TEXT.decode(uri),
        )
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _decoded(value: bytes | Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise not_understood() from None
