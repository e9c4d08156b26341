"""The `[[witness]]` tables: servers that cosign heads of the audit log (C2SP tlog-witness)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from proxy.settings.egress import Egress
from proxy.settings.servers import Name, Text, check_url
from proxy.settings.values import BadValue

if TYPE_CHECKING:
    from storage.audit import VerifierKey


class WitnessTable(Egress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[witness]]` table."""

    KIND: ClassVar = "witness"

    name: Annotated[
        Name, Meta(description="What the witness is called in the log and in `status`.")
    ]
    url: Annotated[
        Text,
        Meta(
            description="Where it takes heads: its submission prefix, to which `/add-checkpoint` "
            "is added. Redirects are not followed."
        ),
    ]
    key: Annotated[
        Text,
        Meta(
            description="Its verifier key, `name+hash+base64`, of type 4 (cosignatures with "
            "Ed25519). What another key signed does not count; ML-DSA-44 is not supported."
        ),
    ]

    def __post_init__(self) -> None:
        """Refuse a URL that names no single server, and a key that is no witness's."""
        check_url(self.url, has_credential=False)
        _ = self.verifier
        super().__post_init__()

    @cached_property
    def verifier(self) -> VerifierKey:
        """The key in `key`, parsed."""
        # The log brings the words of every language, which few commands need.
        from storage.audit.checkpoint import (  # noqa: PLC0415 - see above
            COSIGNS,
            BadCheckpoint,
            VerifierKey,
        )

        try:
            return VerifierKey.parse(self.key, COSIGNS)
        except BadCheckpoint as error:
            raise BadValue(f"key: {error}") from None
