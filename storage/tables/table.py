"""The tables whose values are records of one type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import msgspec

Record = TypeVar("Record")


class RecordTable(bytes, Generic[Record]):
    """The name of a table, which can read the records in it."""

    decoded: Callable[[bytes], Record]

    def __new__(cls, name: bytes, record: type[Record]) -> Self:
        """Return the table `name`, with records of the type `record`."""
        table = super().__new__(cls, name)
        table.decoded = msgspec.msgpack.Decoder(record).decode
        return table
