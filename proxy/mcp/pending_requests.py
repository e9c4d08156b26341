"""The unanswered requests of one connection, and the queue of messages to handle."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Final

import msgspec

from policy.model import CandidateId
from proxy.dialects.mcp.maps import Tool
from proxy.dialects.mcp.message import LIST, Era, Message, Object, RequestId
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.guard import Item, Join

PENDING_MAX: Final = 4_096
_NAME_LEN: Final = 256


class RequestStage(enum.Enum):
    """The stage that an unanswered request has reached."""

    QUEUED = "queued"  # the request is queued, or waits for its verdict, or for a person
    SENT = "sent"  # the request was sent to the other side


class PendingRequest:
    """One unanswered request, with what is needed to read its answer. Event loop only."""

    def __init__(self, message: Message, via: object) -> None:
        if message.request_id is None or message.method is None:
            raise ValueError("only requests wait for an answer")
        self.request_id: RequestId = message.request_id
        self.method: str = message.method
        self.era: Era = message.era
        self.via = via
        self.params: Object = message.params if message.method == LIST else {}
        # For a tool list: the `_meta` of the relay's own requests for the further pages.
        self.meta: Object = {}
        # Whether the request uses an unknown protocol version, so that its answer is read strictly.
        self.strict = message.is_of_unknown_version
        self.stage = RequestStage.QUEUED
        # Set when the client cancelled the request. Its answer still settles items, but is not
        # forwarded.
        self.cancelled = asyncio.Event()
        # For the relay's own request: gets the answer, which is not forwarded.
        self.own: asyncio.Future[Message] | None = None
        # The admitted items in the request, which its answer settles: their ids, and the items.
        self.admitted: tuple[CandidateId, ...] = ()
        self.items: tuple[Item, ...] = ()
        # Observations on refused items, which the relay adds to the server's answer.
        self.note: tuple[str, ...] = ()
        self.item_count = 1
        # Set once the request is in no table: it is answered, or its answer is lost.
        self.over = asyncio.Event()
        # For a tool call: the tool's name and its entry in the tool map, and other ids of the call.
        self.tool = ""
        self.rule: Tool | None = None
        self.join = Join()


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the inbox; if it is a request, with its entry in the request table."""

    message: Message
    via: object
    # True if the message may be a repetition, because the client resumed a stream.
    again: bool = False
    pending: PendingRequest | None = None


class RequestTable:
    """The unanswered requests of one side, keyed by id; the ids 1 and "1" differ."""

    def __init__(self) -> None:
        self._pending: dict[RequestId, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def find(self, request_id: RequestId | None) -> PendingRequest | None:
        """The unanswered request with this id; None if there is none."""
        return None if request_id is None else self._pending.get(request_id)

    def add(self, pending: PendingRequest) -> bool:
        """Add a request; False if its id is taken, or there is no room."""
        if len(self._pending) >= PENDING_MAX:
            self._forget_cancelled()
        if pending.request_id in self._pending or len(self._pending) >= PENDING_MAX:
            return False
        self._pending[pending.request_id] = pending
        return True

    def take(self, pending: PendingRequest) -> bool:
        """Remove a request, whose id may then be used again; False if it was not in the table."""
        if self._pending.get(pending.request_id) is not pending:
            return False
        del self._pending[pending.request_id]
        pending.over.set()
        return True

    def _forget_cancelled(self) -> None:
        """Drop cancelled requests, which are mostly never answered and would fill the table."""
        for pending in self.all():
            if pending.cancelled.is_set() and pending.own is None and not pending.admitted:
                del self._pending[pending.request_id]

    def all(self) -> tuple[PendingRequest, ...]:
        """Every unanswered request, oldest first."""
        return tuple(self._pending.values())


def join_of(meta: Object) -> Join:
    """The ids (of Claude Code and Codex) by which a model front recognises the same call."""
    turn = meta.get("x-codex-turn-metadata")
    codex: Object = turn if isinstance(turn, dict) else {}
    return Join(
        tool_use_id=short(meta.get("claudecode/toolUseId")),
        call_id=short(meta.get("callId")),
        session_id=short(codex.get("session_id")) or short(meta.get("sessionId")),
        thread_id=short(codex.get("thread_id")) or short(meta.get("threadId")),
        turn_id=short(codex.get("turn_id")),
    )


def short(value: JsonValue, length_max: int = _NAME_LEN) -> str | None:
    """The value if it is a text of 1 to `length_max` characters; else None."""
    return value if isinstance(value, str) and 0 < len(value) <= length_max else None


INBOX_LEN_MAX: Final = 64
INBOX_BYTES_MAX: Final = 32 * 1024 * 1024


class Inbox:
    """A bounded queue of messages: one reader, and any number of writers, which may have to wait.

    A message is accepted while fewer than `len_max` messages wait, with fewer than `bytes_max`
    bytes, so an empty queue accepts a message of any length.
    """

    def __init__(self, len_max: int = INBOX_LEN_MAX, bytes_max: int = INBOX_BYTES_MAX) -> None:
        self._len_max = len_max
        self._bytes_max = bytes_max
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        # Writers that wait, in order: a new one may not overtake them.
        self._entering = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._entered = 0
        self._dealt_with = 0
        self._progress = asyncio.Condition()

    @property
    def busy(self) -> bool:
        """Whether the reader has not yet handled every queued message."""
        return self._dealt_with < self._entered

    async def put(self, arrival: Arrival) -> None:
        """Wait for room, then queue. A closed inbox accepts nothing."""
        async with self._entering:
            await self._room.wait()
            if self._closed:
                return
            self._waiting.append(arrival)
            self._entered += 1
            self._bytes += len(arrival.message.raw)
            self._measure()
            self._arrived.set()

    async def take(self) -> Arrival | None:
        """The next message; None once the inbox is closed and empty."""
        while not self._waiting:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        arrival = self._waiting.popleft()
        self._bytes -= len(arrival.message.raw)
        self._measure()
        return arrival

    async def dealt_with(self) -> None:
        """Note that the reader has handled the last message that it took."""
        async with self._progress:
            self._dealt_with += 1
            self._progress.notify_all()

    async def flushed(self) -> None:
        """Wait until the reader has handled every message that is queued now."""
        entered = self._entered
        async with self._progress:
            await self._progress.wait_for(lambda: self._dealt_with >= entered)

    def close(self) -> None:
        """Accept nothing more. Queued messages can still be taken."""
        self._closed = True
        self._arrived.set()
        self._room.set()

    def _measure(self) -> None:
        if self._closed or (len(self._waiting) < self._len_max and self._bytes < self._bytes_max):
            self._room.set()
        else:
            self._room.clear()
