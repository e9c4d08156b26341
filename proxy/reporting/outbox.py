"""What a receiver has to be told of, read off the audit log: at least once, and in its order.

The log is the queue. Kept beside it is only how far the receiver was told, and up to which leaf the
message goes that is on its way: after a crash the same message is sent again, under the same id.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from proxy.seams.faults import UpstreamError
from storage.errors import StorageError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from proxy.seams.surroundings import Surroundings
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
# Leaves that a start would read again for nothing before the cursor is moved past them.
_IDLE_LEN: Final = 10_000


class Sink(Protocol):
    """A receiver of messages."""

    async def deliver(self, message_id: str, body: bytes) -> None:
        """Return when the receiver has taken it.

        Raises:
            UpstreamError: It has not, or nobody knows.
        """
        ...


class Cursor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leaves below `told` are done with. `until`: those of the message on its way end there."""

    told: int
    until: int | None = None


class Telling(msgspec.Struct, Generic[Told], frozen=True, kw_only=True):
    """Which leaves a receiver is told of, and in which words. `name` is that of the cursor."""

    name: str
    picks: Callable[[bytes], Told | None]
    # An id, and what was picked: at least one, at most `MESSAGE_LEN_MAX`.
    body: Callable[[str, tuple[Told, ...]], bytes]


class Outbox(Generic[Told]):
    """Follows the log for one receiver. Event loop only; the log is read in threads."""

    def __init__(
        self,
        store: Store,
        telling: Telling[Told],
        sink: Sink,
        surroundings: Surroundings,
    ) -> None:
        """Blocks: reads the cursor, or begins one behind the last leaf there is.

        Raises:
            StoreUnavailable: The cursor is damaged, or cannot be read or written.
        """
        self._store = store
        self._audit: AuditReader = store.audit
        self._telling = telling
        self._sink = sink
        self._out = surroundings
        self._cursor = self._opened()
        # Picked and not told, with the index of each; read up to there.
        self._waiting: list[tuple[int, Told]] = []
        self._read_until = self._cursor.told
        self._sent_ms = 0
        self._failures = 0

    @property
    def waiting(self) -> Told | None:
        """The first hold that the receiver was not told of, as far as the log was read."""
        return self._waiting[0][1] if self._waiting else None

    def _opened(self) -> Cursor:
        name = self._telling.name
        try:
            kept = self._store.read_cursor(name)
            end = self._store.reader.status().leaf_count
            cursor = Cursor(told=end) if kept is None else msgspec.json.decode(kept, type=Cursor)
            if cursor.told > end:
                # An older state of the log, which somebody put back on purpose.
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

    @asynccontextmanager
    async def following(self) -> AsyncGenerator[None]:
        """Tell the receiver for as long as the block runs."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._for_ever())
            try:
                yield
            finally:
                task.cancel()

    async def _for_ever(self) -> None:
        while True:
            await self._out.wait(await self.turn())

    async def turn(self) -> float:
        """Read what is new, and send what is due; seconds until the next turn."""
        try:
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

    async def _read(self) -> None:
        """Pick from the leaves since the last look, as many as a message takes."""
        end = self._store.reader.status().leaf_count
        if self._cursor.until is not None:
            end = self._cursor.until
        while self._read_until < end and len(self._waiting) < MESSAGE_LEN_MAX:
            length = min(SLICE_LEN, end - self._read_until)
            picked, read = await asyncio.to_thread(self._pick, self._read_until, length)
            if not read:
                return  # the log ends before it should: nothing is told until it goes on
            self._waiting += picked
            self._read_until += read
        if not self._waiting and self._read_until - self._cursor.told > _IDLE_LEN:
            await self._move(Cursor(told=self._read_until))

    def _pick(self, start: int, length: int) -> tuple[list[tuple[int, Told]], int]:
        """What of these leaves is told of, up to a full message, and how many were read."""
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
            # Durable before anybody can have seen it: the message of a crash is sent again whole.
            await self._move(Cursor(told=self._cursor.told, until=self._waiting[-1][0] + 1))
        until = self._cursor.until or 0
        message_id = self._message_id(until)
        await self._sink.deliver(message_id, self._telling.body(message_id, told))
        self._sent_ms = self._out.now_ms()
        await self._move(Cursor(told=until))
        self._waiting = []
        self._read_until = until

    async def _move(self, cursor: Cursor) -> None:
        await asyncio.to_thread(self._keep, cursor)
        self._cursor = cursor

    def _message_id(self, until: int) -> str:
        """Of the place in the log, which nobody else can read off it."""
        incarnation = self._store.reader.status().incarnation
        said = f"{self._telling.name} {incarnation} {self._cursor.told} {until}".encode()
        key = self._store.prints_key[: hashlib.blake2b.MAX_KEY_SIZE]
        return "msg_" + hashlib.blake2b(said, key=key, digest_size=16).hexdigest()
