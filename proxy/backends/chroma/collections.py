"""Requests for a collection: the one that is there, or a new one where agents may make them.

A name, a metadata and a configuration are strings that an agent writes and every later client of
the collection is shown, and no verdict is about them. So they have no room for a sentence, and none
for an address, and a name is no order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from proxy.backends.chroma.records import invalid
from proxy.backends.kept_request import json_request, tells
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_as, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest

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
