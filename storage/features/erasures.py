"""Erasures: whose traces an operator has erased, and what of an erasure is left in the store.

An erasure is durable before it erases anything, so that a start after a crash continues it. The
work that is left is read from the store itself, and grows by no row that was written after the
erasure began. While an erasure is open its record names the person; the record of a finished one
has a salted digest in place of the name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from policy.model import Candidate, ChangeKind, MemoryId, MemoryStatus, PrincipalId, Tenant
from storage.audit import candidate_of
from storage.features.kept_places import PLACES, PlaceRecord, path_of
from storage.features.selections import fits, is_under
from storage.features.upstream.closed_keys import place_of
from storage.questions import Selection
from storage.tables.change import Change
from storage.tables.lmdb_store import View
from storage.tables.names import ROWS, RecordTable
from storage.tables.rows import GuardedRow, filed_rows, guarded_row
from storage.values import Row
from storage.write.line_decisions import LINES, denied_lines
from storage.write.seam import Feature


class ErasureReach(Selection, frozen=True, kw_only=True):
    """Whose traces are erased: those of a user, of a principal, or of a target."""

    user_id: str | None = None

    def digest(self, erasure_id: str) -> str:
        """The digest of this reach, salted by the random id of an erasure."""
        said = msgspec.json.encode((erasure_id, self), order="deterministic")
        return hashlib.sha256(said).hexdigest()

    def wrote(self, candidate: Candidate) -> bool:
        """Whether a candidate is one of those whose traces are erased."""
        return (
            candidate.tenant == self.tenant
            and self.principal_id in {None, candidate.principal_id}
            and self.user_id in {None, candidate.scope.user_id}
            and (
                self.under is None
                or is_under(self.under, candidate, candidate.target, candidate.scope)
            )
        )


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one erasure; rows from the ordinal `until` on were written after it began.

    `digest` is that of the reach. `found` are the counts of the traces that it found, `servers`
    those of memories by target. `traced`: all traces but the memories are erased. A finished
    erasure has no reach, and has the statement that its last leaf commits to.
    """

    erasure_id: str
    by: PrincipalId
    digest: str
    found: dict[str, int]
    servers: dict[str, int]
    reach: ErasureReach | None
    at_ms: int = 0
    until: int = 0
    leaf_index: int = 0
    traced: bool = False
    statement: str = ""

    @property
    def principal_id(self) -> PrincipalId:
        """The principal of every change that this erasure makes."""
        return PrincipalId(f"mnemogate:erase-{self.erasure_id}")


_NO_END: Final = 2**63
ERASURES: Final = RecordTable(b"erasures", Erasure)


class DueTraces(msgspec.Struct, kw_only=True):
    """What of an erasure is left in the store.

    `memories` has the newest row of each memory, keyed by the hash of its key on a server, or else
    of its id; of the keys in `moving` a change is on its way. `candidates` are those of the rows,
    `denial_count` the denied lines, `place_count` the files whose records name the person.
    `later` has the leaf of what was written after the erasure began, `leaves` those of the
    erasure's own changes. `nameless`, of an erasure of a user: the target of each memory of the
    tenant that names no user, and so may be of this one.
    """

    memories: dict[bytes, list[Row]] = {}
    moving: set[bytes] = set()
    candidates: set[str] = set()
    denial_count: int = 0
    place_count: int = 0
    later: dict[bytes, int] = {}
    leaves: list[int] = []
    nameless: dict[MemoryId, str] = {}


class StoreErasure(msgspec.Struct, frozen=True):
    """An order to the writer: store an erasure as it is after one more step.

    When it begins, the denials of lines, and what the records of places have of the person, are
    deleted. With a statement it ends: a leaf commits to the statement, and the name is deleted.
    """

    erasure: Erasure

    def carry_out(self, change: Change) -> Erasure:
        """Store the erasure, with a leaf if it begins or ends, and return it."""
        moved = self.erasure
        subject = f"erasure {moved.erasure_id}"
        if moved.statement:
            digest = hashlib.sha256(moved.statement.encode()).hexdigest()
            change.note("erase.done", subject, moved.by, digest)
            moved = replace(moved, reach=None)
            # The page that names the person is free now; it is erased when the file is rewritten.
            change.draft.mark_unerased()
        elif moved.reach is not None and not moved.traced:
            self._delete_records(change, moved.reach)
            index = change.note("erase.begin", subject, moved.by, moved.reach.tenant)
            until = change.next_ordinal
            moved = replace(moved, at_ms=change.now_ms, until=until, leaf_index=index)
        change.draft.write(ERASURES, bytes.fromhex(moved.erasure_id), moved)
        return moved

    def _delete_records(self, change: Change, reach: ErasureReach) -> None:
        for key in _denied(change.draft, reach):
            change.draft.delete(LINES, key)
        for key, place in list(change.draft.records(PLACES)):
            left = _without(place, path_of(change.names, place), reach)
            change.draft.delete(PLACES, key)
            if left is not None:
                change.draft.write(PLACES, key, left)
        change.moved.add(PLACES)


