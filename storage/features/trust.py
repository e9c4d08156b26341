"""Orders to the writer about trust: restore it, or count an outcome that others report."""

from __future__ import annotations

import msgspec

from policy.model import PrincipalId, Tenant
from policy.trust.score import Reported, TrustState
from storage.tables.change import Change
from storage.write.trust_intake import NamedOrigin, TrustIntake, origin_holder


class OriginTrust(msgspec.Struct, frozen=True, kw_only=True):
    """The trust of a tenant in the results of one tool of one server."""

    tenant: Tenant
    server: str
    tool: str
    state: TrustState


class RestoreTrust(msgspec.Struct, frozen=True):
    """An order to the writer: reset a principal's trust to a newcomer's."""

    principal_id: PrincipalId
    by: PrincipalId

    def carry_out(self, change: Change) -> TrustState:
        """Reset the trust, with a leaf, and return it."""
        intake = TrustIntake(change.names)
        return intake.restore(change, intake.principal(self.principal_id), self.by)


class RestoreOrigin(msgspec.Struct, frozen=True):
    """An order to the writer: reset a tenant's trust in the results of one tool to a newcomer's."""

    tenant: Tenant
    server: str
    tool: str
    by: PrincipalId

    def carry_out(self, change: Change) -> TrustState:
        """Reset the trust, with a leaf, and return it."""
        key = change.names.origin(self.tenant, self.server, self.tool)
        origin = NamedOrigin(key=key, server=self.server, tool=self.tool)
        return TrustIntake(change.names).restore(
            change, origin_holder(self.tenant, origin), self.by
        )


class RecordOutcome(msgspec.Struct, frozen=True):
    """An order to the writer: count an outcome that another package reports, such as a burst."""

    reported: Reported

    def carry_out(self, change: Change) -> bool:
        """Count the outcome, if the closed list of outcomes has it; return whether it counted."""
        return TrustIntake(change.names).report(change, self.reported)
