"""The `[[principals]]` tables: principals without a key, whom the kernel or TLS attests."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import msgspec
from msgspec import Meta

from policy.model import Channel, Claims, Principal, PrincipalId, Reads, Tenant
from proxy.settings.servers import Name
from proxy.settings.values import BadValue

Subject = Annotated[
    str,
    Meta(
        pattern=r"^(CN|DNS|URI):[\x21-\x7e][\x20-\x7e]{0,254}$",
        title="CN:, DNS: or URI: and what the certificate has there",
    ),
]
Uid = Annotated[int, Meta(ge=0, le=2**32 - 2)]


class Binding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One `[[principals]]` table, which binds a certificate subject or a Unix user id."""

    id: Name
    tenant: Name
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    reads: Reads = Reads.ALL
    mtls: Subject | None = None
    uid: Uid | None = None

    def __post_init__(self) -> None:
        """Refuse a table with neither or both of `mtls` and `uid`."""
        if (self.mtls is None) == (self.uid is None):
            raise BadValue(
                "bind it by exactly one of mtls, uid (for an API key: `mnemogate key add`)"
            )

    @cached_property
    def principal(self) -> Principal:
        """The principal that the table describes."""
        return Principal(
            principal_id=PrincipalId(self.id),
            tenant=Tenant(self.tenant),
            channel=self.channel,
            claims=self.claims,
            reads=self.reads,
        )
