"""A walk over every record of a tenant's databases, for an operator's commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from proxy.backends.chroma.records import checked_ids, found_in, not_understood
from proxy.backends.chroma.routes import ADD, GET, ROOT, place_of
from proxy.backends.chroma.writes import record_item
from proxy.backends.kept_request import json_request
from proxy.dialects.strict_json.strict import JsonValue, check_text, decode_as
from proxy.seams.backend_listing import Attempts, ListedMemory, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest

if TYPE_CHECKING:
    from proxy.backends.chroma.records import Record
    from proxy.backends.chroma.routes import CollectionPath
    from proxy.seams.operation import HttpReply

# As many records of the longest text that the gate lets in fit into one answer.
PAGE_LEN: Final = 200
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


class _Page(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a `get` that this walk made."""

    limit: int
    offset: Annotated[int, Meta(ge=0)]
    include: tuple[str, ...]


class _Refused(msgspec.Struct, frozen=True, kw_only=True):
    error: str = ""


_NAMED: Final = msgspec.json.Decoder(tuple[_Named, ...])


def databases_of(tenant: str) -> HttpRequest:
    """The read of a tenant's databases."""
    return _page_of(f"{ROOT}/tenants/{tenant}/{_DATABASES}", 0)


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
        return _records(request, reply)
    if last == _DATABASES and _is_nobody(reply):
        return WalkedPage()
    below = _named(reply)
    further: list[HttpRequest] = []
    for one in below:
        if last == _DATABASES:
            if not _SEGMENT.fullmatch(one.name):
                raise MalformedRequest("answer: a database whose name can stand in no path")
            further.append(_page_of(f"{request.path}/{one.name}/{_COLLECTIONS}", 0))
        else:
            further.append(_records_of(place_of(f"{request.path}/{one.id}"), 0))
    if len(below) >= PAGE_LEN:
        further.append(_page_of(request.path, _offset_of(request) + PAGE_LEN))
    return WalkedPage(further=tuple(further))


def _records(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    if reply.status != _OK:
        raise MalformedRequest(f"answer: {reply.status} to a read of a collection")
    place = place_of(request.path)
    memories = tuple(_listed(place, one) for one in found_in(reply).values())
    further: tuple[HttpRequest, ...] = ()
    if len(memories) >= PAGE_LEN:
        begin = decode_as(request.body, _Page).offset
        further = (_records_of(place, begin + PAGE_LEN),)
    return WalkedPage(memories=memories, further=further)


def _listed(place: CollectionPath, record: Record) -> ListedMemory:
    key = place.key(record.record_id)
    try:
        checked_ids((record.record_id,))
        check_text(key, "id")
        return ListedMemory(key=key, item=record_item(place, record))
    except MalformedRequest:
        return ListedMemory(key=key, item=None)


def _records_of(place: CollectionPath, offset: int) -> HttpRequest:
    body: JsonValue = {"limit": PAGE_LEN, "offset": offset, "include": [*_INCLUDED]}
    return json_request("POST", f"{place.path}/{GET.operation}", body)


def _page_of(path: str, offset: int) -> HttpRequest:
    query = (("limit", str(PAGE_LEN)), ("offset", str(offset)))
    return HttpRequest(method="GET", path=path, query=query)


def _offset_of(request: HttpRequest) -> int:
    return int(dict(request.query)["offset"])


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
