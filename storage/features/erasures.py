"""Erasures: whose traces an operator has erased, and what of an erasure is left in the store.

An erasure is durable before it erases anything, so that a start after a crash continues it. The
work that is left is read from the store itself, and grows by no row that was written after the
erasure began. While an erasure is open its record names the person; the record of a finished one
has a salted digest in place of the name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from policy.model import Candidate, ChangeKind, MemoryStatus, PrincipalId
from storage.audit import InterceptedLeaf, VerdictLeaf
from storage.features.incidents import IncidentReach
from storage.features.incidents.reached_memories import fits
from storage.features.kept_places import PLACES, PlaceRecord
from storage.features.upstream.closed_keys import place_of
from storage.ground.randomness import random_bytes
from storage.tables.change import Change, read_interception, read_leaf
from storage.tables.lmdb_store import ROWS, RecordTable, View
from storage.tables.rows import filed_rows, read_id, read_row
from storage.values import Decision, Row
from storage.write.line_decisions import LINES, denied_lines
from storage.write.seam import Feature


class ErasureReach(IncidentReach, frozen=True, kw_only=True):
    """Whose traces are erased: those of a user, of a principal, or of a target."""

    user_id: str | None = None

    def digest(self, salt: bytes) -> str:
        """The salted digest of this reach, by which whoever knows the name recognises it."""
        return hashlib.sha256(salt + msgspec.json.encode(self, order="deterministic")).hexdigest()

    def wrote(self, candidate: Candidate) -> bool:
        """Whether a candidate is one of those whose traces are erased."""
        return (
            candidate.tenant == self.tenant
            and self.principal_id in {None, candidate.principal_id}
            and self.user_id in {None, candidate.scope.user_id}
            and f"{candidate.target}/".startswith("" if self.under is None else f"{self.under}/")
        )


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one erasure; rows from the ordinal `until` on were written after it began.

    `found` are the counts of the traces that it found, `servers` those of memories by target. A
    finished erasure has no reach, and has the statement that its last leaf commits to.
    """

    erasure_id: str
    by: PrincipalId
    at_ms: int
    until: int
    leaf_index: int
    salt: bytes
    digest: str
    found: dict[str, int]
    servers: dict[str, int]
    reach: ErasureReach | None
    # Whether all traces but the memories are erased.
    traced: bool = False
    statement: str = ""

    @property
    def principal_id(self) -> PrincipalId:
        """The principal of every change that this erasure makes."""
        return PrincipalId(f"mnemogate:erase-{self.erasure_id}")


ERASURES: Final = RecordTable(b"erasures", Erasure)


class DueTraces(NamedTuple):
    """What of an erasure is left in the store.

    `memories` has the newest row of each memory, keyed by the hash of its key on a server, or else
    of its id; of the keys in `moving` a change is on its way. `candidates` are those of the person
    whose ids the store knows, `ordinals` the rows of the memories, `denials` the keys of denied
    lines, `places` the files whose records name the person. `later` are the leaves of what was
    written after the erasure began.
    """

    memories: dict[bytes, list[Row]]
    moving: set[bytes]
    candidates: set[str]
    ordinals: set[int]
    denials: list[bytes]
    places: list[str]
    later: dict[int, None]


class BeginErasure(msgspec.Struct, frozen=True):
    """An order to the writer: record a new erasure durably.

    The denials of lines, and what the records of places have of the person, are deleted with it.
    """

    reach: ErasureReach
    by: PrincipalId
    found: dict[str, int]
    servers: dict[str, int]
    denials: list[bytes]

    def carry_out(self, change: Change) -> Erasure:
        """Record the erasure with a leaf, and return it."""
        erasure_id, salt = random_bytes(8).hex(), random_bytes(16)
        subject, detail = f"erasure {erasure_id}", self.reach.tenant
        begun = Erasure(
            erasure_id=erasure_id,
            by=self.by,
            at_ms=change.now_ms,
            until=change.next_ordinal,
            leaf_index=change.note("erase.begin", subject, self.by, detail),
            salt=salt,
            digest=self.reach.digest(salt),
            found=self.found,
            servers=self.servers,
            reach=self.reach,
        )
        for key in self.denials:
            change.draft.delete(LINES, key)
        for key, place in list(change.draft.records(PLACES)):
            left = _without(place, self.reach)
            change.moved.add(PLACES)
            if left is None:
                change.draft.delete(PLACES, key)
            else:
                change.draft.write(PLACES, key, left)
        change.draft.write(ERASURES, bytes.fromhex(erasure_id), begun)
        return begun


class MoveErasure(msgspec.Struct, frozen=True):
    """An order to the writer: store an erasure as it is after one more step.

    With a statement the erasure ends: a leaf commits to the statement, and the name is deleted.
    """

    erasure: Erasure

    def carry_out(self, change: Change) -> Erasure:
        """Store the erasure, with a leaf if it ends, and return it."""
        moved = self.erasure
        if moved.statement:
            digest = hashlib.sha256(moved.statement.encode()).hexdigest()
            change.note("erase.done", f"erasure {moved.erasure_id}", moved.by, digest)
            moved = replace(moved, reach=None)
            # The page that names the person is free now; it is erased when the file is rewritten.
            change.draft.mark_unerased()
        change.draft.write(ERASURES, bytes.fromhex(moved.erasure_id), moved)
        return moved


