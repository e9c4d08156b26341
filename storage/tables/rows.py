"""Functions that read stored rows, and make of them the values that a read may show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    HistoryEntry,
    Memory,
    MemoryId,
    MemoryStatus,
    Reads,
    Tenant,
)
from storage.audit import NO_STEP_BEFORE, candidate_of, state_after
from storage.ground.errors import StoreCorrupt, UnknownMemory
from storage.tables.codec import (
    NO_ORDINAL,
    HeldRow,
    IdRecord,
    ordinal_key,
)
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import Draft, View
from storage.tables.names import CHILDREN, IDS, KEYED, ROWS
from storage.values import HeldCandidate, Row

GROUP_LEN: Final = 7
STANDING: Final = frozenset({MemoryStatus.LIVE, MemoryStatus.QUARANTINED})
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ENDING: Final = frozenset({ChangeKind.DELETE, ChangeKind.PURGE})
"""The changes that end a memory; a later row under its id begins a new one."""
_CANDIDATE_ID_LEN: Final = 16


def read_id(view: View, name: bytes) -> IdRecord | None:
    """The id record of a memory; None if the memory never existed."""
    return view.read(IDS, name)


def read_standing(view: View, name: bytes) -> IdRecord:
    """The id record of a memory that is live or in quarantine.

    A memory that is still being sent to an upstream server is neither, because no read shows it
    yet.

    Raises:
        UnknownMemory: There is no such memory, or it was deleted.
    """
    known = read_id(view, name)
    if known is None or known.status not in STANDING:
        raise UnknownMemory("there is no such memory")
    return known


def read_row(view: View, ordinal: int) -> Row:
    """The row with this ordinal.

    Raises:
        StoreCorrupt: The row is missing or damaged.
    """
    row = view.read(ROWS, ordinal_key(ordinal))
    if row is None:
        view.digests.note(f"rows {ordinal}")
        raise StoreCorrupt(f"row {ordinal} is missing")
    return row


def text_of(row: Row) -> tuple[str | None, str | None, Candidate]:
    """Text and metadata of the memory after the row's change, and the row's candidate.

    Raises:
        StoreCorrupt: The row was erased, or its canonical bytes are not a candidate's.
    """
    candidate = candidate_of(row)
    state = state_after(row, candidate)
    return state.text, state.metadata_json, candidate


def memory_of(
    row: Row, status: MemoryStatus, known: Candidate | None = None, *, ordinal: int = NO_ORDINAL
) -> Memory:
    """A memory as a read shows it; `row` is its newest row.

    `known` is the candidate of the row, for a caller that has decoded it already.
    """
    candidate = known or candidate_of(row)
    state = state_after(row, candidate)
    return Memory(
        memory_id=row.memory_id,
        tenant=row.tenant,
        principal_id=row.principal_id,
        text=state.text or "",
        metadata_json=state.metadata_json,
        scope=row.scope,
        target=state.target,
        memory_class=row.memory_class,
        source=row.source,
        basis=row.basis,
        status=status,
        version=row.version,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.at_ms,
        candidate_id=row.candidate_id,
        role=state.role,
        actor=state.actor,
        expires_at=row.expires_at,
        derived_from=state.derived_from,
        ordinal=ordinal,
    )


class GuardedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a memory on an upstream server, and the present state of that memory.

    `row` is the memory's newest row, which may have been changed here; `sent` is the row of the
    change that was sent to the server.
    """

    name: bytes
    ordinal: int
    sent: Row
    row: Row
    known: IdRecord

    @property
    def status(self) -> MemoryStatus:
        """The memory's present status."""
        return self.known.status


def guarded_rows(
    view: View, names: KeyedNames, tenant: Tenant, target: str, key: str
) -> Iterator[GuardedRow]:
    """Every row under a key of a server, oldest first, including failed and deleted ones."""
    for one in filed_rows(view, names, names.guarded(tenant, target, key)):
        if one.sent.tenant == tenant and candidate_of(one.sent).target == target:
            yield one


