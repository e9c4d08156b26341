"""The memory server of store mode, on the gate's own store, for one connection.

Tool calls run one after the other, in the order of their arrival; requests that need no store are
answered at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

from proxy.dialects.mcp.message import (
    CALL,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Era,
    Message,
    MessageKind,
    NotRelayed,
    Object,
    RequestId,
    error_answer,
    made,
    parse,
    result_answer,
)
from proxy.dialects.mcp.results import refused
from proxy.dialects.mcp.store.plans import GRAPH_URI
from proxy.dialects.mcp.store.protocol import RpcError, StoreProtocol, Subscription
from proxy.dialects.mcp.store.steps import Plan
from proxy.mcp.connection import Counts, Deliver, RelayLimits, Side
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import GraphOperation, GraphResult, Operation, Result, Write, WriteResult
from storage.ground.errors import OutcomeUnknown, StorageError

_LOG: Final = logging.getLogger("mnemogate.mcp")
WAITING_MAX: Final = 256
_UPDATED: Final = "notifications/resources/updated"
NOT_NOW: Final = "The memory cannot be reached now. Nothing was stored; try again later."
NOT_KNOWN: Final = (
    "The memory gave no answer. Whether this was stored is not known: read before you try again."
)


Performs: TypeAlias = Callable[
    [Operation | GraphOperation, str | None], Awaitable[Result | GraphResult]
]
"""Carries out an operation on the gate's own store, for a traceparent; returns its result.

It raises `MalformedRequest` and `StorageError`.
"""


class StoreServer:
    """Serves one connection while its context is open. Event loop only.

    It has the same methods for messages as `Relay`, so that a transport can use either.
    """

    def __init__(
        self, protocol: StoreProtocol, perform: Performs, deliver: Deliver, limits: RelayLimits
    ) -> None:
        self._protocol = protocol
        self._perform = perform
        self._deliver = deliver
        self._limits = limits
        self.counts = Counts()
        self._waiting: asyncio.Queue[tuple[Message, object] | None] = asyncio.Queue(WAITING_MAX)
        self._open: set[RequestId] = set()
        self._taken_back: set[RequestId] = set()
        self._subscribed = False
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        """Start to serve."""
        await self._tasks.__aenter__()
        self._tasks.create_task(self._work())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the calls that were accepted."""
        await self._waiting.put(None)
        await self._tasks.__aexit__(kind, error, trace)

    async def from_client(self, raw: bytes, via: object = None) -> None:
        """Handle one message that the client sent; return when it is answered or queued."""
        try:
            message = parse(raw, bytes_max=self._limits.message_bytes_max)
        except NotRelayed as refusal:
            await self._fail(refusal.request_id, refusal.code, refusal.detail, via)
            return
        if message.kind is not MessageKind.REQUEST or message.request_id is None:
            taken_back = message.cancels
            if taken_back is not None and taken_back in self._open:
                self._taken_back.add(taken_back)
            return
        if message.request_id in self._open:
            await self._fail(None, INVALID_REQUEST, "this id is in use", via)
            return
        await self._serve(message, via)

    async def refused(
        self, side: Side, request_id: RequestId | None, detail: str, via: object = None
    ) -> None:
        """Answer with an error for a client's message that the transport dropped."""
        if side is Side.CLIENT:
            await self._fail(request_id, INVALID_REQUEST, detail, via)

    async def flushed(self, side: Side) -> None:
        """Wait until everything accepted so far is answered."""
        if side is Side.CLIENT:
            await self._waiting.join()

    # ---- making answers to requests --------------------------------------------------------------

    async def _serve(self, message: Message, via: object) -> None:
        try:
            answer = self._protocol.answer(message)
        except MalformedRequest as malformed:
            await self._failed(message, INVALID_PARAMS, malformed.detail, via)
            return
        match answer:
            case RpcError():
                await self._problem(message, answer, via)
            case Subscription():
                self._subscribed = answer.wanted
                await self._result(message, {}, via)
            case dict():
                await self._result(message, answer, via)
            case _:
                # The plan is closed without being run, and made again when the call's turn comes,
                # because earlier calls may change the store until then.
                answer.close()
                if message.request_id is not None:
                    self._open.add(message.request_id)
                await self._waiting.put((message, via))

    async def _work(self) -> None:
        """Run one call after the other, so that each call reads what earlier calls wrote."""
        while (taken := await self._waiting.get()) is not None:
            message, via = taken
            try:
                await self._carry_out(message, via)
            finally:
                if message.request_id is not None:
                    self._open.discard(message.request_id)
                    self._taken_back.discard(message.request_id)
                self._waiting.task_done()
        self._waiting.task_done()

    async def _carry_out(self, message: Message, via: object) -> None:
        if message.request_id in self._taken_back:
            self.counts.late += 1
            return
        changed = False
        try:
            answer = self._protocol.answer(message)
            if isinstance(answer, dict | RpcError | Subscription):
                return
            result, changed = await self._run(answer, message)
        except MalformedRequest as malformed:
            await self._failed(message, INVALID_PARAMS, malformed.detail, via)
        except StorageError as error:
            _LOG.warning("no answer from the store", extra={"error_type": type(error).__name__})
            said = NOT_KNOWN if isinstance(error, OutcomeUnknown) else NOT_NOW
            await self._failed(message, INTERNAL_ERROR, said, via)
        else:
            await self._result(message, result, via)
        if changed and self._subscribed:
            await self._tell_updated()

    async def _run(self, plan: Plan, message: Message) -> tuple[Object, bool]:
        """Run a call's plan; return its tool result, and whether the call changed the store."""
        traceparent = message.meta.get("traceparent")
        trace = traceparent if isinstance(traceparent, str) else None
        changed = False
        try:
            operation = next(plan)
            while True:
                result = await self._perform(operation, trace)
                if isinstance(operation, Write) and isinstance(result, WriteResult):
                    changed |= any(item.decision == "admit" for item in result.items)
                operation = plan.send(result)
        except StopIteration as done:
            shown: Object = done.value
            return shown, changed

    async def _failed(self, message: Message, code: int, text: str, via: object) -> None:
        if message.method == CALL:
            # A failed call is answered with a tool error, which the model sees and can correct.
            # Hosts take a protocol error for a fault of the server.
            await self._result(message, refused([text], stateless=False), via)
        else:
            await self._fail(message.request_id, code, text, via)

    async def _problem(self, message: Message, problem: RpcError, via: object) -> None:
        error: Object = {"code": problem.code, "message": problem.text}
        if problem.data is not None:
            error["data"] = {name: [*values] for name, values in problem.data.items()}
        body: Object = {"jsonrpc": "2.0", "id": message.request_id, "error": error}
        await self._send(made(body, message.era), via)

    async def _result(self, message: Message, result: Object, via: object) -> None:
        if message.request_id is None or message.request_id in self._taken_back:
            self.counts.late += 1
            return
        finished = self._protocol.finished(message, result)
        await self._send(result_answer(message.request_id, finished, message.era), via)

    async def _fail(self, request_id: RequestId | None, code: int, text: str, via: object) -> None:
        self.counts.refused += 1
        await self._send(error_answer(request_id, code, text), via)

    async def _tell_updated(self) -> None:
        body: Object = {"jsonrpc": "2.0", "method": _UPDATED, "params": {"uri": GRAPH_URI}}
        await self._send(made(body, Era.HANDSHAKE), None)

    async def _send(self, message: Message, via: object) -> None:
        await self._deliver(Side.CLIENT, message.raw, message, via)
