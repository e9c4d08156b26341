"""The one module in which outcomes change trust, in the same transaction as the act itself.

Every change of a score or a latch is made here, with a leaf. So a crash leaves either the act and
its outcome, or neither. The closed list of `policy.trust.score` determines the weight of each
outcome and how often it counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import (
    Candidate,
    ChangeKind,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Provenance,
    Tenant,
)
from policy.trust.score import (
    NEWCOMER,
    RULES,
    STANDS_AFTER_MS,
    OutcomeKind,
    Reported,
    TrustState,
    after_outcome,
    after_violation,
    counts_again,
    has_room,
    restored,
)
from storage.audit import VerdictLeaf, culprit_of
from storage.tables.change import Change, read_leaf
from storage.tables.codec import HeldRow, IdRecord, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import RecordTable
from storage.tables.rows import read_id
from storage.values import ADOPTS, THE_STORE, Row, Submission, TrustEvent

RESTORED: Final = "restored"
"""The kind of an event that is no outcome: an operator restored the trust."""
LATCHED: Final = "latched"
UNLATCHED: Final = "unlatched"
TRUST_OUTCOME: Final = "trust.outcome"
"""The action in the leaf of an outcome; its detail ends with any change of the latch."""


class TrustRecord(TrustState, frozen=True, kw_only=True, array_like=True):
    """The stored trust of one principal or origin."""

    principal_id: PrincipalId


class OriginRecord(msgspec.Struct, frozen=True, array_like=True):
    """The trust of a tenant in the results of one tool of one server.

    `trust.principal_id` is empty. Server and tool have the names that leaves may contain.
    """

    tenant: Tenant
    server: str
    tool: str
    trust: TrustRecord


class StandingRecord(msgspec.Struct, frozen=True, array_like=True):
    """A released memory, which becomes a good outcome if it is unchanged after seven days."""

    tenant: Tenant
    name: bytes  # the key of the memory in the table of ids
    ordinal: int
    leaf_index: int
    principal_id: PrincipalId
    origin: bytes = b""  # the key in the table of origins; empty if the memory has no origin
    server: str = ""
    tool: str = ""


TRUST: Final = RecordTable(b"trust", TrustRecord)
ORIGINS: Final = RecordTable(b"origins", OriginRecord)
RECENT: Final = RecordTable(b"recent", tuple[TrustEvent, ...])
COUNTED: Final = RecordTable(b"counted", int)
STANDING: Final = RecordTable(b"standing", StandingRecord)
CHARGES: Final = b"charges"


def trust_of(record: TrustRecord) -> TrustState:
    """The trust state that a stored record describes."""
    return TrustState(**{name: getattr(record, name) for name in TrustState.__struct_fields__})


def trust_record(state: TrustState, principal_id: PrincipalId) -> TrustRecord:
    """The stored form of a trust state; `principal_id` is empty if the state is an origin's."""
    fields = {name: getattr(state, name) for name in TrustState.__struct_fields__}
    return TrustRecord(principal_id=principal_id, **fields)


RECENT_MAX: Final = 64
OUTCOME_BYTES: Final = 768
"""The bytes of a tenant's share that are charged for one outcome: its leaf, nodes and record."""
_STOOD_AT_ONCE: Final = 256
_NAMED_OTHER: Final = "other"
NOBODY: Final = PrincipalId("")
NO_TENANT: Final = Tenant("")


class NamedOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """A server's tool: its key, made of its real names, and the names that a leaf may contain.

    The key is made of the real names even if the candidate's text contains them, so that no page
    can escape its history by naming its own server.
    """

    key: bytes
    server: str
    tool: str


class OutcomeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome that may change trust; `cause` is the index of the leaf of the act."""

    kind: OutcomeKind
    principal_id: PrincipalId
    tenant: Tenant
    subject: str = ""
    origin: NamedOrigin | None = None
    cause: int | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The principal or origin to which a trust record belongs, and where the record is stored."""

    key: bytes
    table: bytes
    subject: str
    principal_id: PrincipalId = NOBODY
    tenant: Tenant = NO_TENANT
    server: str = ""
    tool: str = ""


