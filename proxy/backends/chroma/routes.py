"""The routes of a Chroma server, and what each does with memories.

The table has every route of the server's OpenAPI document; a test holds it against one. A path that
is not here is refused, and so is one that administers the server.

A request for a collection is for one that is there, or for a new one where agents may make them. A
name, a metadata and a configuration are strings that an agent writes and every later client of the
collection is shown, and no verdict is about them. So they have no room for a sentence, and none for
an address, and a name is no order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from proxy.backends.http_backend import RouteTable
from proxy.backends.kept_request import json_request, tells
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_as, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import Does, RoutedRequest
from proxy.seams.operation import HttpRequest

SEGMENTS: Final = frozenset({"api"})
ROOT: Final = "/api/v2"
# A star stands for one segment.
_DATABASE: Final = "tenants/*/databases/*"
_COLLECTIONS: Final = f"{_DATABASE}/collections"
_ONE: Final = f"{_COLLECTIONS}/*"

ADD: Final = RoutedRequest(does=Does.WRITE, operation="add")
UPDATE: Final = RoutedRequest(does=Does.WRITE, operation="update", changes_only=True)
UPSERT: Final = RoutedRequest(does=Does.WRITE, operation="upsert")
DELETE: Final = RoutedRequest(does=Does.REMOVE, operation="delete")
GET: Final = RoutedRequest(does=Does.READ, operation="get")
QUERY: Final = RoutedRequest(does=Does.READ, operation="query")
COUNT: Final = RoutedRequest(does=Does.READ, operation="count", remade=True)
# Making a collection is an operator's act, unless the settings leave it to agents; asking for one
# that may be there is a read of its name.
CREATE: Final = RoutedRequest(does=Does.ADMIN, operation="create_collection")
MAKE: Final = RoutedRequest(does=Does.MAKE, operation="create_collection")
GET_OR_CREATE: Final = RoutedRequest(does=Does.OTHER, operation="get_or_create")
_OTHER: Final = RoutedRequest(does=Does.OTHER, operation="other")
_ADMIN: Final = RoutedRequest(does=Does.ADMIN, operation="admin")

_ROWS: Final = {
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
TABLE: Final = RouteTable(_ROWS, ROOT)
route_of: Final = TABLE.route_of
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COLLECTION_AT: Final = 5  # of the segments behind `/api/v2`


_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$"
_SPACES: Final = frozenset({"l2", "cosine", "ip"})
_SPACE: Final = "space"
_INDEX_PREFIX: Final = "hnsw:"
_INDEX_NAMES: Final = frozenset(
    {
        _SPACE,
        "ef_construction",
        "construction_ef",
        "ef_search",
        "search_ef",
        "max_neighbors",
        "M",
        "num_threads",
        "batch_size",
        "sync_threshold",
        "resize_factor",
    }
)
_ONLY_INDEX: Final = "only numbers and `space` of the index, because nobody judges other words"


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
    parts = TABLE.parts_of(request)
    return parts[1] if len(parts) > 1 and parts[0] == "tenants" else None


def to(place: CollectionPath, route: RoutedRequest, body: JsonValue) -> HttpRequest:
    """A request for one operation on a collection."""
    return json_request("POST", f"{place.path}/{route.operation}", body)


def invalid(detail: str) -> MalformedRequest:
    """A refusal with the status that the server has for a request that it does not understand."""
    return MalformedRequest(detail, status=400)


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request for a collection that decides whether it only reads."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]$")]
    get_or_create: bool = False


class _Embedding(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which function clients make vectors with; another one than these could name an address."""

    type: Literal["known", "legacy", "unknown"]
    name: Literal["default"] | None = None
    config: Annotated[dict[str, JsonValue], Meta(max_length=0)] | None = None


class _Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hnsw: dict[str, JsonValue] | None = None
    spann: None = None
    embedding_function: _Embedding | None = None


class _Made(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that makes a collection."""

    name: Annotated[str, Meta(pattern=_NAME)]
    metadata: dict[str, JsonValue] | None = None
    configuration: _Configuration | None = None
    schema: None = None
    get_or_create: bool = False


def wanted(request: HttpRequest) -> str | None:
    """The collection that a request asks for, to be made if it is not there.

    None where the request is only for making one, or names none that can be.
    """
    try:
        asked = convert(decode_object(request.body), _Wanted)
    except MalformedRequest:
        return None
    return asked.name if asked.get_or_create else None


def reading(request: HttpRequest) -> HttpRequest:
    """The read of the collection that a request asks for."""
    return HttpRequest(method="GET", path=f"{request.path}/{wanted(request)}")


def making(request: HttpRequest) -> HttpRequest:
    """The request that makes a collection, encoded anew.

    Raises:
        MalformedRequest: It says more of the collection than its name and numbers of its index, or
            the name is an order.
    """
    if request.query:
        raise invalid("query: this route takes none")
    made = decode_as(request.body, _Made)
    if tells((made.name,)):
        raise invalid("name: it reads as an order, and every later client is shown it")
    for name, value in (made.metadata or {}).items():
        prefix, _, rest = name.partition(_INDEX_PREFIX)
        if prefix or not rest:
            raise invalid(f"metadata: {_ONLY_INDEX}")
        _check_index("metadata", ((rest, value),))
    if made.configuration is not None:
        _check_index("configuration", (made.configuration.hnsw or {}).items())
    return json_request("POST", request.path, msgspec.to_builtins(made))


def _check_index(where: str, settings: Iterable[tuple[str, JsonValue]]) -> None:
    for name, value in settings:
        good = value in _SPACES if name == _SPACE else _is_number(value)
        if name not in _INDEX_NAMES or not good:
            raise invalid(f"{where}: {_ONLY_INDEX}")


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
