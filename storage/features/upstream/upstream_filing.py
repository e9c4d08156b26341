"""The records about a memory on an upstream server, as the core commits a change of it."""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import ForwardStatus, MemoryStatus, Tenant
from storage.audit import ResultLeaf
from storage.features.upstream.closed_keys import close_key
from storage.features.upstream.forgotten_texts import forget_text
from storage.features.upstream.upstream_hiding import forget_kept
from storage.tables.change import Change
from storage.tables.codec import NO_ORDINAL, IdRecord, ordinal_key
from storage.tables.names import KEYED, RecordTable
from storage.tables.rows import read_row
from storage.values import Row
from storage.write.seam import AdmittedCandidate, Follower, LandedRow


class ForwardRecord(msgspec.Struct, frozen=True, array_like=True):
    """An admitted change that the upstream server may not have received.

    `sent` is False if a person released the change and it was not sent yet. `unknown` is True if,
    according to the log, the change was sent and its answer was lost.
    """

    tenant: Tenant
    target: str
    name: bytes  # the key of the memory in the table of ids
    ordinal: int
    leaf_index: int
    sent: bool
    unknown: bool = False
    # The adapter's data that is sent along with a released change; b"" once it was settled.
    blob: bytes = b""


FORWARDS: Final = RecordTable(b"forwards", ForwardRecord)


class UpstreamFiling(Follower):
    """Files each admitted change to an upstream server, and hides what the gate erased there."""

    def landed(self, change: Change, judged: AdmittedCandidate, landed: LandedRow) -> None:
        """File the memory under its key on the upstream server, in the admitting transaction.

        The call is recorded as one that may be sent. For a memory that the server has already, a
        leaf records that the change is done.
        """
        row, candidate = landed.row, judged.candidate
        if not row.keyed:
            return
        change.draft.put(KEYED, row.keyed + ordinal_key(landed.ordinal), b"")
        if judged.is_there:
            change.log(
                ResultLeaf(
                    candidate_id=row.candidate_id,
                    at_ms=change.now_ms,
                    verdict_index=row.leaf_index,
                    result=ForwardStatus.DONE,
                    by=candidate.principal_id,
                )
            )
            return
        record = ForwardRecord(
            tenant=candidate.tenant,
            target=candidate.target,
            name=landed.name,
            ordinal=landed.ordinal,
            leaf_index=row.leaf_index,
            sent=judged.sent,
            blob=b"" if judged.sent else judged.submission.guarded_blob,
        )
        change.draft.write(FORWARDS, bytes.fromhex(row.candidate_id), record)

    def ends(self, change: Change, known: IdRecord, step: int) -> None:
        """Keep a memory that ends hidden on its server, because no deletion is sent there."""
        if known.status is MemoryStatus.DELETED:
            return
        ordinal, hidden = known.ordinal, known.status is MemoryStatus.QUARANTINED
        while ordinal != NO_ORDINAL:
            row = read_row(change.draft, ordinal)
            close_key(change, ordinal, row, unless_after=ordinal, hidden=hidden)
            forget_text(change, step, ordinal, row, hidden=hidden)
            ordinal = row.prev_ordinal

    def erases(self, change: Change, ordinal: int, row: Row) -> None:
        """Delete the records of a purged row about its key, its call and its hidden content."""
        if row.keyed:
            change.draft.delete(KEYED, row.keyed + ordinal_key(ordinal))
            change.draft.delete(FORWARDS, bytes.fromhex(row.candidate_id))
            forget_kept(change, row.keyed)
