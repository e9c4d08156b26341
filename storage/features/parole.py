"""Parole: a hidden memory is shown again after a trial, one class lower and on probation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from policy.after.closure import Act
from policy.after.parole import PAROLES_MAX, PROBATION_DAYS, lowered
from policy.model import Memory, MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.features.cases import CASES, Case
from storage.features.incidents.rewind_steps import put_back
from storage.features.quarantine.hiding import hidden_by, log_standing, place
from storage.ground.errors import MemoryMoved, StoreCorrupt
from storage.tables.change import LABELS, Change, read_interception, read_verdict
from storage.tables.codec import IdRecord
from storage.tables.lmdb_store import View
from storage.tables.names import RecordTable
from storage.tables.rows import (
    chain,
    is_expired,
    memory_of,
    read_id,
    read_row,
    read_standing,
    subject_of,
    was_ended,
)
from storage.values import Row, Visibility
from storage.write.seam import Feature, Follower

_PROBATION_MS: Final = PROBATION_DAYS * 86_400_000
_BYTES: Final = 64
"""The bytes of a tenant's share that are charged for the first parole record of a memory."""
PAROLE_REFUSED = "memory.unhide_refused"
"""The action in the leaf of a trial that a memory did not pass."""


class ParoleRecord(msgspec.Struct, frozen=True, array_like=True):
    """The record of one memory's paroles. Times are Unix milliseconds, 0 for never.

    `paroles` counts how often the memory was shown again after a trial. The memory is on probation
    from `since_ms` to `until_ms`; an `until_ms` of 0 means that the probation was ended.
    """

    paroles: int = 0
    since_ms: int = 0
    until_ms: int = 0


PAROLES: Final = RecordTable(b"paroles", ParoleRecord)
"""The parole records, keyed by the memory's key in the table of ids."""


class HiddenMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that reads do not show, as it was at one moment, with the facts for its trial.

    `memory` is the version that a parole would show again, and `newest` the ordinal of the newest
    row. `outlived`: an incident set an expiry on the memory because it was true once. `expired`:
    the memory is past an expiry of its own. `cases` are the cases of wrong answers that name the
    memory, oldest first. `structural`: a version was admitted although its program broke a rule
    that only a program can break. `claimed_more`: a client claimed a more trusted source than the
    gate found. `writers` are the principals that wrote any version of the memory.
    """

    memory: Memory
    newest: int
    by: frozenset[str]
    record: ParoleRecord
    cases: tuple[Case, ...]
    outlived: bool
    expired: bool
    structural: bool
    claimed_more: bool
    writers: frozenset[PrincipalId]


class OnProbation(msgspec.Struct, frozen=True, kw_only=True):
    """A memory on probation, with the begin and the end of the probation (Unix milliseconds).

    `writers` are the principals that wrote any version of the memory.
    """

    tenant: Tenant
    memory_id: MemoryId
    since_ms: int
    until_ms: int
    writers: frozenset[PrincipalId]


class GrantParole(msgspec.Struct, frozen=True):
    """An order to the writer: show a memory again, one class lower; `said` is for the leaf."""

    hidden: HiddenMemory
    said: str
    by: PrincipalId

    def carry_out(self, change: Change) -> Visibility:
        """Show the memory and begin its probation, with a leaf; return the memory's visibility.

        Raises:
            MemoryMoved: The memory was changed since the trial; the store was not changed.
            QuotaReached: There is no room for the new row; the store was not changed.
        """
        hidden, memory = self.hidden, self.hidden.memory
        name = change.names.memory(memory.tenant, memory.memory_id)
        known = _as_tried(change, name, hidden)
        if hidden.record.paroles >= PAROLES_MAX:
            raise MemoryMoved("the memory came back as often as it may")
        row = read_row(change.draft, known.ordinal)
        to = lowered(memory.memory_class)
        if memory.ordinal != known.ordinal or to is not memory.memory_class:
            known, row = put_back(
                change,
                self.by,
                name,
                known,
                earlier=memory.ordinal,
                status=MemoryStatus.LIVE,
                memory_class=to,
            )
        place(change, name, known, row, frozenset())
        # Reads count a memory on probation apart from its origin, so they must read the labels
        # anew.
        change.moved.add(LABELS)
        record = ParoleRecord(
            paroles=hidden.record.paroles + 1,
            since_ms=change.now_ms,
            until_ms=change.now_ms + _PROBATION_MS,
        )
        _keep(change, name, memory.tenant, record)
        detail = f"{memory.tenant}: {self.said}, {memory.memory_class.value} to {to.value}"
        leaf_index = log_standing(change, memory.memory_id, row, self.by, detail, hidden=False)
        return Visibility(
            memory_id=memory.memory_id,
            tenant=memory.tenant,
            status=MemoryStatus.LIVE,
            changed=True,
            leaf_index=leaf_index,
        )


class RefuseParole(msgspec.Struct, frozen=True):
    """An order to the writer: record that a memory did not pass its trial and stays hidden."""

    hidden: HiddenMemory
    said: str
    by: PrincipalId

    def carry_out(self, change: Change) -> Visibility:
        """Log the leaf of the trial; return the memory's visibility, which is unchanged."""
        memory = self.hidden.memory
        subject = subject_of(memory.memory_id, memory.candidate_id)
        leaf_index = change.note(PAROLE_REFUSED, subject, self.by, f"{memory.tenant}: {self.said}")
        return Visibility(
            memory_id=memory.memory_id,
            tenant=memory.tenant,
            status=memory.status,
            leaf_index=leaf_index,
        )


