"""Rows of the operator API's routing table, shared by server and commands, and their queries.

A feature of the server binds its method to a row, and a command sends its request by the same row,
so this module imports neither.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, OperatorScope
from proxy.dialects.described import NoQuery as NoQuery  # noqa: PLC0414 - for the other rows
from proxy.dialects.described import RouteRow
from proxy.seams.tenants import DEFAULT_TENANT, TenantName

_Asked = TypeVar("_Asked", bound=msgspec.Struct)
_Asked_co = TypeVar("_Asked_co", bound=msgspec.Struct, covariant=True)
_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Answer_co = TypeVar("_Answer_co", bound=msgspec.Struct, covariant=True)


class Empty(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that needs no fields."""


class Route(RouteRow, Generic[_Asked_co, _Answer_co], frozen=True, kw_only=True):
    """One call of the operator API: `asked` is its query (GET) or its body (POST)."""

    asked: type[_Asked_co]
    answers: type[_Answer_co]
    # Whether the answer may take minutes, because the call reads or rewrites the whole store.
    slow: bool = False
    # The least scope of an operator's key that may send this call.
    least: OperatorScope


AnyRoute = Route[Any, Any]


def get(
    template: str,
    asked: type[_Asked],
    answers: type[_Answer],
    summary: str,
    *,
    slow: bool = False,
    least: OperatorScope = OperatorScope.REVIEW,
) -> Route[_Asked, _Answer]:
    """The row of a GET call: it reads, and takes its query from the URL.

    `least` is VIEW where the answer can contain no content of a memory.
    """
    return Route(
        method="GET",
        template=template,
        summary=summary,
        takes=asked,
        asked=asked,
        answers=answers,
        slow=slow,
        least=least,
    )


def post(
    template: str,
    asked: type[_Asked],
    answers: type[_Answer],
    summary: str,
    *,
    slow: bool = False,
    least: OperatorScope = OperatorScope.OPERATE,
) -> Route[_Asked, _Answer]:
    """The row of a POST call: it changes something, or its request needs a body."""
    return Route(
        method="POST",
        template=template,
        summary=summary,
        asks=asked,
        asked=asked,
        answers=answers,
        slow=slow,
        least=least,
    )


PAGE_MAX = 1_000
IMPORTED_AT_ONCE = 64
"""How many of a server's items one request may contain."""
INDEX_MAX = 10**15 - 1

Wide = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]
_Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]


class TenantQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tenant that is asked about."""

    tenant: TenantName = DEFAULT_TENANT


class AnyTenantQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tenant that is asked about; all tenants if it is absent."""

    tenant: TenantName | None = None


class MemoriesQuery(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which memories to list: of whom, and which page of the listing."""

    user_id: str | None = None
    offset: Annotated[int, Meta(ge=0, le=10**9)] = 0
    limit: _Limit = 100


class RecallsQuery(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which reads: those of one session, or those that showed one memory."""

    session: Annotated[str, Meta(max_length=64)] | None = None
    memory_id: Annotated[str, Meta(max_length=64)] | None = None
    limit: _Limit = 100


class LeavesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the audit log to list."""

    offset: Annotated[int, Meta(ge=0, le=INDEX_MAX)] = 0
    limit: _Limit = 100


class LeafQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which leaf of the audit log to prove."""

    leaf: Annotated[int, Meta(ge=0, le=INDEX_MAX)]


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many sessions to list."""

    limit: _Limit = 100


IDS_SHOWN = 5
BEGINNING_LEN_MIN = 4


class IdKind(enum.Enum):
    """The kind of thing that an id names."""

    HELD = "held"  # a candidate that waits for a person
    REFUSED = "refused"  # a candidate whose text is withheld
    MEMORY = "memory"  # a memory of the tenant, live or under quarantine
    SESSION = "session"
    KEY = "key"  # an API key, revoked ones too
    INCIDENT = "incident"  # an isolation, a rewind, or the case of a wrong answer
    RECALL = "recall"  # one of the newest reads of the tenant
    UNSETTLED = "unsettled"  # an admitted change that may be missing on its upstream server


class IdsQuery(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for the ids of one kind with a given beginning.

    `tenant` matters for memories and recalls only.
    """

    kind: IdKind
    begins: Annotated[str, Meta(min_length=BEGINNING_LEN_MIN, max_length=256)]


class IdList(msgspec.Struct, frozen=True, kw_only=True):
    """The first few ids with the given beginning, sorted; `total` counts all of them."""

    ids: tuple[str, ...]
    total: int


IDS: Final = get(
    "/ids",
    IdsQuery,
    IdList,
    "The ids of one kind that begin with the given characters.",
    slow=True,
)