def filed_rows(view: View, names: KeyedNames, keyed: bytes) -> Iterator[GuardedRow]:
    """Every row under the keyed hash of a key, oldest first; two keys may share a hash."""
    for found, _ in view.under(KEYED, keyed):
        yield guarded_row(view, names, int.from_bytes(found[len(keyed) :], "big"))


def guarded_row(view: View, names: KeyedNames, ordinal: int) -> GuardedRow:
    """The row with this ordinal, which the table of keys names, with its memory's newest row.

    Raises:
        StoreCorrupt: There is no such row, or its memory has no id record.
    """
    sent = read_row(view, ordinal)
    name = names.memory(sent.tenant, sent.memory_id)
    known = read_id(view, name)
    if known is None:
        raise StoreCorrupt(f"row {ordinal} has lost its id")
    row = sent if known.ordinal == ordinal else read_row(view, known.ordinal)
    return GuardedRow(name=name, ordinal=ordinal, sent=sent, row=row, known=known)


def children_of(
    view: View, names: KeyedNames, tenant: Tenant, parent: MemoryId
) -> Iterator[tuple[int, Row]]:
    """The rows that name this memory as a parent, with their ordinals, oldest first."""
    prefix = names.children(tenant, parent)
    for key, _ in view.under(CHILDREN, prefix):
        ordinal = int.from_bytes(key[len(prefix) :], "big")
        row = read_row(view, ordinal)
        # Two memories may share the prefix of 64 bits of a hash, so the row itself is checked.
        if row.tenant == tenant and parent in candidate_of(row).derived_from:
            yield ordinal, row


def file_lineage(draft: Draft, names: KeyedNames, ordinal: int, candidate: Candidate) -> None:
    """Record a row as a child of each parent that its candidate names."""
    for parent in candidate.derived_from:
        draft.put(CHILDREN, names.children(candidate.tenant, parent) + ordinal_key(ordinal), b"")


def step_before(newest: Row | None) -> int:
    """The index of the leaf of a memory's newest row, which the leaf of the next row will name.

    After a purge there is no such leaf, and the next leaf names none.
    """
    return NO_STEP_BEFORE if newest is None or newest.erased else newest.leaf_index


def subject_of(memory_id: MemoryId, candidate_id: str) -> str:
    """The name of a memory in leaves: its own id if the store made it, else its candidate's id.

    An id that a client chose could be any text, and a leaf remains after a purge.
    """
    return memory_id if is_uuid(memory_id) else f"candidate {candidate_id}"


def is_uuid(memory_id: MemoryId) -> bool:
    """Whether the store could have made a memory's id, so that it is no text of a client."""
    return _UUID.fullmatch(memory_id) is not None


def is_expired(row: Row, now_ms: int) -> bool:
    """Whether a memory, given by its newest row, is past its own expiry."""
    return row.expires_at is not None and expiry_ms(row.expires_at) <= now_ms


def was_ended(view: View, row: Row) -> bool:
    """Whether an incident, and no writer, let a memory expire, given by its newest row.

    Such a row is a copy of the row before it, except for the expiry.
    """
    if row.expires_at is None or row.prev_ordinal == NO_ORDINAL:
        return False
    before = read_row(view, row.prev_ordinal)
    return before.salt == row.salt and before.expires_at != row.expires_at


def held_key(candidate_id: CandidateId) -> bytes | None:
    """The key of a held candidate; None for a text that cannot be a candidate's id."""
    return id_key(candidate_id, _CANDIDATE_ID_LEN)


