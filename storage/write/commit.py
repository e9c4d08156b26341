"""The only code that makes anything visible in the store: it requires a permit and checks it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import (
    ChangeKind,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Scope,
)
from policy.verdict import Hold, InvariantBroken, Permit, Reject
from storage.audit import (
    OBSERVED_HOLD,
    OBSERVED_REJECT,
    VerdictLeaf,
    candidate_of,
    culprit_of,
    inherit,
    state_after,
)
from storage.ground.errors import StalePermit
from storage.ground.randomness import random_bytes
from storage.tables.change import AddedRow, Change
from storage.tables.codec import NO_ORDINAL, IdRecord, encode, ordinal_key
from storage.tables.keys import uuid_of
from storage.tables.names import CHILDREN, IDS, ROWS, VECTORS
from storage.tables.rows import (
    ENDING,
    file_lineage,
    is_expired,
    is_uuid,
    read_id,
    read_row,
    step_before,
)
from storage.values import Decision, Row
from storage.write.seam import AdmittedCandidate, Follower, LandedRow

_BORN_AGAIN: Final = (MemoryStatus.DELETED, MemoryStatus.LIVE)


class Committer:
    """Writes admitted candidates into a transaction. Writer thread only.

    `required` are the steps of the gate that a permit must name; `epoch` is the epoch of the
    ruleset in force.
    """

    def __init__(self, required: frozenset[int], followers: Sequence[Follower]) -> None:
        self._required = required
        self._followers = followers
        # Those that do something after a landing, which each write is.
        self._after_landing = [
            one.landed for one in followers if type(one).landed is not Follower.landed
        ]

    def commit(
        self, change: Change, permit: Permit, judged: AdmittedCandidate, epoch: int
    ) -> LandedRow:
        """Write one admitted candidate into the transaction: leaf, row, vector, id, version.

        The candidate is visible and durable when, and only when, the transaction's own commit
        returns.

        Raises:
            StalePermit: The permit is for another epoch, candidate or content, or does not name
                every required step; nothing was written.
            InvariantBroken: The permit was used before.
        """
        self._verify(permit, judged, epoch)
        candidate = judged.candidate
        minted = candidate.memory_id is None
        memory_id = candidate.memory_id or uuid_of(random_bytes(16), 4)
        name = change.names.memory(candidate.tenant, memory_id)
        # No lookup is needed, because the id of a new memory is 122 new random bits.
        known = None if minted else read_id(change.draft, name)
        stored = None if known is None else read_row(change.draft, known.ordinal)
        key = judged.submission.guarded_key
        # A memory on another server is found by its key, and the gate has read the rows under that
        # key.
        changes_here = key is None and candidate.change is not ChangeKind.CREATE
        if changes_here and not _reachable(candidate.change, known, stored):
            raise StalePermit("the memory to change is gone")
        permit.spend()
        change.version += 1
        landing = _Landing(
            followers=self._followers,
            change=change,
            permit=permit,
            judged=judged,
            memory_id=memory_id,
            known=known,
            stored=stored,
            keyed=b""
            if key is None
            else change.names.guarded(candidate.tenant, candidate.target, key),
        )
        leaf_index = landing.log()
        vector, embedder_id = landing.vector()
        row = landing.row(leaf_index, embedder_id)
        change.around.failpoint("before_put")
        landed = landing.put(name, row, vector)
        for after in self._after_landing:
            after(change, judged, landed)
        change.around.failpoint("after_put")
        return landed

    def _verify(self, permit: Permit, judged: AdmittedCandidate, epoch: int) -> None:
        # (4) Hash the exact bytes that are about to be stored, so that any alteration since the
        # gate read them is detected (MWP 3.2, attack A5).
        if hashlib.sha256(judged.canonical).digest() != permit.digest:
            raise StalePermit("the bytes to store are not those that were judged")
        if permit.epoch != epoch:
            raise StalePermit("the ruleset changed since the verdict")
        if not permit.passed >= self._required:
            raise StalePermit("the permit does not name every required step")


class _Landing(msgspec.Struct, frozen=True, kw_only=True):
    """One admitted candidate that is being written into a transaction."""

    followers: Sequence[Follower]
    change: Change
    permit: Permit
    judged: AdmittedCandidate
    memory_id: MemoryId
    known: IdRecord | None
    stored: Row | None
    keyed: bytes

    def log(self) -> int:
        """Append the verdict leaf of the candidate; return the leaf's index."""
        judged, provenance = self.judged, self.judged.submission.provenance
        objection = judged.objection
        # An id that a client chose may contain any text, and a leaf remains after a purge. So the
        # leaf names the memory only by an id that the store made.
        plain = judged.candidate.memory_id is None or is_uuid(self.memory_id)
        return self.change.log(
            VerdictLeaf(
                candidate_id=self.permit.candidate_id,
                at_ms=self.change.now_ms,
                intercepted_index=judged.intercepted_index,
                decision=Decision.ADMIT,
                reason=None if objection is None else objection.reason,
                step=None if objection is None else objection.step,
                memory_class=self.permit.memory_class,
                source=self.permit.source,
                basis=self.permit.basis,
                version=self.change.version,
                memory_id=self.memory_id if plain else None,
                approved_by=judged.approved_by if objection is None else _observed(objection),
                ruleset_epoch=self.permit.epoch,
                structural=objection is not None
                and isinstance(objection, Reject)
                and objection.structural,
                trust_level=judged.trust_level,
                culprit=culprit_of(provenance.culprits, judged.candidate),
                session=provenance.session,
                previous_index=step_before(self.stored),
            )
        )

    def row(self, leaf_index: int, embedder_id: str) -> Row:
        """The row of this candidate; for a purge, a row without content."""
        candidate, change = self.judged.candidate, self.change
        provenance = self.judged.submission.provenance
        purge = candidate.change is ChangeKind.PURGE
        update = candidate.change is ChangeKind.UPDATE and self.stored is not None
        goes_on = self.stored if update or self._replaces() else None
        inherited = inherit(candidate, self.stored)
        # If an update does not change the text, the text keeps the origins that its writer had
        # read.
        texts = self.stored if update and candidate.text is None else None
        read_before = () if texts is None else texts.read_origins
        return Row(
            change=candidate.change,
            tenant=candidate.tenant,
            principal_id=candidate.principal_id,
            memory_id=MemoryId("") if purge else self.memory_id,
            candidate_id=self.permit.candidate_id,
            memory_class=self.permit.memory_class,
            source=self.permit.source,
            basis=self.permit.basis,
            version=change.version,
            at_ms=change.now_ms,
            created_at_ms=change.now_ms if goes_on is None else goes_on.created_at_ms,
            prev_ordinal=NO_ORDINAL if purge or self.known is None else self.known.ordinal,
            leaf_index=leaf_index,
            salt=b"" if purge else self.judged.salt,
            embedder_id=embedder_id,
            scope=Scope() if purge else inherited.scope,
            expires_at=inherited.expires_at,
            kept=inherited.kept,
            canonical=b"" if purge else self.judged.canonical,
            erased=purge,
            keyed=self.keyed,
            after_reading=provenance.after_reading or (texts is not None and texts.after_reading),
            read_origins=provenance.read_origins or read_before,
            was_unread=self.judged.alters_unread,
        )

    def _replaces(self) -> bool:
        """Whether a creation replaces a memory that clients are shown under its id."""
        if self.judged.candidate.change is not ChangeKind.CREATE or self.stored is None:
            return False
        live = self.known is not None and self.known.status is MemoryStatus.LIVE
        return live and not is_expired(self.stored, self.change.now_ms)

    def put(self, name: bytes, row: Row, vector: bytes) -> LandedRow:
        """Store row, vector and id, and note the change for the derived indexes."""
        change, kind = self.change, self.judged.candidate.change
        ordinal = change.next_ordinal
        change.next_ordinal += 1
        known, stored = self.known, self.stored
        if known is not None and stored is not None and known.status is MemoryStatus.LIVE:
            change.index.superseded.append((known.ordinal, stored))
            change.live_count -= 1
        if kind in ENDING and not self.keyed and known is not None:
            for follower in self.followers:
                follower.ends(change, known, ordinal)
        if kind is ChangeKind.PURGE:
            self._erase()
        status = self._status(kind)
        candidate = self.judged.candidate
        if vector:
            change.draft.append(VECTORS, ordinal_key(ordinal), vector)
        stored_row = encode(row)
        change.draft.append(ROWS, ordinal_key(ordinal), stored_row)
        change.charges[row.tenant] += len(stored_row) + len(vector)
        change.draft.put(IDS, name, encode(IdRecord(ordinal, status)))
        if candidate.derived_from:
            file_lineage(change.draft, change.names, ordinal, candidate)
        if (
            known is not None and (known.status, status) == _BORN_AGAIN
        ) or kind is ChangeKind.PURGE:
            for follower in self.followers:
                follower.begins_anew(change, name)
        live = status is MemoryStatus.LIVE
        # The vector of a quarantined memory is indexed too, because the memory may be shown again.
        if status is not MemoryStatus.DELETED:
            change.live_count += live
            standing = known is not None and known.status is not MemoryStatus.DELETED
            change.index.added.append(
                AddedRow(
                    ordinal=ordinal,
                    row=row,
                    vector=vector,
                    text=(candidate.text if row.kept is None else state_after(row, candidate).text)
                    or "",
                    shown=live,
                    before=stored if standing else None,
                )
            )
        return LandedRow(
            name=name, ordinal=ordinal, leaf_index=row.leaf_index, row=row, status=status
        )

    def _status(self, kind: ChangeKind) -> MemoryStatus:
        if self.keyed and not self.judged.is_there:
            return MemoryStatus.FORWARDING
        if kind in {ChangeKind.DELETE, ChangeKind.PURGE}:
            return MemoryStatus.DELETED
        # An update, or a second creation under the same id, does not lift a quarantine.
        if self.known is not None and self.known.status is MemoryStatus.QUARANTINED:
            return MemoryStatus.QUARANTINED
        return MemoryStatus.LIVE

    def vector(self) -> tuple[bytes, str]:
        """The vector of the new version and the name of its embedder; both empty for a deletion.

        An update that does not change the text keeps the stored vector.
        """
        candidate, submission = self.judged.candidate, self.judged.submission
        if candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
            return b"", ""
        if submission.vector:
            return submission.vector, submission.embedder_id
        unchanged = candidate.change is ChangeKind.UPDATE and candidate.text is None
        if not unchanged or self.known is None or self.stored is None:
            return b"", ""
        vector = self.change.draft.get(VECTORS, ordinal_key(self.known.ordinal))
        return (b"", "") if vector is None else (vector, self.stored.embedder_id)

    def _erase(self) -> None:
        """Replace every row of the memory by a row without content, and delete its vectors."""
        if self.known is None:
            raise InvariantBroken("a purge of nothing was admitted")
        draft, ordinal = self.change.draft, self.known.ordinal
        while ordinal != NO_ORDINAL:
            row = read_row(draft, ordinal)
            freed = len(draft.get(VECTORS, ordinal_key(ordinal)) or b"")
            for follower in self.followers:
                follower.erases(self.change, ordinal, row)
            if not row.erased:
                for parent in candidate_of(row).derived_from:
                    draft.delete(
                        CHILDREN,
                        self.change.names.children(row.tenant, parent) + ordinal_key(ordinal),
                    )
                left = encode(_contentless(row))
                freed += len(encode(row)) - len(left)
                draft.put(ROWS, ordinal_key(ordinal), left)
            self.change.charges[row.tenant] -= freed
            draft.delete(VECTORS, ordinal_key(ordinal))
            self.change.index.erased.append(ordinal)
            ordinal = row.prev_ordinal


def _observed(objection: Hold | Reject) -> PrincipalId:
    return OBSERVED_HOLD if isinstance(objection, Hold) else OBSERVED_REJECT


def _reachable(kind: ChangeKind, known: IdRecord | None, stored: Row | None) -> bool:
    """Whether the memory to change still exists, as it did when the gate read it."""
    if known is None or stored is None or stored.erased:
        return False
    return known.status is not MemoryStatus.DELETED or kind is ChangeKind.PURGE


def _contentless(row: Row) -> Row:
    return msgspec.structs.replace(
        row,
        memory_id=MemoryId(""),
        salt=b"",
        embedder_id="",
        scope=Scope(),
        expires_at=None,
        kept=None,
        canonical=b"",
        erased=True,
        keyed=b"",
        prev_ordinal=NO_ORDINAL,
    )
