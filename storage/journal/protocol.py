"""The interface of a journal: ordered rows of sealed bytes, which one holder at a time appends.

A shared store is durable in a journal and not in its files: each write transaction is one row,
appended before the transaction is committed to the local copy. Whoever holds the lease appends; the
others follow. The lease decides who may answer, and is a matter of time. What may be appended is
decided by the fence alone: each append names the epoch of its stream, each takeover raises the
epochs of all streams, and an append under an earlier epoch stores nothing.

Every method blocks. An append that no answer came to may be stored or not: `settle` decides that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class Stream(StrEnum):
    """A sequence of rows of one store. A takeover raises the epochs of all streams together."""

    STORE = "store"  # the transactions of the store
    SESSIONS = "sessions"  # the records of the session ledger


class JournalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a stream.

    `seq` is the number of the row: the first row has 1, and each next row has one more.
    `first_ordinal` is the next free ordinal before the transaction, and `next_ordinal` the one
    after it. `body` is sealed; a journal does not read it.
    """

    seq: int
    first_ordinal: int
    next_ordinal: int
    body: bytes


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last lease of a store: who took it, and until when.

    `holder` is a random name of one process, `address` the place where its standbys reach it, and
    `format` the format of the stores that it writes. `remaining_s` is 0 or less once the lease is
    over.
    """

    holder: str
    address: str
    format: int
    remaining_s: float


class StreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of one stream: its rows from `begins` to `seq`, but for those `missing`.

    `bytes` is the length of the bodies of these rows.
    """

    stream: Stream
    epoch: int
    begins: int
    seq: int
    rows: int
    missing: int
    bytes: int


class Journal(Protocol):
    """The journal of one store, as one process uses it.

    `holds` and `renew` may be called on any thread, `append` and `settle` of a stream on one thread
    at a time; two streams may be used by two threads. `since` may be called without the lease.
    Every method but `holds` raises StoreUnavailable if the journal does not answer; only where a
    method names another error may it have stored anything.
    """

    def acquire(self) -> bool:
        """Take the lease, and raise the epochs of all streams; return whether it could be taken.

        False: another holder's lease is not over. The lease and the epochs change together. When
        this returns True, no append of an earlier holder can be stored any more.

        Raises:
            UnknownFormat: The last holder wrote a later format than this version does.
        """
        ...

    def renew(self) -> None:
        """Extend the lease. The new deadline is counted from before the request was sent.

        Raises:
            LeaseLost: Another holder has taken the lease; `holds` is False from now on.
        """

    def holds(self) -> bool:
        """Whether the lease of this process is not over. Does not block; any thread.

        The deadline is compared with CLOCK_BOOTTIME, which a suspended machine does not stop. The
        answer permits reads. It is no permission to append: the fence alone decides that.
        """
        ...

    def release(self) -> None:
        """End the lease, so that another holder need not wait for its deadline. Idempotent.

        `holds` is False before the request is sent, and also if the journal does not answer.
        """

    def lease(self) -> LeaseRecord | None:
        """The last lease of the store, of this holder or another; None if there was none."""
        ...

    def step_down(self) -> bool:
        """Let the holder's lease not be renewed; return whether there is one. No lease is needed.

        The lease lasts until its deadline, so that its holder may answer until it learns of this
        when it renews, and may end it before. It does not take the store again at once.
        """
        ...

    def streams(self) -> tuple[StreamStatus, ...]:
        """What is stored of each stream, the store's first. No lease is needed."""
        ...

    def append(self, stream: Stream, row: JournalRow) -> None:
        """Store a row as the next one of a stream; when this returns, the row is durable.

        Raises:
            LeaseLost: Another holder has taken the lease, or `row.seq` is not the next number;
                nothing was stored.
            TransactionFailed: The row may be stored, now or later. Call `settle` before anything
                else is appended to the stream.
        """

    def settle(self, stream: Stream) -> int:
        """Raise the own epoch of a stream, so that no earlier append can be stored any more.

        Returns the number of the stream's last row, 0 if it has none. The outcome of an append that
        raised TransactionFailed is known from that number.

        Raises:
            LeaseLost: Another holder has taken the lease.
        """
        ...

    def begins(self, stream: Stream) -> int:
        """The number of the first row that the stream still has; 1 before any `rebase`.

        A copy of the store that lacks this row is of no use: it is thrown away, and built anew.
        """
        ...

    def since(self, stream: Stream, seq: int) -> Iterator[JournalRow]:
        """The rows after the row `seq`, in order, up to the last one of the moment of the call.

        Raises:
            StoreCorrupt: A row is missing, or the last row is before `seq`.
            StoreUnavailable: A new beginning has replaced rows that were not read yet.
        """
        ...

    def exchange(self, stream: Stream, rows: Sequence[JournalRow]) -> None:
        """Replace stored rows by rows with the same numbers, all of them or none.

        Raises:
            LeaseLost: Another holder has taken the lease; nothing was stored.
            TransactionFailed: All rows are replaced, or none; calling it again has one effect.
            StoreCorrupt: One of the rows is not stored; nothing was replaced.
        """

    def rebase(self, stream: Stream, rows: Iterable[JournalRow]) -> None:
        """Append rows that contain the whole state, and drop all rows before; all or none.

        `rows` are read one by one, maybe by another thread while the caller waits.

        Raises:
            LeaseLost: As for `append`.
            TransactionFailed: As for `append`.
        """

    def close(self) -> None:
        """Release connections and files. The lease is not ended; call nothing after it."""
