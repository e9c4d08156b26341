"""Routes that ask no model: sent on as they came, without what was refused."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.dialects.model.body import read_body, write_body
from proxy.dialects.operation import HttpReply, MalformedRequest
from proxy.model.sending import shown_headers
from proxy.model.turn import EVENTS
from proxy.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from policy.model import Principal
    from proxy.exchange import Pieces
    from proxy.model.coupling import Coupling
    from proxy.model.sending import Behind
    from proxy.model.turn import Wire

_JSON: Final = "application/json"


class Passing:
    """Sends one request on, and its answer back."""

    def __init__(self, coupling: Coupling) -> None:
        self._coupling = coupling

    async def answer(
        self, behind: Behind, wire: Wire, principal: Principal, body: bytes
    ) -> tuple[HttpReply, Pieces | None]:
        """The upstream's own answer.

        Raises:
            UpstreamError: There is none that can be passed on.
        """
        kind = wire.headers.get("content-type", "").partition(";")[0].strip().lower()
        sent = self._sieved(principal, body) if kind == _JSON else body
        async with AsyncExitStack() as stack:
            reply = await stack.enter_async_context(
                behind.send(wire.method, wire.target, wire.headers, sent)
            )
            head = HttpReply(
                status=reply.status,
                content_type=reply.headers.get("content-type", "application/octet-stream"),
                headers=shown_headers(reply),
            )
            if reply.content_type == EVENTS:
                due_s = asyncio.get_running_loop().time() + behind.settings.total_seconds
                return head, _Passed(behind.pieces(reply, due_s), stack.pop_all())
            received = await behind.whole(reply)
            if reply.content_type == _JSON:
                received = self._sieved(principal, received)
            return msgspec.structs.replace(head, body=received), None
        raise UpstreamError("the server behind broke off its answer")

    def _sieved(self, principal: Principal, raw: bytes) -> bytes:
        """A JSON object without what was refused; what is none goes on as it is."""
        try:
            body = read_body(raw)
        except MalformedRequest:
            return raw
        sieved = self._coupling.sieved(principal, body)
        return raw if sieved == body or not isinstance(sieved, dict) else write_body(sieved)


class _Passed:
    """A stream of a route that asks no model. See `Pieces`."""

    def __init__(self, pieces: AsyncIterator[bytes], stack: AsyncExitStack) -> None:
        self._pieces = pieces
        self._stack = stack

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces as they come."""
        return self._pieces

    async def aclose(self) -> None:
        """Let go of the upstream."""
        await self._stack.aclose()
