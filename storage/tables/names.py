"""The names of the store's tables, the types of their records, and the sizes of the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from storage.tables.codec import HeldRow, IdRecord, NonceRecord
from storage.values import Anchor, KeyRecord, Row

Record = TypeVar("Record")


class RecordTable(bytes, Generic[Record]):
    """The name of a table, with the decoder of its records."""

    decoded: Callable[[bytes], Record]

    def __new__(cls, name: bytes, record: type[Record]) -> Self:
        """Return the table `name`, with records of the type `record`."""
        table = super().__new__(cls, name)
        table.decoded = msgspec.msgpack.Decoder(record).decode
        return table


META: Final = b"meta"
ROWS: Final = RecordTable(b"rows", Row)
VECTORS: Final = b"vectors"
IDS: Final = RecordTable(b"ids", IdRecord)
NONCES: Final = RecordTable(b"nonces", NonceRecord)
TOKENS: Final = b"tokens"
HELD: Final = RecordTable(b"held", HeldRow)
LEAVES: Final = b"leaves"
NODES: Final = b"nodes"
KEYS: Final = RecordTable(b"keys", KeyRecord)
ANCHORS: Final = RecordTable(b"anchors", Anchor)
KEYED: Final = b"keyed"
CHILDREN: Final = b"children"
OF_FEATURES: Final = (
    b"trust",
    b"charges",
    b"forwards",
    b"pins",
    b"origins",
    b"recent",
    b"counted",
    b"standing",
    b"quarantines",
    b"incidents",
    b"cases",
    b"failures",
    b"paroles",
    b"closed",
    b"hidden_there",
    b"forgotten",
    b"lines",
    b"places",
    b"erasures",
)
"""The tables that features declare in `storage.features`; the core does not read them."""
TABLES: Final = (
    META,
    ROWS,
    VECTORS,
    IDS,
    NONCES,
    TOKENS,
    HELD,
    LEAVES,
    NODES,
    KEYS,
    ANCHORS,
    KEYED,
    CHILDREN,
    *OF_FEATURES,
)
COUNTED: Final = tuple(table for table in TABLES if table != META)
"""The tables whose values the header counts; the header is in the other one."""


class TableSizes(NamedTuple):
    """The number of values in each table, and the bytes of its pages, as of one view.

    Pages that are in use count, and free pages do not.
    """

    values: dict[bytes, int]
    page_bytes: dict[bytes, int]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of values in each table of `COUNTED`."""
        return tuple([self.values[name] for name in COUNTED])

    @property
    def bytes_used(self) -> int:
        """The bytes of the pages of all tables."""
        return sum(self.page_bytes.values())


NO_SIZES: Final = TableSizes({}, {})
