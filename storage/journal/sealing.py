"""The body of a journal's row: the writes of one transaction, encrypted for one place in a history.

A history is a chain of terms. A term is what one holder appended between a takeover and the next,
and is named by random bytes, which the encryption binds together with the place of the row: a row
that was lost, moved, or exchanged for one of another term does not open. The first row of a term
names the row that it follows, so a row of another history with the same numbers is refused too.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from storage.ground.errors import StoreCorrupt
from storage.ground.randomness import random_bytes
from storage.journal.protocol import JournalRow, Stream

TERM_LEN: Final = 16
_NONCE_LEN: Final = 12


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
    """Seals the rows of one stream of one store, and opens them. Any thread."""

    def __init__(self, secret: bytes, store: str, stream: Stream) -> None:
        self.store = store
        self._secret = secret
        self._stream = stream
        key = blake2b(store.encode(), digest_size=32, key=secret, person=b"journal")
        self._cipher = AESGCM(key.digest())

    def of(self, stream: Stream) -> Sealing:
        """The sealing of another stream of the same store."""
        return Sealing(self._secret, self.store, stream)

    def seal(
        self, writes: Sequence[Write], last: Position, term: bytes, ordinals: range
    ) -> JournalRow:
        """The row of `term` that follows the row `last`.

        `ordinals` are those that the transaction gave to rows of the store.
        """
        seq = last.seq + 1
        batch = Batch(writes, None if last.term == term else last)
        nonce = random_bytes(_NONCE_LEN)
        sealed = self._cipher.encrypt(nonce, _encode(batch), self._bound(seq, term, ordinals))
        return JournalRow(
            seq=seq,
            first_ordinal=ordinals.start,
            next_ordinal=ordinals.stop,
            body=b"".join((term, nonce, sealed)),
        )

    def open(self, row: JournalRow, last: Position) -> tuple[Batch, Position]:
        """The writes of a row that follows the row `last`, and the row's own position.

        Raises:
            StoreCorrupt: The row was changed or moved, is of another history, or was sealed with
                another secret.
        """
        term, nonce = row.body[:TERM_LEN], row.body[TERM_LEN : TERM_LEN + _NONCE_LEN]
        # The number that the row must have, whatever number it was stored under.
        seq = last.seq + 1
        bound = self._bound(seq, term, range(row.first_ordinal, row.next_ordinal))
        try:
            opened = self._cipher.decrypt(nonce, row.body[TERM_LEN + _NONCE_LEN :], bound)
        except (InvalidTag, ValueError) as error:
            raise StoreCorrupt(
                f"row {seq} of the journal does not open: it was changed or moved, or sealed "
                "with another journal.key"
            ) from error
        batch = _decode(opened)
        if batch.after != (None if last.term == term else last):
            raise StoreCorrupt(f"row {seq} of the journal is of another history of this store")
        return batch, Position(seq, term)

    def _bound(self, seq: int, term: bytes, ordinals: range) -> bytes:
        """The fields outside the ciphertext that cannot be changed without the key."""
        return _encode((self.store, self._stream, seq, term, ordinals.start, ordinals.stop))
