"""Sends a relay's requests to the gate, over its socket.

A lost answer is a `StorageError`. A request that would count twice is not repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

import aiohttp
import msgspec

from policy.model import CandidateId, Principal
from proxy.guard import wire
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import (
    ForwardStatus,
    GuardedCall,
    HostCall,
    ItemVerdict,
    PinnedTool,
    PinState,
    RefusedCall,
    RelayedText,
    UnsettledItem,
)
from proxy.seams.operation import DeleteWhere, GraphOperation, GraphResult, Operation, Result, Write
from proxy.seams.waits import ReleaseBell
from storage.ground.errors import (
    OutcomeUnknown,
    StorageError,
    StoreUnavailable,
    UnknownCandidate,
)

ANSWER_S: Final = 15.0
"""Seconds to wait for an answer: a little more than the writer takes at most."""
RETURN_S: Final = 0.5
KEPT_S: Final = 5.0
"""Seconds to keep an idle connection: fewer than the gate does, which might end it in use."""
_ORIGIN: Final = "http://localhost"
_SHORT_LEN_MAX: Final = wire.REQUEST_BYTES_MAX // 8
"""Characters that are few enough for one request, however they are escaped in JSON."""
_OK: Final = 200
_NOT_FOUND: Final = 404
_SERVER_FAULTS: Final = 500
# Requests that may be repeated, because the repetition changes nothing more.
_REPEATABLE: Final = frozenset({"settle", "sift", "saw", "pin", "decided"})

_T = TypeVar("_T")


class _GuardProblem(msgspec.Struct, frozen=True):
    detail: str = ""


_PROBLEM: Final = msgspec.json.Decoder(_GuardProblem)


class BringsUp(Protocol):
    """Returns as soon as a process serves the gate; `again` if one was reached before."""

    async def __call__(self, *, again: bool) -> None:
        """Raises `StoreUnavailable` if no process serves the gate."""
        ...


class GuardClient:
    """Asks the gate on behalf of one relay process (`proxy.seams.guard.Guard`).

    Used in an `async with`, event loop only. No `principal` is sent: the gate knows the peer's uid.
    """

    def __init__(
        self,
        socket: Path,
        *,
        answer_s: float = ANSWER_S,
        bring_up: BringsUp | None = None,
    ) -> None:
        """`bring_up` makes a gate serve where none does; without it a moment is waited for one."""
        self._socket = socket
        self._bring_up = bring_up or _waited
        self._had_gate = False
        self._timeout = aiohttp.ClientTimeout(total=answer_s)
        self._relay = secrets.token_hex(16)
        self._session: aiohttp.ClientSession | None = None
        self._staying: asyncio.TaskGroup | None = None
        self._leave: asyncio.Task[None] | None = None
        # Maps each server to its tools. They are sent again to each new gate, which has to know the
        # servers of this relay.
        self._pinned: dict[str, wire.ToolList] = {}
        self.releases = ReleaseBell()

    async def __aenter__(self) -> Self:
        """Open the connection pool, and stay connected to the gate until the end."""
        self._session = aiohttp.ClientSession(
            # When the gate is replaced, connections to the old one are dead, and the pool drops
            # them.
            connector=aiohttp.UnixConnector(path=str(self._socket), keepalive_timeout=KEPT_S),
            headers={wire.RELAY_HEADER: self._relay},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._staying = asyncio.TaskGroup()
        await self._staying.__aenter__()
        self._leave = self._staying.create_task(self._stay())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give up the connection to the gate, and close the connection pool."""
        # An exception of the block is not passed to the task group, whose only task is cancelled
        # here.
        del kind, error, trace
        try:
            if self._leave is not None and self._staying is not None:
                self._leave.cancel()
                await self._staying.__aexit__(None, None, None)
        finally:
            if self._session is not None:
                await self._session.close()

    # ---- methods of the guard --------------------------------------------------------------------

    async def judge(self, principal: Principal, call: GuardedCall) -> tuple[ItemVerdict, ...]:
        """Judge each item; return the verdicts in order.

        Raises:
            MalformedRequest: An item cannot be a candidate; no item was staged.
            StoreUnavailable: The gate was not reached, or could judge no item.
            OutcomeUnknown: The gate was reached, but no answer arrived; send nothing.
        """
        del principal
        judged: list[ItemVerdict] = []
        for items in _divided(call.items):
            part = msgspec.structs.replace(call, items=items)
            answer = await self._ask("judge", part, wire.JUDGED)
            judged += answer
        if len(judged) != len(call.items):
            raise OutcomeUnknown("the gate answered for other items than were asked")
        return tuple(judged)

    async def settle(
        self,
        principal: Principal,
        server: str,
        settled: tuple[tuple[CandidateId, ForwardStatus], ...],
    ) -> None:
        """Record the outcomes of sent items.

        Raises:
            StorageError: The outcomes may not be recorded; recording them again is harmless.
        """
        del principal
        body = wire.Settlement(
            server=server, settled=tuple((str(one), how) for one, how in settled)
        )
        await self._ask("settle", body, None)

    async def sift(
        self,
        principal: Principal,
        server: str,
        strings: tuple[str, ...],
        seen: RelayedText | None = None,
    ) -> tuple[bool, ...]:
        """For each string of a server's answer: True if it must not reach the agent.

        Where that is none, `seen` is recorded as a text in the agent's context.

        Raises:
            StorageError: The answer is unknown; withhold all of it.
        """
        sifted: list[bool] = []
        texts = (*strings, *(() if seen is None else seen.texts))
        # An answer that is short enough is one request, so that it costs one way to the gate.
        alone = seen if sum(map(len, texts)) <= _SHORT_LEN_MAX else None
        for part in (strings,) if alone is not None else _divided(strings):
            body = wire.Strings(server=server, strings=part, seen=alone)
            answer = await self._ask("sift", body, wire.SIFTED)
            sifted += answer
        if len(sifted) != len(strings):
            raise StoreUnavailable("the gate answered for other strings than were asked")
        if seen is not alone and seen is not None and seen.texts and not any(sifted):
            with contextlib.suppress(StorageError, MalformedRequest):
                await self.saw(principal, seen)
        return tuple(sifted)

    async def refused(self, principal: Principal, call: RefusedCall) -> None:
        """Record a call that was refused unjudged.

        Raises:
            StorageError: The call is not recorded.
        """
        del principal
        await self._ask("refused", call, None)

    async def saw(self, principal: Principal, segment: RelayedText) -> None:
        """Note a text that entered the agent's context.

        Raises:
            StorageError: The text is not noted.
        """
        del principal
        for texts in _divided(segment.texts):
            await self._ask("saw", msgspec.structs.replace(segment, texts=texts), None)

    async def pin(
        self, principal: Principal, server: str, tools: tuple[PinnedTool, ...]
    ) -> PinState:
        """Compare a server's tools with the approved ones; return whether, and which, differ.

        Raises:
            MalformedRequest: Two tools share a name.
            StorageError: The answer is unknown; refuse its tools.
        """
        del principal
        body = self._pinned[server] = wire.ToolList(server=server, tools=tools)
        return await self._ask("pin", body, wire.PIN_STATE)

    async def unsettled(self, principal: Principal, server: str) -> tuple[UnsettledItem, ...]:
        """Admitted items that this relay has to send, or whose outcome it has to look up.

        Raises:
            StorageError: The answer is unknown. Items that a lost answer named are looked up later.
        """
        del principal
        return await self._ask("unsettled", wire.ServerName(server=server), wire.UNSETTLED)

    async def decided(self, principal: Principal, candidate_id: CandidateId) -> ItemVerdict:
        """The decision on a held candidate so far.

        Raises:
            UnknownCandidate: No candidate of that id is this tenant's.
            StorageError: The answer is unknown.
        """
        del principal
        body = wire.OneCandidate(candidate_id=candidate_id)
        return await self._ask("decided", body, wire.ONE_JUDGED)

    async def perform(
        self, operation: Operation | GraphOperation, traceparent: str | None = None
    ) -> Result | GraphResult:
        """Carry out one operation on the gate's own store; return its result.

        Raises:
            MalformedRequest: The operation cannot be carried out as asked.
            StorageError: The store did not answer; if `OutcomeUnknown`, a write may be committed.
        """
        body = wire.Performance(operation=operation, traceparent=traceparent)
        reads = not isinstance(operation, Write | DeleteWhere)
        return await self._ask("perform", body, wire.RESULT, repeatable=reads)

    async def hooked(self, call: HostCall) -> str | None:
        """Judge a call that a host is about to make; return why the host may not make it, or None.

        Raises:
            MalformedRequest: The call is out of bounds.
            StorageError: The gate did not answer; the host may not make the call.
        """
        return (await self._ask("hooked", call, wire.HOST_ANSWER)).refused

    # ---- how a request reaches the gate ----------------------------------------------------------

    async def _ask(
        self,
        name: str,
        body: msgspec.Struct,
        decoder: msgspec.json.Decoder[_T] | None,
        *,
        repeatable: bool = False,
    ) -> _T:
        data = wire.ENCODER.encode(body)
        try:
            status, answer = await self._exchange(name, data)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            unreceived = isinstance(error, aiohttp.ClientConnectorError)
            if not (unreceived or repeatable or name in _REPEATABLE):
                raise OutcomeUnknown("the gate went away before it answered") from None
            await self._bring_up(again=self._had_gate)
            status, answer = await self._last_try(name, data)
        if status != _OK:
            raise _failure(status, answer)
        if decoder is None:
            return None  # type: ignore[return-value]
        try:
            return decoder.decode(answer)
        except (msgspec.MsgspecError, UnicodeError):
            raise OutcomeUnknown("the gate's answer cannot be read: another version?") from None

    async def _last_try(self, name: str, data: bytes) -> tuple[int, bytes]:
        try:
            return await self._exchange(name, data)
        except aiohttp.ClientConnectorError:
            raise StoreUnavailable("nobody answers at the gate's socket") from None
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise OutcomeUnknown("the gate went away before it answered") from None

    async def _exchange(self, name: str, data: bytes) -> tuple[int, bytes]:
        if self._session is None:
            raise StoreUnavailable("the client is not open")
        async with self._session.post(
            f"{_ORIGIN}{wire.API}/{name}",
            data=io.BytesIO(data),
            timeout=self._timeout,
            allow_redirects=False,
        ) as response:
            return response.status, await response.read()

    async def _stay(self) -> None:
        """Hold a connection to the gate open, so that the gate notices when this relay ends."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                await self._attend()
            await asyncio.sleep(RETURN_S)
            with contextlib.suppress(StoreUnavailable):
                await self._bring_up(again=self._had_gate)

    async def _attend(self) -> None:
        if self._session is None:
            return
        forever = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total)
        async with self._session.get(f"{_ORIGIN}{wire.API}/presence", timeout=forever) as response:
            self._had_gate = True
            for body in tuple(self._pinned.values()):
                await self._exchange("pin", wire.ENCODER.encode(body))
            async for _ in response.content.iter_any():
                self.releases.announce()


async def _waited(*, again: bool) -> None:
    """Wait a moment for a gate that is being replaced."""
    del again
    await asyncio.sleep(RETURN_S)


def _divided(parts: tuple[_T, ...]) -> Iterator[tuple[_T, ...]]:
    """Divide parts into groups, each small enough for one request.

    A part that is too long by itself has a group of its own.
    """
    group: list[_T] = []
    size = 0
    for part in parts:
        length = len(wire.ENCODER.encode(part)) + 1
        if group and size + length > wire.REQUEST_BYTES_MAX:
            yield tuple(group)
            group, size = [], 0
        group.append(part)
        size += length
    if group:
        yield tuple(group)


def _failure(status: int, answer: bytes) -> Exception:
    """The exception for a refused request; its text is one of the gate's fixed texts."""
    try:
        detail = _PROBLEM.decode(answer).detail
    except (msgspec.MsgspecError, UnicodeError):
        detail = ""
    if status == _NOT_FOUND:
        return UnknownCandidate("no candidate of that id")
    if status < _SERVER_FAULTS:
        return MalformedRequest(detail or "the gate refused the request", status=status)
    if detail.startswith(wire.UNKNOWN_OUTCOME):
        return OutcomeUnknown(detail)
    return StoreUnavailable(detail or "the gate could not answer")
