"""The body of a journal's row: the writes of one transaction, encrypted for one place in a history.

A history is a chain of terms. A term is what one holder appended between a takeover and the next,
and is named by random bytes, which the encryption binds together with the place of the row: a row
that was lost, moved, or exchanged for one of another term does not open. The first row of a term
names the row that it follows, so a row of another history with the same numbers is refused too.

With `SegmentKeys` the key of a row is made of the shard's secret and of the key of its segment,
which a purge destroys. Each term has segments of its own: a holder seals under no key that an
earlier one may destroy.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from storage.ground.errors import StoreCorrupt
from storage.ground.randomness import random_bytes
from storage.journal.protocol import JournalRow, Stream
from storage.journal.segment_keys import KEY_ID_LEN, SegmentKeys

TERM_LEN: Final = 16
SEGMENT_LEN: Final = 256
"""The number of rows that are sealed under the key of one segment, at most."""
NO_KEY: Final = bytes(KEY_ID_LEN)
"""The place of a key's id in a row that was sealed under the shard's secret alone."""
_FORMAT: Final = b"MNJ2"
"""The beginning of each body. Earlier versions wrote bodies without it."""
_NONCE_LEN: Final = 12
_KEY_AT: Final = len(_FORMAT) + TERM_LEN
_NONCE_AT: Final = _KEY_AT + KEY_ID_LEN
_SEALED_AT: Final = _NONCE_AT + _NONCE_LEN


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A row of a history: its number and its term. The default is the place before the first."""

    seq: int = 0
    term: bytes = b""


class Write(msgspec.Struct, frozen=True, array_like=True):
    """The last write of a transaction to one key; `value` is framed, or None for a removed key."""

    table: bytes
    key: bytes
    value: bytes | None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """The writes of one transaction. `after` is None, or in the first row of a term the row before.

    The row before is of an earlier term.
    """

    writes: Sequence[Write]
    after: Position | None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Batch).decode


class Sealing:
    """Seals the rows of one stream of one store, and opens them. One thread at a time."""

    def __init__(
        self, secret: bytes, store: str, stream: Stream, keys: SegmentKeys | None = None
    ) -> None:
        """Without `keys` every row is sealed under the secret alone."""
        self.store = store
        self.keys = keys
        self._secret = secret
        self._stream = stream
        # The segment that is being written: its term, the id of its key, and the rows it may get.
        self._segment = (b"", NO_KEY, 0)

    def of(self, stream: Stream) -> Sealing:
        """The sealing of another stream of the same store, without keys of segments."""
        return Sealing(self._secret, self.store, stream)

    def seal(
        self, writes: Sequence[Write], last: Position, term: bytes, ordinals: range
    ) -> JournalRow:
        """The row of `term` that follows the row `last`.

        `ordinals` are those that the transaction gave to rows of the store.

        Raises:
            StoreUnavailable: A segment begins, and its key cannot be written.
        """
        batch = Batch(writes, None if last.term == term else last)
        place = Position(last.seq + 1, term)
        return self._sealed(batch, place, ordinals, self._key_id(term))

    def open(self, row: JournalRow, last: Position) -> tuple[Batch, Position]:
        """The writes of a row that follows the row `last`, and the row's own position.

        Raises:
            StoreCorrupt: The row was changed or moved, is of another history or format, or was
                sealed with another secret; or the key of its segment is lost.
            StoreUnavailable: The keys of segments cannot be read.
        """
        # The number that the row must have, whatever number it was stored under.
        seq, term = last.seq + 1, _term_of(row)
        batch = self.read(replace(row, seq=seq))
        if batch.after != (None if last.term == term else last):
            raise StoreCorrupt(f"row {seq} of the journal is of another history of this store")
        return batch, Position(seq, term)

    def read(self, row: JournalRow) -> Batch:
        """The writes of a row with this number, whatever row is before it; else as `open`."""
        if not row.body.startswith(_FORMAT):
            raise StoreCorrupt(
                f"row {row.seq} of the journal does not open: it was changed, or appended by "
                "another version of this program, in another format"
            )
        term, nonce = _term_of(row), row.body[_NONCE_AT:_SEALED_AT]
        bound = self._bound(row.seq, term, range(row.first_ordinal, row.next_ordinal))
        try:
            opened = self._cipher(key_id_of(row)).decrypt(nonce, row.body[_SEALED_AT:], bound)
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt(
                f"row {row.seq} of the journal does not open: it was changed or moved, or sealed "
                "with another journal.key"
            ) from error
        return _decode(opened)

    def reseal(self, row: JournalRow, batch: Batch, key_id: bytes) -> JournalRow:
        """The row to be stored in place of `row`: with these writes, under this segment's key."""
        ordinals = range(row.first_ordinal, row.next_ordinal)
        return self._sealed(batch, Position(row.seq, _term_of(row)), ordinals, key_id)

    def end_segment(self) -> None:
        """Seal the next row under a new key."""
        self._segment = (b"", NO_KEY, 0)

    def _key_id(self, term: bytes) -> bytes:
        """The id of the key under which the next row of a term is sealed."""
        if self.keys is None:
            return NO_KEY
        of, key_id, left = self._segment
        if of != term or not left:
            key_id, left = self.keys.draw(), SEGMENT_LEN
        self._segment = term, key_id, left - 1
        return key_id

    def _sealed(self, batch: Batch, at: Position, ordinals: range, key_id: bytes) -> JournalRow:
        nonce = random_bytes(_NONCE_LEN)
        bound = self._bound(at.seq, at.term, ordinals)
        sealed = self._cipher(key_id).encrypt(nonce, _encode(batch), bound)
        return JournalRow(
            seq=at.seq,
            first_ordinal=ordinals.start,
            next_ordinal=ordinals.stop,
            body=b"".join((_FORMAT, at.term, key_id, nonce, sealed)),
        )

    def _cipher(self, key_id: bytes) -> AESGCM:
        """The cipher of a segment's rows, or of rows without one."""
        name, purpose = self.store.encode(), b"journal"
        if key_id != NO_KEY:
            if self.keys is None:
                raise StoreCorrupt(
                    "the journal does not open without the keys of its segments: name their "
                    "directory in `keys` of [shard]"
                )
            name, purpose = self.keys.key(key_id) + name, b"segment"
        key = blake2b(name, digest_size=32, key=self._secret, person=purpose)
        return AESGCM(key.digest())

    def _bound(self, seq: int, term: bytes, ordinals: range) -> bytes:
        """The fields outside the ciphertext that cannot be changed without the key."""
        return _encode((self.store, self._stream, seq, term, ordinals.start, ordinals.stop))


def key_id_of(row: JournalRow) -> bytes:
    """The id of the key of a row's segment, or `NO_KEY`."""
    return row.body[_KEY_AT:_NONCE_AT]


def _term_of(row: JournalRow) -> bytes:
    return row.body[len(_FORMAT) : _KEY_AT]
