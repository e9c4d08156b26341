"""Answers a relay in the gate's own process as at the gate's socket, but without the socket.

The bytes are those that would cross the socket, and the same front reads them, with this process
as the peer. So principal, limits and refusals are the same on both ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from policy.model import Principal
from proxy.guard import wire
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import EncodingContext, HttpRequest
from proxy.transport.auth import Peer
from proxy.transport.exchange import AnswerDeadline, AnsweredReply, Departure, Front, RequestHead
from proxy.transport.responses import AnswerFailure, attempt
from telemetry.events import RequestServed


class Direct:
    """Answers requests of a relay in this process while `serving`.

    Event loop only; any number of requests at once.

    The number of requests needs no limit: the relay makes one request at a time for its client,
    and one at a time for its server.
    """

    def __init__(
        self,
        front: Front,
        peer: Peer,
        *,
        surroundings: Environment,
        halt: Callable[[], None],
        body_bytes_max: int,
        drain_s: float,
    ) -> None:
        """`peer` describes this process, as the kernel would at the socket."""
        self._front = front
        self._peer = peer
        self._out = surroundings
        self._halt = halt
        self._body_bytes_max = body_bytes_max
        self._drain_s = drain_s
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[AnsweredReply | AnswerFailure]] = set()

    @property
    def serves(self) -> bool:
        """Whether requests are answered now."""
        return self._tasks is not None

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answer requests while the context is open.

        At its end, running requests may finish within the drain time.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                if self._running:
                    await asyncio.wait(self._running, timeout=self._drain_s)
                for task in self._running:
                    task.cancel()

    async def ask(self, name: str, body: bytes, relay: str) -> tuple[int, bytes]:
        """Answer one request of a relay; return the status and body of the answer.

        If the caller is cancelled, the relay counts as gone: items admitted for it are not sent.

        Raises:
            ConnectionError: The gate ended before it answered, or no longer serves.
        """
        if self._tasks is None:
            raise ConnectionRefusedError
        departure = Departure()
        # The request gets a task of its own, as at the socket, so that a verdict is completed even
        # if the relay is cancelled.
        asked = self._tasks.create_task(
            attempt(self._answered(name, body, relay, departure), self._halt)
        )
        self._running.add(asked)
        asked.add_done_callback(self._running.discard)
        try:
            await asyncio.wait((asked,))
        except asyncio.CancelledError:
            departure.happen()
            raise
        answered = None if asked.cancelled() else asked.result()
        if answered is None or isinstance(answered, AnswerFailure):
            raise ConnectionResetError
        return answered.reply.status, answered.reply.body

    async def _answered(
        self, name: str, body: bytes, relay: str, departure: Departure
    ) -> AnsweredReply:
        started_ns = self._out.clock_ns()
        trace = self._out.traces.accept([])

        async def read(bytes_max: int) -> bytes:
            if len(body) > bytes_max:
                raise MalformedRequest("body: too large", status=413)
            return body

        with AnswerDeadline(departure) as welcome:
            answered = await self._front.answer(
                RequestHead(
                    head=HttpRequest(
                        method="POST",
                        path=f"{wire.API}/{name}",
                        headers={wire.RELAY_HEADER.lower(): relay},
                    ),
                    peer=self._peer,
                    trace=trace,
                    answering=EncodingContext(
                        trace_id=trace.trace_id,
                        now_ms=started_ns // 1_000_000,
                        request_id=self._out.random_hex(16),
                    ),
                    read_up_to=read,
                    body_bytes_max=self._body_bytes_max,
                    welcome=welcome,
                    enter=_alone,
                )
            )
        self._out.record(
            RequestServed(
                context=trace,
                listener=self._front.name,
                method="POST",
                route=answered.route,
                status=answered.reply.status,
                started_ns=started_ns,
                ended_ns=self._out.clock_ns(),
                principal=answered.principal,
                error_type=answered.error_type,
            )
        )
        return answered


def _alone(_principal: Principal) -> None:
    """Do nothing: the hook counts the connections of a principal at a socket.

    The relay in this process uses no connection.
    """
