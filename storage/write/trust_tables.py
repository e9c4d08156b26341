"""The tables of trust: of principals and of origins, and what still may change it."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import PrincipalId, Tenant
from policy.trust.score import TrustLevel, TrustState
from storage.tables.table import RecordTable
from storage.values import TrustEvent

RESTORED: Final = "restored"
"""The kind of an event that is no outcome: an operator restored trust."""
LATCHED: Final = "latched"
UNLATCHED: Final = "unlatched"
TRUST_OUTCOME: Final = "trust.outcome"
"""The action of the leaf of an outcome; its detail ends with what became of the latch."""


class TrustRecord(msgspec.Struct, frozen=True, array_like=True):
    """Trust of one channel principal; the fields are those of `TrustState`."""

    principal_id: PrincipalId
    level: TrustLevel
    violations_count: int
    good: float
    bad: float
    cusum: float = 0.0
    latched_at_ms: int | None = None
    probation_left: int = 0
    probation_since_ms: int | None = None
    good_day: int = 0
    good_today: int = 0
    restores_count: int = 0


class OriginRecord(msgspec.Struct, frozen=True, array_like=True):
    """The trust in what one tool of one server brings into the sessions of a tenant.

    `trust.principal_id` is empty. Server and tool have the names that leaves may show.
    """

    tenant: Tenant
    server: str
    tool: str
    trust: TrustRecord


class StandingRecord(msgspec.Struct, frozen=True, array_like=True):
    """A released memory, which counts as a good outcome if it is still there in due time."""

    tenant: Tenant
    name: bytes  # the key of the memory in the table of ids
    ordinal: int
    leaf_index: int
    principal_id: PrincipalId
    origin: bytes = b""  # the key in the table of origins; empty where there is no origin
    server: str = ""
    tool: str = ""


TRUST: Final = RecordTable(b"trust", TrustRecord)
ORIGINS: Final = RecordTable(b"origins", OriginRecord)
RECENT: Final = RecordTable(b"recent", tuple[TrustEvent, ...])
COUNTED: Final = RecordTable(b"counted", int)
STANDING: Final = RecordTable(b"standing", StandingRecord)
CHARGES: Final = b"charges"


def trust_of(record: TrustRecord) -> TrustState:
    """The trust state that a stored record describes."""
    return TrustState(**{name: getattr(record, name) for name in TrustState.__struct_fields__})


def trust_record(state: TrustState, principal_id: PrincipalId) -> TrustRecord:
    """The stored record of a trust state; `principal_id` is empty if the state is an origin's."""
    fields = {name: getattr(state, name) for name in TrustState.__struct_fields__}
    return TrustRecord(principal_id=principal_id, **fields)
