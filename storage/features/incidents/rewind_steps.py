"""Rewind: memories are put into an earlier state by new commits; no leaf of the log is removed.

The new row has the exact bytes that the gate once admitted and the label of that admission, with
leaves of its own. A memory that was hidden since then stays hidden, unless earlier rewinds alone
hide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import CandidateId, MemoryClass, MemoryStatus, PrincipalId
from storage.features.incidents import Incident
from storage.features.quarantine.hiding import hidden_by, log_standing, place
from storage.ground.errors import QuotaReached
from storage.ground.randomness import random_bytes
from storage.tables.change import AddedRow, Change, read_interception, read_verdict
from storage.tables.codec import NO_ORDINAL, IdRecord, encode, ordinal_key
from storage.tables.names import IDS, ROWS, VECTORS
from storage.tables.rows import (
    file_lineage,
    read_id,
    read_row,
    step_before,
    subject_of,
    text_of,
)
from storage.values import REWIND, Row

_CANDIDATE_ID_LEN: Final = 16


class RewindStep(msgspec.Struct, frozen=True, kw_only=True):
    """The change that a rewind makes to one memory.

    `seen` is the ordinal of the memory's newest row at the time of planning. `put_back` is the
    ordinal of the row whose state the memory gets, or NO_ORDINAL. `hide`: the rewind hides the
    memory. `release` contains the ids of earlier rewinds that no longer hide it.
    """

    name: bytes
    seen: int
    put_back: int
    hide: bool
    release: tuple[str, ...]


class RewindBatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one batch of a rewind, and the keys of memories that had changed meanwhile."""

    put_back: int = 0
    hidden: int = 0
    shown: int = 0
    moved: tuple[bytes, ...] = ()

    def plus(self, more: RewindBatchReport) -> RewindBatchReport:
        """The sum of this batch's counts and those of another batch."""
        return RewindBatchReport(
            put_back=self.put_back + more.put_back,
            hidden=self.hidden + more.hidden,
            shown=self.shown + more.shown,
            moved=self.moved + more.moved,
        )


class RewindBatch(msgspec.Struct, frozen=True):
    """An order to the writer: apply the steps of a rewind, except to memories changed since."""

    incident: Incident
    by: PrincipalId
    steps: Sequence[RewindStep]

    def carry_out(self, change: Change) -> RewindBatchReport:
        """Apply the steps, and return their counts.

        Raises:
            QuotaReached: There is no room for the texts; no step of the batch was written.
        """
        done = RewindBatchReport()
        for step in self.steps:
            done = done.plus(self._apply(change, step))
        return done

    def _apply(self, change: Change, step: RewindStep) -> RewindBatchReport:
        known = read_id(change.draft, step.name)
        if known is None or known.ordinal != step.seen:
            return RewindBatchReport(moved=(step.name,))
        before = hidden_by(change.draft, step.name, known)
        after = before - frozenset(step.release)
        if step.hide:
            after |= {self.incident.incident_id}
        was = known.status
        row = read_row(change.draft, known.ordinal)
        detail = self.incident.detail
        if step.put_back != NO_ORDINAL:
            status = MemoryStatus.QUARANTINED if after else MemoryStatus.LIVE
            known, row = put_back(
                change, self.by, step.name, known, earlier=step.put_back, status=status
            )
            change.note(REWIND, subject_of(row.memory_id, row.candidate_id), self.by, detail)
        place(change, step.name, known, row, after)
        is_hidden, was_hidden = bool(after), was is MemoryStatus.QUARANTINED
        if is_hidden != was_hidden or (is_hidden and after != before):
            log_standing(change, row.memory_id, row, self.by, detail, hidden=is_hidden)
        return RewindBatchReport(
            put_back=int(step.put_back != NO_ORDINAL),
            hidden=int(is_hidden and not before),
            shown=int(was_hidden and not is_hidden),
        )


def put_back(
    change: Change,
    by: PrincipalId,
    name: bytes,
    known: IdRecord,
    *,
    earlier: int,
    status: MemoryStatus,
    expires_at: str | None = None,
    memory_class: MemoryClass | None = None,
) -> tuple[IdRecord, Row]:
    """Append a copy of the row at ordinal `earlier` as the newest row of its memory.

    Returns the memory's id record and the new row. `expires_at` (RFC 3339) replaces the row's
    expiry, and `memory_class` its class.

    Raises:
        QuotaReached: There is no room for the row; the transaction must not be committed.
    """
    draft = change.draft
    newest, old = read_row(draft, known.ordinal), read_row(draft, earlier)
    if memory_class is not None:
        old = msgspec.structs.replace(old, memory_class=memory_class)
    vector = draft.get(VECTORS, ordinal_key(earlier)) or b""
    change.version += 1
    ordinal = change.next_ordinal
    change.next_ordinal += 1
    row = _readmitted(change, by, old, known.ordinal, step_before(newest))
    if expires_at is not None:
        row = msgspec.structs.replace(row, expires_at=expires_at)
    stored = encode(row)
    change.charges[row.tenant] += len(stored) + len(vector)
    if sum(change.charges.values()) > change.around.room_bytes:
        raise QuotaReached("full: there is no room for the texts of a rewind")
    change.around.failpoint("before_put")
    if vector:
        draft.append(VECTORS, ordinal_key(ordinal), vector)
    draft.append(ROWS, ordinal_key(ordinal), stored)
    after = IdRecord(ordinal, status)
    draft.put(IDS, name, encode(after))
    text, _, candidate = text_of(row)
    file_lineage(draft, change.names, ordinal, candidate)
    if known.status is MemoryStatus.LIVE:
        change.index.superseded.append((known.ordinal, newest))
        change.live_count -= 1
    live = status is MemoryStatus.LIVE
    change.live_count += live
    before = None if known.status is MemoryStatus.DELETED else newest
    change.index.added.append(
        AddedRow(
            ordinal=ordinal,
            row=row,
            vector=vector,
            text=text or "",
            shown=live,
            before=before,
        )
    )
    change.around.failpoint("after_put")
    return after, row


def _readmitted(change: Change, by: PrincipalId, old: Row, newest: int, previous_index: int) -> Row:
    """A copy of an earlier row, with its bytes and label, logged as an operator's admission."""
    verdict = read_verdict(change.draft, old.leaf_index)
    seen = read_interception(change.draft, verdict)
    candidate_id = CandidateId(random_bytes(_CANDIDATE_ID_LEN).hex())
    intercepted_index = change.log(
        msgspec.structs.replace(
            seen,
            candidate_id=candidate_id,
            at_ms=change.now_ms,
            nonce_key=b"",
            # The class is the one that the memory had, because no client names a class here.
            class_named=False,
            trace_id="",
        )
    )
    leaf_index = change.log(
        msgspec.structs.replace(
            verdict,
            candidate_id=candidate_id,
            at_ms=change.now_ms,
            intercepted_index=intercepted_index,
            reason=None,
            step=None,
            structural=False,
            memory_class=old.memory_class,
            # A person may have vouched for the row since its verdict, so its present label is
            # logged.
            source=old.source,
            basis=old.basis,
            version=change.version,
            approved_by=by,
            ruleset_epoch=change.header.epoch,
            previous_index=previous_index,
        )
    )
    return msgspec.structs.replace(
        old,
        candidate_id=candidate_id,
        version=change.version,
        at_ms=change.now_ms,
        prev_ordinal=newest,
        leaf_index=leaf_index,
    )
