"""Ids by how they begin: what a person typed, and what it may stand for."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from proxy.admin.wire.queries import TenantQuery

IDS_SHOWN = 5
BEGINNING_LEN_MIN = 4


class IdKind(enum.Enum):
    """The kind of thing that an id names."""

    HELD = "held"  # a candidate that waits
    REFUSED = "refused"  # a candidate whose text is withheld
    MEMORY = "memory"  # a memory of the tenant, live or under quarantine
    SESSION = "session"
    KEY = "key"  # an API key, revoked ones too
    UNSETTLED = "unsettled"  # an admitted change that a server behind may not have


class IdsQuery(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ids; the tenant is asked for memories alone."""

    kind: IdKind
    begins: Annotated[str, Meta(min_length=BEGINNING_LEN_MIN, max_length=256)]


class IdList(msgspec.Struct, frozen=True, kw_only=True):
    """The first few ids that begin so, in their order; `total` counts all."""

    ids: tuple[str, ...]
    total: int
