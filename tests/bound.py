"""The principal of a key, user id or certificate that a test makes."""

from __future__ import annotations

from policy.model import Channel, Claims, Principal, PrincipalId, Tenant


def bound(
    principal_id: str,
    tenant: str,
    channel: Channel = Channel.AGENT,
    claims: Claims = Claims.IGNORED,
) -> Principal:
    return Principal(
        principal_id=PrincipalId(principal_id),
        tenant=Tenant(tenant),
        channel=channel,
        claims=claims,
    )
