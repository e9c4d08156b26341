"""Query and answer for short ids: the characters that a person typed, and the ids that begin so."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.wire.route import TenantQuery, get

IDS_SHOWN = 5
BEGINNING_LEN_MIN = 4
SESSION_ID_LEN = 32


class IdKind(enum.Enum):
    """The kind of thing that an id names."""

    HELD = "held"  # a candidate that waits for a person
    REFUSED = "refused"  # a candidate whose text is withheld
    MEMORY = "memory"  # a memory of the tenant, live or under quarantine
    SESSION = "session"
    KEY = "key"  # an API key, revoked ones too
    INCIDENT = "incident"  # an isolation, a rewind, or the case of a wrong answer
    RECALL = "recall"  # one of the newest reads of the tenant
    UNSETTLED = "unsettled"  # an admitted change that a server behind may not have


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
