"""The `[[principals]]` tables.

Principals that need no key, because the kernel or TLS attests them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import Channel, Claims, Principal, PrincipalId, Reads, Tenant
from proxy.settings.servers import NAME_PATTERN
from proxy.settings.values import BadValue, table_of

SUBJECT_PATTERN = r"^(CN|DNS|URI):[\x21-\x7e][\x20-\x7e]{0,254}$"


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A principal that the operator bound to a certificate subject or a Unix user id."""

    principal: Principal
    mtls: str | None = None
    uid: int | None = None


class _BoundPrincipal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[principals]]` table."""

    id: Annotated[str, Meta(pattern=NAME_PATTERN)]
    tenant: Annotated[str, Meta(pattern=NAME_PATTERN)]
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    reads: Reads = Reads.ALL
    mtls: Annotated[str, Meta(pattern=SUBJECT_PATTERN)] | None = None
    uid: Annotated[int, Meta(ge=0, le=2**32 - 2)] | None = None


def bindings_of(tables: list[object]) -> tuple[Binding, ...]:
    """The bindings of `[[principals]]` tables.

    Raises:
        BadValue: The message names the table and the error.
    """
    bindings: list[Binding] = []
    seen: set[object] = set()
    for position, table in enumerate(tables, 1):
        try:
            given = table_of(table, _BoundPrincipal)
        except BadValue as error:
            raise BadValue(f"principals, table {position}: {error}") from None
        if (given.mtls is None) == (given.uid is None):
            raise BadValue(
                f"principals, table {position}: bind it by exactly one of mtls, uid "
                "(for an API key: `mnemogate key add`)"
            )
        bound_by = given.uid if given.mtls is None else given.mtls
        if bound_by in seen:
            raise BadValue(f"principals, table {position}: mtls or uid is bound twice")
        seen.add(bound_by)
        principal = Principal(
            principal_id=PrincipalId(given.id),
            tenant=Tenant(given.tenant),
            channel=given.channel,
            claims=given.claims,
            reads=given.reads,
        )
        bindings.append(Binding(principal=principal, mtls=given.mtls, uid=given.uid))
    return tuple(bindings)
