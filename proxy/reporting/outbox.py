"""Sends a receiver messages about leaves of the audit log: at least once, in the log's order.

The log is the queue. Stored beside the log is only a cursor: which leaf comes next, and where the
message being sent ends. So after a crash the same message is sent again, under the same id.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from proxy.seams.environment import Environment
from proxy.seams.faults import UpstreamError
from storage.ground.errors import StorageError, StoreUnavailable
from storage.interfaces import AuditReader, Store

_LOG: Final = logging.getLogger("mnemogate.reporting")
Told = TypeVar("Told")

POLL_S: Final = 1.0
TOGETHER_S: Final = 60
"""What comes within a minute of a message waits for the next one, unless that is full."""
MESSAGE_LEN_MAX: Final = 100
RETRY_FIRST_S: Final = 5
RETRY_MAX_S: Final = 600
SLICE_LEN: Final = 1_000
# Leaves without anything to report, after which the cursor moves past them all the same, so that a
# start need not read them again.
_IDLE_LEN: Final = 10_000


class Sink(Protocol):
    """What an outbox sends its messages to."""

    async def deliver(self, message_id: str, body: bytes) -> None:
        """Send a message; returns when the receiver has taken it.

        Raises:
            UpstreamError: The receiver did not take it, or nobody knows.
        """
        ...


class Cursor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the receiver was told of the log.

    Leaves below `told` need no report. A message being sent covers those from there to `until`.
    """

    told: int
    until: int | None = None


class Notifier(msgspec.Struct, Generic[Told], frozen=True, kw_only=True):
    """Selects the leaves that a receiver hears of, and words the messages.

    `name` is the name of the cursor's file.
    """

    name: str
    picks: Callable[[bytes], Told | None]
    # Makes the message's body of its id and the picked leaves: at least one, at most
    # `MESSAGE_LEN_MAX`.
    body: Callable[[str, tuple[Told, ...]], bytes]