class Erasures(Feature):
    """The erasures of a store, and what is left of each. Reads on any thread."""

    def all(self) -> list[Erasure]:
        """Every erasure, oldest first."""
        with self._store.reading() as view:
            found = [one for _, one in view.records(ERASURES)]
        return sorted(found, key=lambda one: one.leaf_index)

    def due(self, reach: ErasureReach, begun: Erasure | None = None) -> DueTraces:
        """What is left of an erasure, or what a new one would find. Reads every row.

        With a principal in `reach` it reads every leaf too.
        """
        due = DueTraces({}, set(), set(), set(), [], [], {})
        with self._store.reading() as view:
            header = view.header()
            if header is None:
                return due
            until = header.next_ordinal if begun is None else begun.until
            mine = None if begun is None else begun.principal_id
            names: dict[bytes, None] = {}
            for key, row in view.records(ROWS):
                own = row.principal_id == mine
                fitting = fits(view, reach, row) and reach.user_id in {None, row.scope.user_id}
                if row.erased or not (own or fitting):
                    continue
                ordinal = int.from_bytes(key, "big")
                if ordinal >= until and not own:
                    due.later[row.leaf_index] = None
                    continue
                due.candidates.add(row.candidate_id)
                due.ordinals.add(ordinal)
                names |= dict.fromkeys(self._names_of(view, row))
            self._add(due, view, names, until, mine)
            if reach.principal_id is not None:
                last = header.leaf_count if begun is None else begun.leaf_index
                due.candidates.update(_intercepted(view, reach, last))
            denied = denied_lines(view).items()
            due.denials.extend(key for key, one in denied if one in due.candidates)
            places = (one for _, one in view.records(PLACES))
            due.places.extend(one.path for one in places if _without(one, reach) != one)
        return due

    def _names_of(self, view: View, row: Row) -> Iterator[bytes]:
        """The memory of a row, and all memories that a server has under the same key."""
        yield self._names.memory(row.tenant, row.memory_id)
        place = place_of(row)
        for one in () if place is None else filed_rows(view, self._names, row.keyed):
            if place_of(one.sent) == place:
                yield one.name

    def _add(
        self,
        due: DueTraces,
        view: View,
        names: dict[bytes, None],
        until: int,
        mine: PrincipalId | None,
    ) -> None:
        """Add the memories of these names, without what was written after the erasure began."""
        moved: set[bytes] = set()
        for name in names:
            known = read_id(view, name)
            newest = None if known is None else read_row(view, known.ordinal)
            if known is None or newest is None or newest.erased:
                continue
            keyed = newest.keyed if place_of(newest) else name
            if known.ordinal >= until and newest.principal_id != mine:
                due.later[newest.leaf_index] = None
                moved.add(keyed)
            if known.status is MemoryStatus.FORWARDING:
                due.moving.add(keyed)
            due.memories.setdefault(keyed, []).append(newest)
        for keyed in moved:
            del due.memories[keyed]
        for rows in due.memories.values():
            # Deletions go first: a deletion is found again only by what else has its key.
            rows.sort(key=lambda row: row.change is not ChangeKind.DELETE)

    def unchanged(self, begun: Erasure, keyed: bytes) -> bool:
        """Whether no one but the erasure has written under a key of a server since it began."""
        with self._store.reading() as view:
            return all(
                one.known.ordinal < begun.until or one.row.principal_id == begun.principal_id
                for one in filed_rows(view, self._names, keyed)
            )

    def leaves(self, begun: Erasure) -> list[int]:
        """The leaves of the changes that an erasure has made so far."""
        found: list[int] = []
        with self._store.reading() as view:
            header = view.header()
            for index in range(begun.leaf_index, 0 if header is None else header.leaf_count):
                leaf = read_leaf(view, index)
                if isinstance(leaf, VerdictLeaf) and leaf.decision is Decision.ADMIT:
                    whose = read_interception(view, leaf).principal_id
                    found += [index] if whose == begun.principal_id else []
        return found


def _without(place: PlaceRecord, reach: ErasureReach) -> PlaceRecord | None:
    """The record of a file without the lines that wait for the person alone; None if it goes."""
    if place.tenant != reach.tenant or (reach.under is None and reach.principal_id is None):
        return place
    if reach.under is not None:
        return None if f"{place.path}/".startswith(f"{reach.under.rstrip('/')}/") else place
    left = [
        replace(
            one, principals=tuple(name for name in one.principals if name != reach.principal_id)
        )
        for one in place.waiting
    ]
    return replace(place, waiting=tuple(one for one in left if one.principals))


def _intercepted(view: View, reach: ErasureReach, leaf_count: int) -> Iterator[str]:
    whose = (reach.tenant, reach.principal_id)
    for leaf in (read_leaf(view, index) for index in range(leaf_count)):
        if isinstance(leaf, InterceptedLeaf) and (leaf.tenant, leaf.principal_id) == whose:
            yield leaf.candidate_id
