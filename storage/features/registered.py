"""Orders to the writer about API keys and promotion tokens, and about anchors and canaries."""

from __future__ import annotations

import msgspec

from policy.model import MemoryClass, PrincipalId, Tenant
from storage.tables.change import Change
from storage.tables.codec import encode
from storage.tables.names import ANCHORS, KEYS
from storage.values import Anchor, KeyRecord


class PutKey(msgspec.Struct, frozen=True):
    """An order to the writer: add a key, or replace the record of its key id (to revoke it)."""

    record: KeyRecord
    by: PrincipalId

    def carry_out(self, change: Change) -> None:
        """Store the record, with a leaf."""
        record = self.record
        change.draft.put(KEYS, change.names.api_key(record.key_id), encode(record))
        action = "key.put" if record.revoked_at_ms is None else "key.revoke"
        change.note(action, record.key_id, self.by, record.principal.channel.value)


class NoteToken(msgspec.Struct, frozen=True):
    """An order to the writer: record that a token was minted for one write of a principal."""

    principal_id: PrincipalId
    tenant: Tenant
    to_class: MemoryClass
    by: PrincipalId

    def carry_out(self, change: Change) -> None:
        """Append the leaf; a token is stored nowhere."""
        detail = f"{self.to_class.value} in {self.tenant}"
        change.note("token.mint", self.principal_id, self.by, detail)


class PutAnchor(msgspec.Struct, frozen=True):
    """An order to the writer: register an anchor or a canary, or replace it."""

    anchor: Anchor
    by: PrincipalId

    def carry_out(self, change: Change) -> None:
        """Store the anchor, with a leaf."""
        anchor = self.anchor
        name = change.names.anchor(anchor.tenant, anchor.anchor_id)
        change.draft.put(ANCHORS, name, encode(anchor))
        change.moved.add(ANCHORS)
        action = "canary.put" if anchor.is_canary else "anchor.put"
        change.note(action, anchor.anchor_id, self.by, anchor.tenant)
