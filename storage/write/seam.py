"""What the core offers the features of a store: orders as values, reads, and a way to follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from policy.model import Candidate, CandidateId, MemoryStatus, PrincipalId
from policy.verdict import Hold, Reject
from storage.audit import Culprit
from storage.tables.change import Change
from storage.tables.codec import IdRecord
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore, View
from storage.values import Row

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Order(Protocol[Result_co]):
    """Something that is ordered of the store, as a value; the writer carries it out."""

    def carry_out(self, change: Change) -> Result_co:
        """Make the change, with its leaf, and return the answer. Writer thread only.

        If an error is raised, nothing of the change is written.
        """
        ...


class TakesOrders(Protocol):
    """The writer of a store, as features know it. Any event loop."""

    async def order(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction; it is durable when this returns.

        Raises:
            StorageError: The order's own error, or one of those of `MemoryWriter.submit`; nothing
                was changed, unless the outcome is unknown.
        """
        ...

    async def order_together(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction with all others that wait now; else like `order`.

        Without this, each of fifty callers would wait for the commits of all before it.
        """
        ...


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """An open store as its features use it. `clock` tells Unix milliseconds.

    `moves` counts, for each table or mark, the durable changes that were marked with it; it moves
    before such a change is answered.
    """

    store: LmdbStore
    names: KeyedNames
    clock: Callable[[], int]
    writer: TakesOrders
    moves: Mapping[bytes, int]
    # The number of leaves in the log.
    leaf_count: Callable[[], int]


class Feature:
    """The reads of one feature in an open store, and its way to order changes. Any thread."""

    def __init__(self, access: StoreAccess) -> None:
        self.order = access.writer.order
        self._access = access
        self._store = access.store
        self._names = access.names
        self._clock = access.clock


class AdmittedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted candidate, with everything that its row and its leaf will state."""

    candidate: Candidate
    canonical: bytes
    salt: bytes
    intercepted_index: int
    trust_level: str
    vector: bytes
    embedder_id: str
    approved_by: PrincipalId | None = None
    # The objection of an enforcing gate, where a gate that only observes (observe mode) admitted
    # the candidate.
    objection: Hold | Reject | None = None
    # Guard mode (docs/mcp.md): the row is an intent until the server behind has
    # answered.
    guarded_key: str | None = None
    sent: bool = True
    blob: bytes = b""
    # Whether the server behind had the memory before the gate was put in front of it: then nothing
    # is ever sent.
    is_there: bool = False
    culprit: Culprit | None = None
    session: str | None = None
    after_reading: bool = False
    alters_unread: bool = False
    read_origins: tuple[str, ...] = ()


class LandedRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where an admitted candidate's memory is stored; `name` is its key in the table of ids."""

    name: bytes
    ordinal: int
    leaf_index: int
    row: Row
    status: MemoryStatus


class Follower:
    """A feature that follows what the core puts into a transaction; by default it does nothing."""

    def landed(self, change: Change, judged: AdmittedCandidate, landed: LandedRow) -> None:
        """Follow an admitted change, whose row is stored by now."""

    def ends(self, change: Change, known: IdRecord, step: int) -> None:
        """Follow a deletion or a purge at the ordinal `step`; `known` is the memory's record."""

    def erases(self, change: Change, ordinal: int, row: Row) -> None:
        """Follow the purge of one row, which is still stored."""

    def begins_anew(self, change: Change, name: bytes) -> None:
        """Follow the end of an id's earlier memory: nothing of it concerns the next one."""

    def overtaken(self, change: Change, candidate_id: CandidateId) -> None:
        """Follow the end of a released change that was not carried out: another takes its place."""

    def counts_apart(self, view: View, name: bytes) -> bool:  # noqa: ARG002 - for those who follow
        """Whether searches count a memory apart from its origin; a change marks `LABELS`."""
        return False