class EndProbations(msgspec.Struct, frozen=True):
    """An order to the writer: end probations, unless they began anew since. No leaf is written."""

    ended: Sequence[OnProbation]

    def carry_out(self, change: Change) -> None:
        """End each probation that has the same beginning as in `ended`."""
        for one in self.ended:
            name = change.names.memory(one.tenant, one.memory_id)
            record = parole_record(change.draft, name)
            if record.since_ms == one.since_ms:
                end_probation(change, name, record)


class Probations(Follower):
    """Makes searches count memories on probation apart from their origins."""

    def counts_apart(self, view: View, name: bytes) -> bool:
        """Whether the memory is on probation."""
        return parole_record(view, name).until_ms > 0


def parole_record(view: View, name: bytes) -> ParoleRecord:
    """The parole record of a memory; an empty record if the memory never had a trial."""
    return view.read(PAROLES, name) or ParoleRecord()


def end_probation(change: Change, name: bytes, record: ParoleRecord) -> None:
    """End a memory's probation, so that reads count the memory to its own origin again."""
    change.moved.add(LABELS)
    change.draft.write(PAROLES, name, msgspec.structs.replace(record, until_ms=0))


def _as_tried(change: Change, name: bytes, hidden: HiddenMemory) -> IdRecord:
    """The id record of a memory; raise `MemoryMoved` if the memory changed since its trial."""
    known = read_id(change.draft, name)
    if (
        known is None
        or known.status is MemoryStatus.DELETED
        or known.ordinal != hidden.newest
        or hidden_by(change.draft, name, known) != hidden.by
        or parole_record(change.draft, name) != hidden.record
    ):
        raise MemoryMoved("the memory was changed during its trial")
    return known


def _keep(change: Change, name: bytes, tenant: Tenant, record: ParoleRecord) -> None:
    if not change.draft.has(PAROLES, name):
        change.charges[tenant] += _BYTES
    change.draft.write(PAROLES, name, record)


class Paroles(Feature):
    """Hidden memories, for their trials. Coroutines run on any loop; other calls on any thread.

    Coroutines raise what `MemoryWriter.submit` raises; each is one transaction with its leaf.
    """

    def hidden(self, tenant: Tenant, memory_id: MemoryId) -> HiddenMemory | None:
        """A hidden memory with the facts for its trial, or None if reads show it. Reads its rows.

        A memory that is past an expiry of its own counts as shown, because no one hides it.

        Raises:
            UnknownMemory: The tenant has no such memory, or it was deleted.
        """
        name = self._names.memory(tenant, memory_id)
        with self._store.reading() as view:
            known = read_standing(view, name)
            rows = chain(view, known.ordinal)
            cases = _naming(view, tenant, rows)
            back = _outlived(view, known, rows, cases)
            by = hidden_by(view, name, known)
            if back == known.ordinal and not by:
                return None
            row = read_row(view, back)
            return HiddenMemory(
                memory=memory_of(row, known.status, ordinal=back),
                newest=known.ordinal,
                by=by,
                record=parole_record(view, name),
                cases=cases,
                outlived=back != known.ordinal,
                expired=is_expired(row, self._clock()),
                structural=any(read_verdict(view, one.leaf_index).structural for one in rows),
                claimed_more=any(_claims_more(view, one) for one in rows),
                writers=_writers(rows),
            )

    def on_probation(self, tenant: Tenant | None = None) -> tuple[OnProbation, ...]:
        """The memories whose probation was not ended yet, of one tenant or (None) of all."""
        found: list[OnProbation] = []
        with self._store.reading() as view:
            for name, record in view.records(PAROLES, sound_only=True):
                with suppress(StoreCorrupt):
                    known = read_id(view, name) if record.until_ms else None
                    if known is None or known.status is not MemoryStatus.LIVE:
                        continue
                    row = read_row(view, known.ordinal)
                    if tenant in {None, row.tenant}:
                        found.append(
                            OnProbation(
                                tenant=row.tenant,
                                memory_id=row.memory_id,
                                since_ms=record.since_ms,
                                until_ms=record.until_ms,
                                writers=_writers(chain(view, known.ordinal)),
                            )
                        )
        return tuple(found)


def _naming(view: View, tenant: Tenant, rows: Sequence[Row]) -> tuple[Case, ...]:
    """The cases that name a memory as one to act on, oldest first; `rows` are all its rows."""
    subjects = {subject_of(one.memory_id, one.candidate_id) for one in rows}
    named = [
        case
        for _, case in view.records(CASES)
        if case.tenant == tenant and any(one.memory in subjects for one in case.culprits)
    ]
    return tuple(sorted(named, key=lambda one: (one.opened_at_ms, one.case_id)))


def _outlived(view: View, known: IdRecord, rows: Sequence[Row], cases: Sequence[Case]) -> int:
    """The ordinal of the version to show: the one before an incident set an expiry, else newest."""
    newest = rows[-1]
    subjects = {subject_of(one.memory_id, one.candidate_id) for one in rows}
    expired = any(
        one.memory in subjects and one.act is Act.EXPIRE for case in cases for one in case.culprits
    )
    return newest.prev_ordinal if expired and was_ended(view, newest) else known.ordinal


def _writers(rows: Sequence[Row]) -> frozenset[PrincipalId]:
    return frozenset(one.principal_id for one in rows)


def _claims_more(view: View, row: Row) -> bool:
    """Whether the client of one version claimed a more trusted source than the gate found."""
    claimed = read_interception(view, read_verdict(view, row.leaf_index)).claimed_source
    # The row's own label is compared, because a person may have vouched for the text since.
    return claimed is not None and claimed.trust > row.source.trust
