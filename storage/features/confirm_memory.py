"""Vouching: a person confirms a stored memory as her own words, which raises its label."""

from __future__ import annotations

import msgspec

from policy.model import Basis, MemoryId, MemoryStatus, PrincipalId, SourceKind, Tenant
from storage.audit import confirmed_subject
from storage.ground.errors import MemoryMoved
from storage.tables.change import LABELS, Change
from storage.tables.codec import encode, ordinal_key
from storage.tables.names import ROWS
from storage.tables.rows import read_row, read_standing
from storage.values import CONFIRM, Visibility


class ConfirmMemory(msgspec.Struct, frozen=True):
    """An order to the writer: label a memory's newest row as a person's own words.

    The row keeps its text, its class and its version, because a new label is no change of the
    memory. `version` is the version that the person was shown.
    """

    memory_id: MemoryId
    tenant: Tenant
    by: PrincipalId
    version: int

    def carry_out(self, change: Change) -> Visibility:
        """Raise the label, with a leaf; a label that is proven already is not changed.

        Raises:
            UnknownMemory: The tenant has no memory with that id, or it was deleted.
            MemoryMoved: The memory's newest version is not the one that the person was shown.
        """
        known = read_standing(change.draft, change.names.memory(self.tenant, self.memory_id))
        row = read_row(change.draft, known.ordinal)
        if row.version != self.version:
            raise MemoryMoved("the memory is another than the one that was shown")
        standing = Visibility(memory_id=self.memory_id, tenant=self.tenant, status=known.status)
        if row.source.proven:
            return standing
        label = SourceKind.USER_INPUT
        raised = msgspec.structs.replace(row, source=label, basis=Basis.CONFIRMATION)
        stored = encode(raised)
        change.moved.add(LABELS)
        if known.status is MemoryStatus.LIVE:
            change.index.raised.append((known.ordinal, raised))
        change.charges[row.tenant] += len(stored) - len(encode(row))
        change.draft.put(ROWS, ordinal_key(known.ordinal), stored)
        detail = f"{self.tenant}: was {row.source.value}"
        leaf_index = change.note(CONFIRM, confirmed_subject(row.candidate_id), self.by, detail)
        return msgspec.structs.replace(standing, changed=True, leaf_index=leaf_index)
