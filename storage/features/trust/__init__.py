"""Trust as an engine keeps it, and the questions that may be asked about it."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from policy.model import PrincipalId, Tenant
from policy.trust.ladder import TrustState

RESTORED: Final = "restored"
"""The kind of an event that is no outcome: an operator restored trust."""
LATCHED: Final = "latched"
UNLATCHED: Final = "unlatched"
TRUST_OUTCOME: Final = "trust.outcome"
"""The action of the leaf of an outcome; its detail ends with what became of the latch."""


class TrustEvent(msgspec.Struct, frozen=True, array_like=True):
    """One of the last changes of a trust, and the leaf that records the change.

    `kind` is that of an outcome, or `RESTORED`. `cause` is the index of the leaf of what happened:
    the verdict, the denial, the quarantine. `became` says `latched` or `unlatched` where the change
    did that.
    """

    at_ms: int
    kind: str
    leaf_index: int
    cause: int | None = None
    became: str = ""


class OriginTrust(msgspec.Struct, frozen=True, kw_only=True):
    """The trust in what one tool of one server brings into the sessions of a tenant."""

    tenant: Tenant
    server: str
    tool: str
    state: TrustState


class TrustReader(Protocol):
    """Reads of trust, as of the last commit. All but the lists are cheap; any thread."""

    def trust(self, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal; a newcomer's if the principal never wrote."""
        ...

    def all_trust(self) -> tuple[tuple[PrincipalId, TrustState], ...]:
        """Every principal with a recorded trust."""
        ...

    def trust_history(self, principal_id: PrincipalId) -> tuple[TrustEvent, ...]:
        """The last changes of a principal's trust, oldest first; at most 64."""
        ...

    def origin_trust(self, tenant: Tenant, server: str, tool: str) -> TrustState:
        """The trust of an origin; a newcomer's if nothing came from it."""
        ...

    def all_origins(self) -> tuple[OriginTrust, ...]:
        """Every origin with a recorded trust."""
        ...

    def origin_history(self, tenant: Tenant, server: str, tool: str) -> tuple[TrustEvent, ...]:
        """The last changes of an origin's trust, oldest first; at most 64."""
        ...