class TrustIntake:
    """Reads and changes the trust of principals and origins in a transaction. Writer thread only.

    `trust` and `origin_trust` accept any view of the store.
    """

    def __init__(self, names: KeyedNames) -> None:
        self._names = names

    # ---- reading trust ---------------------------------------------------------------------------

    def trust(self, view: View, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal, which is a newcomer's if there is no record."""
        record = view.read(TRUST, self._names.principal(principal_id))
        return NEWCOMER if record is None else trust_of(record)

    def origin_trust(self, view: View, origin: NamedOrigin) -> TrustState:
        """The trust of one origin, which is a newcomer's if there is no record."""
        record = view.read(ORIGINS, origin.key)
        return NEWCOMER if record is None else trust_of(record.trust)

    def origin_of(self, candidate: Candidate, provenance: Provenance | None) -> NamedOrigin | None:
        """The tool from which a candidate's text came; None if no tool is known."""
        culprits = () if provenance is None else provenance.culprits
        said = culprit_of(culprits, candidate)
        named = said and next((one for one in culprits if one.server is not None), None)
        if named is None or said is None:
            return None
        key = self._names.origin(candidate.tenant, named.server or "", named.tool or "")
        return NamedOrigin(key=key, server=said.server, tool=said.tool)

    def origin_named(self, tenant: Tenant, server: str, tool: str) -> NamedOrigin | None:
        """The origin that a leaf names; None if the leaf had to leave out the name."""
        if _NAMED_OTHER in {server, tool}:
            return None
        return NamedOrigin(key=self._names.origin(tenant, server, tool), server=server, tool=tool)

    # ---- counting outcomes for trust -------------------------------------------------------------

    def charge(self, change: Change, submission: Submission, trust: TrustState) -> TrustState:
        """Lower trust for a structural violation, once for each nonce and digest; return it."""
        key = self._names.charge(submission.candidate, submission.digest)
        if change.draft.has(CHARGES, key):
            return trust
        change.draft.put(CHARGES, key, b"")
        principal_id = submission.candidate.principal_id
        lowered = after_violation(trust)
        record = trust_record(lowered, principal_id)
        change.draft.write(TRUST, self._names.principal(principal_id), record)
        return lowered

    def denied(self, change: Change, row: HeldRow, cause: int) -> None:
        """Count an outcome against principal and origin: a person refused their held candidate."""
        event = OutcomeEvent(
            kind=OutcomeKind.DENIED_BY_PERSON,
            principal_id=row.principal_id,
            tenant=row.tenant,
            subject=str(row.intercepted_index),
            origin=_origin_of_row(row),
            cause=cause,
        )
        self.take(change, event)

    def released(self, change: Change, submission: Submission, row: Row, ordinal: int) -> None:
        """Record that a person released a memory, to be counted as a good outcome in seven days."""
        if row.change not in {ChangeKind.CREATE, ChangeKind.UPDATE}:
            return
        origin = self.origin_of(submission.candidate, submission.provenance)
        standing = StandingRecord(
            tenant=row.tenant,
            name=self._names.memory(row.tenant, row.memory_id),
            ordinal=ordinal,
            leaf_index=row.leaf_index,
            principal_id=row.principal_id,
            origin=b"" if origin is None else origin.key,
            server="" if origin is None else origin.server,
            tool="" if origin is None else origin.tool,
        )
        due_ms = change.now_ms + STANDS_AFTER_MS
        change.draft.write(STANDING, _due_key(due_ms, ordinal), standing)

    def quarantined(self, change: Change, row: Row, memory_id: MemoryId, cause: int) -> None:
        """Count an outcome against principal and origin: an operator hid their memory."""
        self._row_turned_out(change, row, OutcomeKind.QUARANTINED_BY_HAND, memory_id, cause=cause)

    def convicted(self, change: Change, row: Row, case_id: str, cause: int) -> None:
        """Count an outcome against principal and origin: their memory caused a wrong answer.

        Each case counts once.
        """
        self._row_turned_out(change, row, OutcomeKind.CONVICTED, case_id, cause=cause)

    def _row_turned_out(
        self,
        change: Change,
        row: Row,
        kind: OutcomeKind,
        subject: str,
        *,
        cause: int,
    ) -> None:
        """Count one outcome of a stored row, for its principal and for the origin in its leaf."""
        leaf = read_leaf(change.draft, row.leaf_index)
        culprit = leaf.culprit if isinstance(leaf, VerdictLeaf) else None
        origin = None
        if culprit is not None:
            origin = self.origin_named(row.tenant, culprit.server, culprit.tool)
        event = OutcomeEvent(
            kind=kind,
            principal_id=row.principal_id,
            tenant=row.tenant,
            subject=subject,
            origin=origin,
            cause=cause,
        )
        self.take(change, event)

    def is_due(self, view: View, now_ms: int) -> bool:
        """Whether a release is seven days old, so that it can be counted."""
        first = next(view.keys(STANDING), None)
        return first is not None and first < _due_key(now_ms + 1, 0)

    def stood(self, change: Change) -> None:
        """Count releases that are seven days old, a limited number at a time."""
        end = _due_key(change.now_ms + 1, 0)
        due: list[tuple[bytes, StandingRecord]] = []
        for key, one in change.draft.records(STANDING):
            if key >= end or len(due) == _STOOD_AT_ONCE:
                break
            due.append((key, one))
        for key, one in due:
            change.draft.delete(STANDING, key)
            # A memory that was deleted, changed or hidden since then is not a good outcome.
            if read_id(change.draft, one.name) != IdRecord(one.ordinal, MemoryStatus.LIVE):
                continue
            origin = NamedOrigin(key=one.origin, server=one.server, tool=one.tool)
            event = OutcomeEvent(
                kind=OutcomeKind.RELEASE_STOOD,
                principal_id=one.principal_id,
                tenant=one.tenant,
                subject=one.name.hex(),
                origin=origin if one.origin else None,
                cause=one.leaf_index,
            )
            self.take(change, event)

    def report(self, change: Change, reported: Reported) -> bool:
        """Count an outcome that another package reports; return whether it counted."""
        origin = None
        if reported.server is not None:
            origin = self.origin_named(reported.tenant, reported.server, reported.tool or "")
        event = OutcomeEvent(
            kind=reported.kind,
            principal_id=reported.principal_id,
            tenant=reported.tenant,
            subject=reported.subject,
            origin=origin,
        )
        return self.take(change, event)

    def take(self, change: Change, event: OutcomeEvent) -> bool:
        """Apply an outcome to the trust of its principal, and separately to that of its origin.

        Returns whether it changed the trust of either.
        """
        # The old memories that the gate adopted from a server have no known writer. Bad outcomes of
        # some would latch that name, so that the others would wait for a person while they are
        # shown.
        adopted = event.principal_id == ADOPTS
        holders = [] if adopted else [self.principal(event.principal_id)]
        if event.origin is not None:
            holders.append(origin_holder(event.tenant, event.origin))
        counted = [self._feed(change, one, event) for one in holders]
        return any(counted)

    # ---- restoring trust, by an operator ---------------------------------------------------------

    def restore(self, change: Change, holder: Holder, by: PrincipalId) -> TrustState:
        """Reset the trust of a principal or origin to a newcomer's, with a leaf; return it."""
        before = self._state(change.draft, holder)
        after = restored(before)
        self._put(change, holder, after)
        detail = f"{before.level.value} to {after.level.value}"
        leaf_index = change.note("trust.restore", holder.subject, by, detail)
        became = UNLATCHED if before.latched else ""
        event = TrustEvent(change.now_ms, RESTORED, leaf_index, None, became)
        self._remember(change, holder, event)
        return after

    # ---- changes for one principal or origin -----------------------------------------------------

    def _feed(self, change: Change, holder: Holder, event: OutcomeEvent) -> bool:
        rule, now_ms = RULES[event.kind], change.now_ms
        before = self._state(change.draft, holder)
        if not has_room(before, rule, now_ms) or not self._counts(change, holder, event):
            return False
        after = after_outcome(before, rule, now_ms, change.around.ruleset.trust.scoring)
        self._put(change, holder, after)
        became = ""
        if before.latched is not after.latched:
            became = LATCHED if after.latched else UNLATCHED
        said = f"{'good' if rule.good else 'bad'} {rule.weight:g} {event.kind.value}"
        cause = "" if event.cause is None else f", leaf {event.cause}"
        detail = f"{said}{cause}{', ' if became else ''}{became}"
        leaf_index = change.note(TRUST_OUTCOME, holder.subject, THE_STORE, detail)
        recent = TrustEvent(now_ms, event.kind.value, leaf_index, event.cause, became)
        self._remember(change, holder, recent)
        change.charges[event.tenant] += OUTCOME_BYTES
        return True

    def _counts(self, change: Change, holder: Holder, event: OutcomeEvent) -> bool:
        """Whether an outcome about this subject counts (again); if so, note it for the holder."""
        key = self._names.counted(holder.key, event.kind.value, event.subject)
        if not counts_again(event.kind, change.draft.read(COUNTED, key), change.now_ms):
            return False
        change.draft.write(COUNTED, key, change.now_ms)
        return True

    def _state(self, view: View, holder: Holder) -> TrustState:
        if holder.table == TRUST:
            record = view.read(TRUST, holder.key)
        else:
            origin = view.read(ORIGINS, holder.key)
            record = None if origin is None else origin.trust
        return NEWCOMER if record is None else trust_of(record)

    def _put(self, change: Change, holder: Holder, state: TrustState) -> None:
        record = trust_record(state, holder.principal_id)
        change.moved.add(TRUST)
        if holder.table == TRUST:
            change.draft.write(TRUST, holder.key, record)
        else:
            origin = OriginRecord(holder.tenant, holder.server, holder.tool, record)
            change.draft.write(ORIGINS, holder.key, origin)

    def _remember(self, change: Change, holder: Holder, event: TrustEvent) -> None:
        before = change.draft.read(RECENT, holder.key) or ()
        change.draft.write(RECENT, holder.key, (*before, event)[-RECENT_MAX:])

    def principal(self, principal_id: PrincipalId) -> Holder:
        """The holder of a principal's trust."""
        key = self._names.principal(principal_id)
        return Holder(key=key, table=TRUST, subject=principal_id, principal_id=principal_id)


def origin_holder(tenant: Tenant, origin: NamedOrigin) -> Holder:
    """The holder of an origin's trust."""
    return Holder(
        key=origin.key,
        table=ORIGINS,
        subject=f"origin {tenant} {origin.server} {origin.tool}"[:256],
        tenant=tenant,
        server=origin.server,
        tool=origin.tool,
    )


def _origin_of_row(row: HeldRow) -> NamedOrigin | None:
    """The origin of a held candidate, from the kind, server and tool in its row; None if none."""
    if not row.origin_key:
        return None
    _, server, tool = row.origin.split(" ")
    return NamedOrigin(key=row.origin_key, server=server, tool=tool)


def _due_key(due_ms: int, ordinal: int) -> bytes:
    return ordinal_key(due_ms) + ordinal_key(ordinal)