class Outbox(Generic[Told]):
    """Reads new leaves of the log, and sends messages about them to one receiver.

    Event loop only; the log is read in threads.
    """

    def __init__(
        self,
        store: Store,
        telling: Notifier[Told],
        sink: Sink,
        surroundings: Environment,
    ) -> None:
        """Blocks: reads the cursor; without one, starts behind the log's present last leaf.

        Raises:
            StoreUnavailable: The cursor is damaged, or cannot be read or written.
        """
        self._store = store
        self._audit: AuditReader = store.audit
        self._telling = telling
        self._sink = sink
        self._out = surroundings
        self._cursor = self._opened()
        # Picked leaves not reported yet, each with its index; `_read_until` is how far the log was
        # read.
        self._waiting: list[tuple[int, Told]] = []
        self._read_until = self._cursor.told
        # How many picked leaves were not told yet, of those before `_counted_until`.
        self._untold = 0
        self._counted_until = self._cursor.told
        self._sent_ms = 0
        self._failures = 0

    @property
    def waiting(self) -> Told | None:
        """The first picked leaf that was not reported yet, as far as the log was read."""
        return self._waiting[0][1] if self._waiting else None

    @property
    def untold_count(self) -> int:
        """How many picked leaves were not told yet. None is ever dropped: the log keeps them."""
        return self._untold

    @property
    def name(self) -> str:
        """The name of the receiver."""
        return self._telling.name

    def _opened(self) -> Cursor:
        name = self._telling.name
        try:
            kept = self._store.read_cursor(name)
            end = self._store.reader.status().leaf_count
            cursor = Cursor(told=end) if kept is None else msgspec.json.decode(kept, type=Cursor)
            if cursor.told > end:
                # The log is shorter than the cursor says: somebody restored an older state on
                # purpose.
                _LOG.warning("the log is shorter than what was told of it")
                cursor = Cursor(told=end)
            elif cursor.until is not None and not cursor.told < cursor.until <= end:
                cursor = Cursor(told=cursor.told)
            self._keep(cursor)
        except (OSError, StorageError, msgspec.MsgspecError) as error:
            raise StoreUnavailable(
                f"cursors/{name}.json in the state directory cannot be used "
                f"({type(error).__name__}): move it away, and the receiver is told of what comes "
                "from then on"
            ) from error
        return cursor

    def _keep(self, cursor: Cursor) -> None:
        self._store.write_cursor(self._telling.name, msgspec.json.encode(cursor))

    async def turn(self) -> float:
        """Read new leaves, and send what is due; returns the seconds until the next turn."""
        try:
            await self._count()
            await self._read()
            if not self._is_due():
                return POLL_S
            await self._send()
        except (UpstreamError, StorageError, OSError) as error:
            self._failures += 1
            pause_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(self._failures - 1, 10))
            why = error.detail if isinstance(error, UpstreamError) else type(error).__name__
            _LOG.warning(
                "a receiver was not told",
                extra={"fields": {"receiver": self._telling.name, "why": why, "retry_s": pause_s}},
            )
            return float(pause_s)
        self._failures = 0
        return 0.0 if len(self._waiting) >= MESSAGE_LEN_MAX else POLL_S

    async def _count(self) -> None:
        """Count the leaves to report among those that are new since the last turn."""
        end = self._store.reader.status().leaf_count
        while self._counted_until < end:
            length = min(SLICE_LEN, end - self._counted_until)
            found, read = await asyncio.to_thread(self._counted, self._counted_until, length)
            if not read:
                # The log ends before the cursor, so there is nothing to count until it has grown.
                return
            self._untold += found
            self._counted_until += read

    def _counted(self, start: int, length: int) -> tuple[int, int]:
        """How many of these leaves are to be reported; also returns how many there are."""
        leaves = self._audit.leaves(start, length)
        return sum(self._telling.picks(one) is not None for one in leaves), len(leaves)

    async def _read(self) -> None:
        """Pick leaves to report from those since the last read, as many as one message takes."""
        end = self._counted_until if self._cursor.until is None else self._cursor.until
        while self._read_until < end and len(self._waiting) < MESSAGE_LEN_MAX:
            length = min(SLICE_LEN, end - self._read_until)
            picked, read = await asyncio.to_thread(self._pick, self._read_until, length)
            if not read:
                # The log ends before the cursor, so nothing is reported until the log has grown.
                return
            self._waiting += picked
            self._read_until += read
        if not self._waiting and self._read_until - self._cursor.told > _IDLE_LEN:
            await self._move(Cursor(told=self._read_until))

    def _pick(self, start: int, length: int) -> tuple[list[tuple[int, Told]], int]:
        """Pick the leaves to report until a message is full; also returns how many were read."""
        room = MESSAGE_LEN_MAX - len(self._waiting)
        picked: list[tuple[int, Told]] = []
        leaves = self._audit.leaves(start, length)
        for read, leaf in enumerate(leaves, 1):
            found = self._telling.picks(leaf)
            if found is not None:
                picked.append((start + read - 1, found))
                if len(picked) == room:
                    return picked, read
        return picked, len(leaves)

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        again = self._cursor.until is not None
        full = len(self._waiting) >= MESSAGE_LEN_MAX
        return again or full or self._out.now_ms() - self._sent_ms >= TOGETHER_S * 1_000

    async def _send(self) -> None:
        told = tuple(one for _, one in self._waiting)
        if self._cursor.until is None:
            # The end of the message is on disk before it is sent: after a crash exactly this
            # message is repeated.
            await self._move(Cursor(told=self._cursor.told, until=self._waiting[-1][0] + 1))
        until = self._cursor.until or 0
        message_id = self._message_id(until)
        await self._sink.deliver(message_id, self._telling.body(message_id, told))
        self._sent_ms = self._out.now_ms()
        await self._move(Cursor(told=until))
        self._waiting = []
        self._untold -= len(told)
        self._read_until = until

    async def _move(self, cursor: Cursor) -> None:
        await asyncio.to_thread(self._keep, cursor)
        self._cursor = cursor

    def _message_id(self, until: int) -> str:
        """An id for the message: a keyed hash of its place in the log, which thus stays hidden."""
        incarnation = self._store.reader.status().incarnation
        said = f"{self._telling.name} {incarnation} {self._cursor.told} {until}".encode()
        key = self._store.prints_key[: hashlib.blake2b.MAX_KEY_SIZE]
        return "msg_" + hashlib.blake2b(said, key=key, digest_size=16).hexdigest()
