"""The interface of the core to the features: orders, reads, and followers of the core's changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from policy.model import Candidate, CandidateId, MemoryStatus, PrincipalId
from policy.verdict import Hold, Reject
from storage.tables.change import Change
from storage.tables.codec import IdRecord
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore, View
from storage.values import Row, Submission

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Order(Protocol[Result_co]):
    """A change of the store, as a value; the writer carries it out in a transaction."""

    def carry_out(self, change: Change) -> Result_co:
        """Make the change, with its leaf, and return the answer. Writer thread only.

        If an error is raised, the writer aborts the transaction, so no part of the change is
        written.
        """
        ...


class TakesOrders(Protocol):
    """The writer of a store, as its features call it. Any event loop."""

    async def order(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction; return its answer when it is durable.

        Raises:
            StorageError: The order's own error, or an error of `MemoryWriter.submit`; the store was
                not changed, unless the outcome is unknown.
        """
        ...

    async def order_together(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction with all others that wait now; else like `order`.

        Without it, the last of fifty callers would wait for fifty commits, one after the other.
        """
        ...


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """An open store as its features use it. `clock` returns Unix milliseconds.

    `moves` maps each table or mark (`Change.moved`) to the number of durable changes with the
    mark. A number grows before the caller of the change is answered.
    """

    store: LmdbStore
    names: KeyedNames
    clock: Callable[[], int]
    writer: TakesOrders
    moves: Mapping[bytes, int]
    # The number of leaves in the log.
    leaf_count: Callable[[], int]


class Feature:
    """The reads of one feature of an open store; `order` changes the store. Any thread."""

    def __init__(self, access: StoreAccess) -> None:
        self.order = access.writer.order
        self._access = access
        self._store = access.store
        self._names = access.names
        self._clock = access.clock


class AdmittedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted candidate, with all values that its row and its leaf will contain.

    `submission` has the label of the verdict, and `canonical` the bytes that were judged.
    """

    candidate: Candidate
    submission: Submission
    canonical: bytes
    salt: bytes
    intercepted_index: int
    trust_level: str
    approved_by: PrincipalId | None = None
    # The objection that an enforcing gate would have made, if the gate only observes (observe
    # mode).
    objection: Hold | Reject | None = None
    # Guard mode (docs/mcp.md): whether the call may have reached the upstream server; its row is an
    # intent until the server has answered.
    sent: bool = True
    # Whether the upstream server had the memory before the gate was installed, so that no call is
    # ever sent.
    is_there: bool = False
    alters_unread: bool = False


class LandedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The stored row of an admitted candidate; `name` is the memory's key in the table of ids."""

    name: bytes
    ordinal: int
    leaf_index: int
    row: Row
    status: MemoryStatus


class Follower:
    """A feature that is called for each change of the core; by default it does nothing."""

    def landed(self, change: Change, judged: AdmittedCandidate, landed: LandedRow) -> None:
        """Called after an admitted change has stored its row `landed`."""

    def ends(self, change: Change, known: IdRecord, step: int) -> None:
        """Called when the change at ordinal `step` ends the memory with the id record `known`."""

    def erases(self, change: Change, ordinal: int, row: Row) -> None:
        """Called before the row at `ordinal` is purged."""

    def begins_anew(self, change: Change, name: bytes) -> None:
        """Called after a purge, or when an id gets a new memory, to drop records of the old one."""

    def overtaken(self, change: Change, candidate_id: CandidateId) -> None:
        """Called when another change replaces a candidate's released change that was not sent."""

    def counts_apart(self, view: View, name: bytes) -> bool:  # noqa: ARG002 - for those who follow
        """Whether searches count a memory apart from its origin; a change marks `LABELS`."""
        return False
