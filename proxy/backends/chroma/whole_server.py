"""A walk over every record of a tenant's databases, for an operator's commands.

Records are read by their ids. A read of ids alone has room for so many that most collections are
read at one moment, and what agents delete meanwhile moves nothing out of the walk's sight.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import msgspec

from proxy.backends.chroma.records import Record, checked_ids, found_in, not_understood
from proxy.backends.chroma.routes import ADD, GET, ROOT, CollectionPath, place_of
from proxy.backends.chroma.writes import record_item
from proxy.backends.kept_request import json_request
from proxy.dialects.strict_json.strict import JsonValue, check_text
from proxy.seams.backend_listing import Attempts, ListedMemory, ListPart, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpReply, HttpRequest

# As many records of the longest text that the gate lets in fit into one answer.
PAGE_LEN: Final = 200
# As many ids of three hundred characters do.
IDS_AT_ONCE: Final = 50_000
_INCLUDED: Final = ("documents", "metadatas", "uris")
_OK: Final = 200
_NOT_FOUND: Final = 404
_NOBODYS: Final = "00000000-0000-4000-8000-000000000000"
_DATABASES: Final = "databases"
_COLLECTIONS: Final = "collections"
# The name of a database becomes a segment of a path. `.` and `..` would be another path.
_SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[^/\\%?#\x00-\x20\x7f]{1,512}")


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """A database or a collection in an answer. Further members do not matter."""

    id: str
    name: str


class _Refused(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""


_NAMED: Final = msgspec.json.Decoder(tuple[_Named, ...])


def databases_of(tenant: str) -> HttpRequest:
    """The read of a tenant's databases."""
    return _page_from(f"{ROOT}/tenants/{tenant}/{_DATABASES}", 0)


def attempts(tenant: str) -> Attempts:
    """A read of what the server has, and an `add` of no form, to a collection that nobody has."""
    database = f"{ROOT}/tenants/{tenant}/{_DATABASES}/default_database"
    nowhere = f"{database}/{_COLLECTIONS}/{_NOBODYS}/{ADD.operation}"
    return Attempts(
        alive=HttpRequest(method="GET", path=f"{ROOT}/heartbeat"),
        read=databases_of(tenant),
        write=json_request("POST", nowhere, {}),
    )


def listed(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    """What the answer to a read of the walk shows.

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


def _below(path: str, names: tuple[str, ...]) -> tuple[HttpRequest, ...]:
    """The first reads of databases, or of collections."""
    if path.endswith(_DATABASES):
        return tuple(_page_from(f"{path}/{one}/{_COLLECTIONS}", 0) for one in names)
    return tuple(_ids_from(place_of(f"{path}/{one}"), 0) for one in names)


def _of_collection(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    if reply.status != _OK:
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
        return ListedMemory(key=key, item=record_item(place, record))
    except MalformedRequest:
        return ListedMemory(key=key, item=None)


def _ids_from(place: CollectionPath, begin: int) -> HttpRequest:
    body: JsonValue = {"limit": IDS_AT_ONCE, "offset": begin, "include": []}
    return json_request("POST", f"{place.path}/{GET.operation}", body)


def _records_of(place: CollectionPath, ids: tuple[str, ...]) -> tuple[HttpRequest, ...]:
    path = f"{place.path}/{GET.operation}"
    some = (ids[begin : begin + PAGE_LEN] for begin in range(0, len(ids), PAGE_LEN))
    return tuple(
        json_request("POST", path, {"ids": [*one], "include": [*_INCLUDED]}) for one in some
    )


def _page_from(path: str, begin: int) -> HttpRequest:
    query = (("limit", str(PAGE_LEN)), ("offset", str(begin)))
    return HttpRequest(method="GET", path=path, query=query)


def _named(reply: HttpReply) -> tuple[_Named, ...]:
    if reply.status != _OK:
        raise MalformedRequest(f"answer: {reply.status} to a read of what the server has")
    try:
        return _NAMED.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeError):
        raise not_understood() from None


def _is_nobody(reply: HttpReply) -> bool:
    """Whether the server says that it has no such tenant; another 404 would say nothing."""
    if reply.status != _NOT_FOUND:
        return False
    try:
        return msgspec.json.decode(reply.body, type=_Refused).error == "NotFoundError"
    except (msgspec.MsgspecError, UnicodeError):
        return False
