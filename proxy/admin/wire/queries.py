"""The query parameters of operator requests."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX
from proxy.seams.tenants import DEFAULT_TENANT, TenantName

PAGE_MAX = 1_000
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