class Erasures(Feature):
    """The erasures of a store, and what is left of each. Reads on any thread."""

    def all(self) -> list[Erasure]:
        """Every erasure, oldest first."""
        with self._store.reading() as view:
            found = (one for _, one in view.records(ERASURES))
            return sorted(found, key=lambda one: one.leaf_index)

    def due(self, reach: ErasureReach, begun: Erasure | None = None) -> DueTraces:
        """What is left of an erasure, or what a new one would find. Reads every row."""
        until, mine = (_NO_END, "") if begun is None else (begun.until, begun.principal_id)
        due, found = DueTraces(), dict[bytes, GuardedRow]()
        with self._store.reading() as view:
            for key, row in view.records(ROWS):
                own = row.principal_id == mine
                if own:
                    due.leaves.append(row.leaf_index)
                due.nameless.pop(row.memory_id, None)
                if reach.user_id is not None and _is_nameless(row, reach.tenant):
                    due.nameless[row.memory_id] = candidate_of(row).target
                fitting = fits(view, reach, row) and reach.user_id in {None, row.scope.user_id}
                if not row.erased and (own or fitting):
                    due.candidates.add(row.candidate_id)
                    ordinal = int.from_bytes(key, "big")
                    found |= {one.name: one for one in self._beside(view, ordinal, row)}
            for one in found.values():
                keyed = one.row.keyed if place_of(one.row) else one.name
                if one.known.ordinal >= until and one.row.principal_id != mine:
                    due.later[keyed] = one.row.leaf_index
                if one.known.status is MemoryStatus.FORWARDING:
                    due.moving.add(keyed)
                due.memories.setdefault(keyed, []).append(one.row)
            due.denial_count = len(_denied(view, reach))
            places = (one for _, one in view.records(PLACES))
            due.place_count = sum(
                _without(one, path_of(self._names, one), reach) != one for one in places
            )
        due.memories = {keyed: due.memories[keyed] for keyed in due.memories.keys() - due.later}
        for rows in due.memories.values():
            # Deletions go first: a deletion is found again only by what else has its key.
            rows.sort(key=lambda row: row.change is not ChangeKind.DELETE)
        return due

    def _beside(self, view: View, ordinal: int, row: Row) -> Iterator[GuardedRow]:
        """The memory of a row, and all memories that a server has under the same key."""
        yield guarded_row(view, self._names, ordinal)
        place = place_of(row)
        if place is not None:
            under = filed_rows(view, self._names, row.keyed)
            yield from (one for one in under if place_of(one.sent) == place)

    def unchanged(self, begun: Erasure, keyed: bytes) -> bool:
        """Whether no one but the erasure has written under a key of a server since it began."""
        with self._store.reading() as view:
            return all(
                one.known.ordinal < begun.until or one.row.principal_id == begun.principal_id
                for one in filed_rows(view, self._names, keyed)
            )


def _denied(view: View, reach: ErasureReach) -> list[bytes]:
    """The keys of the denied lines of a principal's candidates."""
    whose, denied = (reach.tenant, reach.principal_id), denied_lines(view).items()
    return [key for key, one in denied if (one.tenant, one.principal_id) == whose]


def _is_nameless(row: Row, tenant: Tenant) -> bool:
    of_tenant = row.tenant == tenant and row.scope.user_id is None
    return of_tenant and not row.erased and row.change is not ChangeKind.DELETE


def _without(place: PlaceRecord, path: str, reach: ErasureReach) -> PlaceRecord | None:
    """The record of a file without the lines that wait for the person alone; None if it goes."""
    if place.tenant != reach.tenant:
        return place
    if reach.under is not None:
        return None if f"{path}/".startswith(f"{reach.under.rstrip('/')}/") else place
    left = [
        replace(
            one, principals=tuple(name for name in one.principals if name != reach.principal_id)
        )
        for one in place.waiting
    ]
    return replace(place, waiting=tuple(one for one in left if one.principals))
