"""The routes of a Chroma server, and what each does with memories.

The table has every route of the server's OpenAPI document, and a test compares the two. A path that
is not in the table is refused, and so is one that administers the server.

Where agents may create collections, no verdict is made on a collection's name, metadata and
configuration, and every later client of the collection is shown them. So none of them may contain a
sentence or an address, and the name may not be a directive.
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
# A star matches one segment of a path.
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
# Only an operator creates collections, unless the settings allow agents to. A request with
# `get_or_create` is a read of the collection by its name.
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
    # The open-source server answers a search with 501, so the form of its answers is unknown.
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
    # These routes count the records of a collection, or of its forks, hidden records included.
    ("GET", f"{_ONE}/indexing_status"): _ADMIN,
    ("GET", f"{_ONE}/fork_count"): _ADMIN,
    ("GET", f"{_ONE}/functions/*"): _ADMIN,
    ("GET", "collections/*"): _ADMIN,  # a read by a name that is bound to no tenant
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
_COLLECTION_AT: Final = 5  # the index of the uuid among the segments after `/api/v2`


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

    path: str  # the path of the collection, without an operation
    by_id: str  # the path at which the server checks the collection's tenant and database
    collection: str  # the uuid of the collection

    @property
    def folder(self) -> str:
        """The beginning of the keys of all records of the collection."""
        return f"{self.collection}/"

    def key(self, record_id: str) -> str:
        """The key of a record, unique on the whole server."""
        return self.folder + record_id

    def record_id(self, key: str) -> str:
        """The id that a record with this key has in the collection."""
        return key.removeprefix(self.folder)


def place_of(path: str) -> CollectionPath:
    """The collection in the path of a request.

    Raises:
        MalformedRequest: The path has no uuid in the server's own spelling. The server accepts
            other spellings, but each collection must have exactly one key here.
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
    """The name of the server's tenant in a request's path; None where the path has none."""
    parts = TABLE.parts_of(request)
    return parts[1] if len(parts) > 1 and parts[0] == "tenants" else None


def to(place: CollectionPath, route: RoutedRequest, body: JsonValue) -> HttpRequest:
    """The request for the operation of a route on a collection."""
    return json_request("POST", f"{place.path}/{route.operation}", body)


def invalid(detail: str) -> MalformedRequest:
    """The exception for a malformed request, with the server's own status for one (400)."""
    return MalformedRequest(detail, status=400)


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a `create_collection` that decides whether the request is only a read."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]$")]
    get_or_create: bool = False


class _Embedding(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The embedding function of a collection's clients; one that could name a URL is refused."""

    type: Literal["known", "legacy", "unknown"]
    name: Literal["default"] | None = None
    config: Annotated[dict[str, JsonValue], Meta(max_length=0)] | None = None


class _Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hnsw: dict[str, JsonValue] | None = None
    spann: None = None
    embedding_function: _Embedding | None = None


class _Made(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that creates a collection."""

    name: Annotated[str, Meta(pattern=_NAME)]
    metadata: dict[str, JsonValue] | None = None
    configuration: _Configuration | None = None
    schema: None = None
    get_or_create: bool = False


def wanted(request: HttpRequest) -> str | None:
    """The name in a `create_collection` with `get_or_create`.

    None where the request would only create a collection, or has an invalid name.
    """
    try:
        asked = convert(decode_object(request.body), _Wanted)
    except MalformedRequest:
        return None
    return asked.name if asked.get_or_create else None


def reading(request: HttpRequest) -> HttpRequest:
    """The read by name that replaces a `create_collection` with `get_or_create`."""
    return HttpRequest(method="GET", path=f"{request.path}/{wanted(request)}")


def making(request: HttpRequest) -> HttpRequest:
    """The request that creates a collection, checked and encoded again.

    Raises:
        MalformedRequest: The body has more than a name and numbers of the index, or the name is a
            directive.
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