def id_key(text: str, length: int) -> bytes | None:
    """The key of the record with this id; None for a text that is no id of `length` bytes."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if len(key) == length else None


def chain(
    view: View, ordinal: int, bytes_max: int | None = None, reads: Reads = Reads.ALL
) -> list[Row]:
    """The rows of one memory at or above a floor, oldest first.

    With `bytes_max`, the newest that fit, at least one, because whoever may update a memory can
    make its history as long as they like.
    """
    rows: list[Row] = []
    size = 0
    while ordinal != NO_ORDINAL:
        row = read_row(view, ordinal)
        if not reads.shows(row.source):
            ordinal = row.prev_ordinal
            continue
        size += len(row.canonical) + _inherited_len(row)
        if rows and bytes_max is not None and size > bytes_max:
            break
        rows.append(row)
        ordinal = row.prev_ordinal
    rows.reverse()
    if reads is Reads.ALL:
        return rows
    # A deletion of a memory whose rows are all below the floor is no part of the history either.
    befores: list[Row | None] = [None, *rows]
    return [
        row
        for row, before in zip(rows, befores, strict=False)
        if row.change not in ENDING or (before is not None and before.change not in ENDING)
    ]


def earlier_rows(view: View, ordinal: int, row: Row) -> Iterator[Row]:
    """The rows of a memory before the one at `ordinal`, newest first.

    Raises:
        StoreCorrupt: A row is missing or damaged.
    """
    # A damaged store may link a row to itself or to a later row, which ends the memory's rows here.
    while NO_ORDINAL < row.prev_ordinal < ordinal:
        ordinal = row.prev_ordinal
        row = read_row(view, ordinal)
        yield row


def newest_above(view: View, ordinal: int, reads: Reads) -> int:
    """The ordinal of a memory's newest row at or above a floor; `NO_ORDINAL` if there is none.

    `ordinal` is the memory's newest row. Rows before an earlier deletion do not count. If the
    newest row is itself a deletion, the row before it counts.
    """
    newest = ordinal
    while reads is not Reads.ALL and ordinal != NO_ORDINAL:
        row = read_row(view, ordinal)
        if row.change in ENDING and ordinal != newest:
            return NO_ORDINAL
        if row.change not in ENDING and reads.shows(row.source):
            break
        ordinal = row.prev_ordinal
    return ordinal


def _inherited_len(row: Row) -> int:
    return 0 if row.kept is None else len(row.kept.text or "") + len(row.kept.metadata_json or "")


def history_of(rows: list[Row]) -> tuple[HistoryEntry, ...]:
    """The history of a memory, from its rows; a purge is an entry without text."""
    entries: list[HistoryEntry] = []
    old_text: str | None = None
    for row in rows:
        text, metadata_json, role, actor = None, None, None, None
        if not row.erased:
            text, metadata_json, candidate = text_of(row)
            role, actor = candidate.role, candidate.actor
        if row.change is ChangeKind.DELETE:
            text = None
        entries.append(
            HistoryEntry(
                change=row.change,
                version=row.version,
                at_ms=row.at_ms,
                candidate_id=row.candidate_id,
                source=row.source,
                memory_class=row.memory_class,
                old_text=old_text,
                new_text=text,
                metadata_json=metadata_json,
                role=role,
                actor=actor,
                leaf_index=row.leaf_index,
            )
        )
        old_text = text
    return tuple(entries)


def held_candidate_of(candidate_id: CandidateId, row: HeldRow) -> HeldCandidate:
    """A candidate that waits for a person, without the candidate's content."""
    return HeldCandidate(
        candidate_id=candidate_id,
        principal_id=row.principal_id,
        tenant=row.tenant,
        reason=row.reason,
        step=row.step,
        memory_class=row.memory_class,
        source=row.source,
        basis=row.basis,
        held_at_ms=row.held_at_ms,
        origin=row.origin or row.source.value,
        after_reading=row.after_reading,
        group=group_id(row.lines[0]),
        lines=row.lines,
    )


def group_id(line: bytes) -> str:
    """The id of the group of a line, as people type it; "g" is no hex digit, as in other ids."""
    return f"g{line[:GROUP_LEN].hex()}"


_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def expiry_ms(expires_at: str) -> int:
    """The first moment (Unix ms) at which reads do not show a memory any more.

    A date lasts until its end, in UTC. An unreadable expiry counts as past: no dialect accepts one,
    and a memory whose end is unknown must not stay for ever.
    """
    try:
        moment = datetime.fromisoformat(expires_at)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    day = timedelta(days=1 if _DATE.fullmatch(expires_at) else 0)
    # The moment is computed with integers, because the calendar's last day has no next day, and
    # nothing may raise after a durable commit.
    return ((moment - _EPOCH) // _MILLISECOND) + day // _MILLISECOND
