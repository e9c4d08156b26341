"""Sends a receiver messages about leaves of the audit log: at least once, in the log's order.

The log itself is the queue. Beside the log only a cursor is stored: the next leaf to report, and
the end of the message that is being sent. So after a crash the same message is sent again, with the
same id.
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
"""Seconds from one message to the next, unless the next one is full earlier."""
MESSAGE_LEN_MAX: Final = 100
RETRY_FIRST_S: Final = 5
RETRY_MAX_S: Final = 600
SLICE_LEN: Final = 1_000
# After so many leaves without anything to report, the cursor is moved past them, so that the next
# start does not read them again.
_IDLE_LEN: Final = 10_000


class Sink(Protocol):
    """The receiver of an outbox's messages."""

    async def deliver(self, message_id: str, body: bytes) -> None:
        """Send a message; return once the receiver has confirmed it.

        Raises:
            UpstreamError: The receiver refused the message, or it is unknown whether it arrived.
        """
        ...


class Cursor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position up to which the log was reported to a receiver.

    Leaves before `told` need no report. A message that is being sent is about the leaves from
    `told` up to, but without, `until`.
    """

    told: int
    until: int | None = None


class Notifier(msgspec.Struct, Generic[Told], frozen=True, kw_only=True):
    """Selects the leaves that are reported to a receiver, and builds the messages.

    `name` is the receiver's name, and that of the cursor's file.
    """

    name: str
    picks: Callable[[bytes], Told | None]
    # Builds a message's body from its id and from 1 to `MESSAGE_LEN_MAX` picked leaves.
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
        """Read the cursor (blocks); without one, begin after the log's current last leaf.

        Raises:
            StoreUnavailable: The cursor is damaged, or cannot be read or written.
        """
        self._store = store
        self._audit: AuditReader = store.audit
        self._telling = telling
        self.name = telling.name
        self._sink = sink
        self._out = surroundings
        self._cursor = self._opened()
        # Picked leaves that were not reported yet, each with its index in the log; `_read_until` is
        # the position up to which the log was read for them.
        self._waiting: list[tuple[int, Told]] = []
        self._read_until = self._cursor.told
        # The number of unreported leaves to report, among those before `_counted_until`; none is
        # dropped, as the log stores them.
        self.untold_count = 0
        self._counted_until = self._cursor.told
        self._sent_ms = 0
        self._failures = 0

    @property
    def waiting(self) -> Told | None:
        """The first picked leaf that was not reported yet, as far as the log was read."""
        return self._waiting[0][1] if self._waiting else None

    def _opened(self) -> Cursor:
        name = self.name
        try:
            kept = self._store.read_cursor(name)
            end = self._store.reader.status().leaf_count
            cursor = Cursor(told=end) if kept is None else msgspec.json.decode(kept, type=Cursor)
            if cursor.told > end:
                # The log ends before the cursor, because an operator restored an older state.
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
        self._store.write_cursor(self.name, msgspec.json.encode(cursor))

    async def turn(self) -> float:
        """Read new leaves, and send a message if one is due; return seconds to the next turn."""
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
                extra={"fields": {"receiver": self.name, "why": why, "retry_s": pause_s}},
            )
            return float(pause_s)
        self._failures = 0
        return 0.0 if len(self._waiting) >= MESSAGE_LEN_MAX else POLL_S

    async def _count(self) -> None:
        """Count the leaves to report among the leaves that are new since the last turn."""
        end = self._store.reader.status().leaf_count
        while self._counted_until < end:
            length = min(SLICE_LEN, end - self._counted_until)
            found, read = await asyncio.to_thread(self._counted, self._counted_until, length)
            if not read:
                # The log ends before the cursor, so there is nothing to count until it has grown.
                return
            self.untold_count += found
            self._counted_until += read

    def _counted(self, start: int, length: int) -> tuple[int, int]:
        """The number of leaves to report in a part of the log, and the number of leaves in it."""
        leaves = self._audit.leaves(start, length)
        return sum(self._telling.picks(one) is not None for one in leaves), len(leaves)

    async def _read(self) -> None:
        """Pick leaves to report after the last read position, at most one message's."""
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
        """Pick leaves until a message is full; return them, and how many leaves were read."""
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
            # The end of the message is on disk before the message is sent, so that exactly this
            # message is repeated after a crash.
            await self._move(Cursor(told=self._cursor.told, until=self._waiting[-1][0] + 1))
        until = self._cursor.until or 0
        message_id = self._message_id(until)
        await self._sink.deliver(message_id, self._telling.body(message_id, told))
        self._sent_ms = self._out.now_ms()
        await self._move(Cursor(told=until))
        self._waiting = []
        self.untold_count -= len(told)
        self._read_until = until

    async def _move(self, cursor: Cursor) -> None:
        await asyncio.to_thread(self._keep, cursor)
        self._cursor = cursor

    def _message_id(self, until: int) -> str:
        """The id of a message: a keyed hash of its position in the log, which stays hidden."""
        incarnation = self._store.reader.status().incarnation
        said = f"{self.name} {incarnation} {self._cursor.told} {until}".encode()
        key = self._store.prints_key[: hashlib.blake2b.MAX_KEY_SIZE]
        return "msg_" + hashlib.blake2b(said, key=key, digest_size=16).hexdigest()
