"""Orders about trust: an operator restores it, and other packages report outcomes."""

from __future__ import annotations

import msgspec

from policy.model import PrincipalId, Tenant
from policy.trust.score import Reported, TrustState
from storage.tables.change import Change
from storage.write.trust_intake import NamedOrigin, TrustIntake, origin_holder


class OriginTrust(msgspec.Struct, frozen=True, kw_only=True):
    """The trust in what one tool of one server brings into the sessions of a tenant."""

    tenant: Tenant
    server: str
    tool: str
    state: TrustState


class RestoreTrust(msgspec.Struct, frozen=True):
    """The order to reset a principal's trust to a newcomer's."""

    principal_id: PrincipalId
    by: PrincipalId

    def carry_out(self, change: Change) -> TrustState:
        """The trust that the principal has now, with a leaf."""
        intake = TrustIntake(change.names)
        return intake.restore(change, intake.principal(self.principal_id), self.by)


class RestoreOrigin(msgspec.Struct, frozen=True):
    """The order to reset the trust in what a server's tool brings into a tenant."""

    tenant: Tenant
    server: str
    tool: str
    by: PrincipalId

    def carry_out(self, change: Change) -> TrustState:
        """The trust that the origin has now, a newcomer's, with a leaf."""
        key = change.names.origin(self.tenant, self.server, self.tool)
        origin = NamedOrigin(key=key, server=self.server, tool=self.tool)
        return TrustIntake(change.names).restore(
            change, origin_holder(self.tenant, origin), self.by
        )


class RecordOutcome(msgspec.Struct, frozen=True):
    """The order to count an outcome that another package reports: a burst, an incident."""

    reported: Reported

    def carry_out(self, change: Change) -> bool:
        """Whether the outcome counted; it is one of the closed list."""
        return TrustIntake(change.names).report(change, self.reported)
