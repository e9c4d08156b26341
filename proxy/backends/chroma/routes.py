"""The routes of a Chroma server, and what each does with memories.

The table has every route of the server's OpenAPI document; a test holds it against one. A path that
is not here is refused, and so is one that administers the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from proxy.backends.openapi_version import version_of
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import Does, Routed
from proxy.seams.operation import HttpReply, HttpRequest

SEGMENTS: Final = frozenset({"api"})
ROOT: Final = "/api/v2"
# A star stands for one segment.
_DATABASE: Final = "tenants/*/databases/*"
_COLLECTIONS: Final = f"{_DATABASE}/collections"
_ONE: Final = f"{_COLLECTIONS}/*"

ADD: Final = Routed(does=Does.WRITE, operation="add")
UPDATE: Final = Routed(does=Does.WRITE, operation="update", changes_only=True)
UPSERT: Final = Routed(does=Does.WRITE, operation="upsert")
DELETE: Final = Routed(does=Does.REMOVE, operation="delete")
GET: Final = Routed(does=Does.READ, operation="get")
QUERY: Final = Routed(does=Does.READ, operation="query")
COUNT: Final = Routed(does=Does.READ, operation="count", remade=True)
# Making a collection is an operator's act, unless the settings leave it to agents; asking for one
# that may be there is a read of its name.
CREATE: Final = Routed(does=Does.ADMIN, operation="create_collection")
MAKE: Final = Routed(does=Does.MAKE, operation="create_collection")
GET_OR_CREATE: Final = Routed(does=Does.OTHER, operation="get_or_create")
_OTHER: Final = Routed(does=Does.OTHER, operation="other")
_ADMIN: Final = Routed(does=Does.ADMIN, operation="admin")

_ROUTES_1_5_9: Final[Mapping[tuple[str, str], Routed]] = {
    ("POST", f"{_ONE}/add"): ADD,
    ("POST", f"{_ONE}/update"): UPDATE,
    ("POST", f"{_ONE}/upsert"): UPSERT,
    ("POST", f"{_ONE}/delete"): DELETE,
    ("POST", f"{_ONE}/get"): GET,
    ("POST", f"{_ONE}/query"): QUERY,
    ("GET", f"{_ONE}/count"): COUNT,
    # The server that anybody can run answers a search with 501, so nobody has seen its answers.
    ("POST", f"{_ONE}/search"): _ADMIN,
    ("GET", "auth/identity"): _OTHER,
    ("GET", "healthcheck"): _OTHER,
    ("GET", "heartbeat"): _OTHER,
    ("GET", "pre-flight-checks"): _OTHER,
    ("GET", "version"): _OTHER,
    ("GET", "tenants/*"): _OTHER,
    ("GET", "tenants/*/databases"): _OTHER,
    ("GET", _DATABASE): _OTHER,
    ("GET", _COLLECTIONS): _OTHER,
    ("GET", f"{_DATABASE}/collections_count"): _OTHER,
    ("GET", _ONE): _OTHER,
    ("GET", f"{_COLLECTIONS}/by-id/*"): _OTHER,
    # They count the records of a collection, or of one that was made of it, hidden ones included.
    ("GET", f"{_ONE}/indexing_status"): _ADMIN,
    ("GET", f"{_ONE}/fork_count"): _ADMIN,
    ("GET", f"{_ONE}/functions/*"): _ADMIN,
    ("GET", "collections/*"): _ADMIN,  # by a name that is bound to no tenant
    ("POST", _COLLECTIONS): CREATE,
    ("PUT", _ONE): _ADMIN,
    ("DELETE", _ONE): _ADMIN,
    ("POST", f"{_ONE}/fork"): _ADMIN,
    ("POST", f"{_ONE}/functions/attach"): _ADMIN,
    ("POST", f"{_ONE}/attached_functions/*/detach"): _ADMIN,
    ("POST", "reset"): _ADMIN,
    ("POST", "tenants"): _ADMIN,
    ("PATCH", "tenants/*"): _ADMIN,
    ("POST", "tenants/*/databases"): _ADMIN,
    ("DELETE", _DATABASE): _ADMIN,
}
TABLES: Final = {"1.5.9": _ROUTES_1_5_9}
"""The routes of each known version of the server."""
_BY_SHAPE: Final = {
    (method, tuple(template.split("/"))): routed
    for table in TABLES.values()
    for (method, template), routed in table.items()
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLLECTION_AT: Final = 5  # of the segments behind `/api/v2`


class CollectionPath(NamedTuple):
    """The collection that a request is about."""

    path: str  # of the collection, without an operation
    by_id: str  # the path under which the server knows it in its own tenant and database only
    collection: str  # its uuid

    @property
    def folder(self) -> str:
        """The beginning of the keys of all its records."""
        return f"{self.collection}/"

    def key(self, record_id: str) -> str:
        """The key of a record among all that the server has."""
        return self.folder + record_id

    def record_id(self, key: str) -> str:
        """The id of a record of this collection."""
        return key.removeprefix(self.folder)


def route_of(request: HttpRequest) -> Routed | None:
    """The row of the table for a request; one that names its segments wins over a star."""
    parts = _parts(request)
    fitting = [
        (shape.count("*"), routed)
        for (method, shape), routed in _BY_SHAPE.items()
        if parts and method == request.method and _fits(shape, parts)
    ]
    return min(fitting, key=lambda one: one[0])[1] if fitting else None


def place_of(path: str) -> CollectionPath:
    """The collection in the path of a request.

    Raises:
        MalformedRequest: The path names none. The server takes a uuid in several spellings; only
            its own is taken here, so that a collection has one name.
    """
    segments = path.removeprefix(f"{ROOT}/").split("/")
    if len(segments) <= _COLLECTION_AT or not _UUID.fullmatch(segments[_COLLECTION_AT]):
        raise MalformedRequest("collection: not the uuid of one", status=400)
    collections = "/".join((ROOT, *segments[:_COLLECTION_AT]))
    uuid = segments[_COLLECTION_AT]
    return CollectionPath(
        path=f"{collections}/{uuid}", by_id=f"{collections}/by-id/{uuid}", collection=uuid
    )


def tenant_of(request: HttpRequest) -> str | None:
    """The server's tenant that a request names; None where it names none."""
    parts = _parts(request)
    return parts[1] if len(parts) > 1 and parts[0] == "tenants" else None


def version_told(reply: HttpReply) -> str | None:
    """The version whose routes the server's OpenAPI document lists; it says `1.0.0` of itself."""
    return version_of(reply, TABLES, ROOT)


def _parts(request: HttpRequest) -> list[str]:
    head, _, rest = request.path.partition(f"{ROOT}/")
    return rest.split("/") if not head else []


def _fits(shape: tuple[str, ...], parts: list[str]) -> bool:
    return len(shape) == len(parts) and all(
        want in ("*", got) and got for want, got in zip(shape, parts, strict=True)
    )
