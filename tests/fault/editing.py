"""An editor of a store's file that does not have `secrets/store.key`."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import lmdb
import msgspec

from storage.tables.codec import FORMAT, Digests, decode_header, encode, ordinal_key
from storage.tables.names import COUNTED, IDS, META, ROWS
from storage.values import Row

PAYLOAD_AT = 17


class Editor:
    """Edits the tables of a closed store; a value gets the digest that needs no key."""

    def __init__(
        self, transaction: lmdb.Transaction, tables: Mapping[bytes, lmdb._Database]
    ) -> None:
        self._transaction = transaction
        self._tables = tables

    def raw(self, table: bytes, key: bytes) -> bytes:
        value = self._transaction.get(key, db=self._tables[table])
        assert value is not None
        return bytes(value)

    def put_raw(self, table: bytes, key: bytes, value: bytes) -> None:
        self._transaction.put(key, value, db=self._tables[table])

    def payload(self, table: bytes, key: bytes) -> bytes:
        return self.raw(table, key)[PAYLOAD_AT:]

    def put(self, table: bytes, key: bytes, payload: bytes) -> None:
        digest = blake2b(key + payload, digest_size=32, person=table).digest()[:16]
        self.put_raw(table, key, FORMAT + digest + payload)

    def delete(self, table: bytes, key: bytes) -> None:
        assert self._transaction.delete(key, db=self._tables[table])

    def keys(self, table: bytes) -> list[bytes]:
        cursor = self._transaction.cursor(db=self._tables[table])
        return [bytes(key) for key in cursor.iternext(values=False)]

    def row(self, ordinal: int) -> Row:
        return ROWS.decoded(self.payload(ROWS, ordinal_key(ordinal)))

    def put_row(self, ordinal: int, row: Row) -> None:
        self.put(ROWS, ordinal_key(ordinal), encode(row))

    def id_of(self, ordinal: int) -> bytes:
        ids = ((key, IDS.decoded(self.payload(IDS, key))) for key in self.keys(IDS))
        return next(key for key, known in ids if known.ordinal == ordinal)

    def correct_header(self) -> None:
        """Make every count in the header fit the edited tables."""
        header = decode_header(self.payload(META, b"header"))
        counts = tuple(len(self.keys(table)) for table in COUNTED)
        next_ordinal = int.from_bytes(self.keys(ROWS)[-1], "big") + 1
        corrected = msgspec.structs.replace(
            header,
            counts=counts,
            version=next_ordinal,
            next_ordinal=next_ordinal,
            live_count=counts[COUNTED.index(IDS)],
        )
        self.put(META, b"header", encode(corrected))


def payload_alone(_self: Digests, _table: bytes, _key: bytes, value: bytes) -> bytes:
    """The payload of a value, in place of `Digests.unframe`: nothing is compared."""
    return value[PAYLOAD_AT:]


def without_key(_self: Digests, _name: bytes, data: bytes | memoryview) -> bytes:
    """The digest that an editor can compute, in place of `Digests.of`."""
    return blake2b(data, digest_size=32).digest()
