"""What a feature of the store is made of: orders as values, and reads of an open store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from storage.tables.change import Change
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import LmdbStore

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


class Access(msgspec.Struct, frozen=True, kw_only=True):
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
