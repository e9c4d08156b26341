"""Forwards requests to routes that ask no model, and their answers, without refused texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

import msgspec

from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.model.model_exchange import EVENTS, Wire
from proxy.model.redactor import Redactor
from proxy.model.stored_replies import StoredReplyEditor
from proxy.model.upstream_model import TOTAL_S, UpstreamModel, events_of
from proxy.seams.faults import UpstreamError
from proxy.seams.operation import HttpReply
from proxy.transport.exchange import Pieces


async def passed(
    behind: UpstreamModel,
    wire: Wire,
    body: bytes,
    *,
    clearing: Redactor,
    clean: ReplyFilter,
    fetched: StoredReplyEditor,
) -> tuple[HttpReply, Pieces | None]:
    """The upstream's own answer to one request.

    `clean` filters an answer that is a stream of events; `fetched` edits any other.

    Raises:
        UpstreamError: There is no answer that can be forwarded.
        MalformedRequest: Request or answer contains something withheld, or cannot be searched.
    """
    sent = clearing.request(body, wire.headers.get("content-type", ""))
    async with AsyncExitStack() as stack:
        reply = await stack.enter_async_context(
            behind.send(wire.method, clearing.headers(wire.headers), sent or None, wire.target)
        )
        head = HttpReply(
            status=reply.status,
            content_type=clearing.kind_of(reply),
            headers=clearing.headers_of(reply),
        )
        if reply.content_type == EVENTS:
            due_s = asyncio.get_running_loop().time() + TOTAL_S
            pieces = _cleaned(behind.pieces(reply, due_s), clean)
            return head, _Passed(pieces, stack.pop_all())
        received = await fetched.edited(await behind.whole(reply))
        # The answer is searched once more, because a text may have been refused while the
        # answer was fetched.
        received = clearing.answer(received, reply.headers.get("content-type", ""))
        return msgspec.structs.replace(head, body=received), None
    raise UpstreamError("the server behind broke off its answer")


async def _cleaned(pieces: AsyncIterator[bytes], clean: ReplyFilter) -> AsyncGenerator[bytes]:
    """The bytes of a stream's events.

    Each event loses the texts that are withheld at the moment when the event arrives.
    """
    async for events in events_of(pieces):
        out = b"".join(made.raw for event in events for made in clean.feed(event))
        if out:
            yield out
    left = b"".join(event.raw for event in clean.end())
    if left:
        yield left


class _Passed:
    """The body of a streamed answer on a route that asks no model. See `Pieces`."""

    def __init__(self, pieces: AsyncGenerator[bytes], stack: AsyncExitStack) -> None:
        self._pieces = pieces
        self._stack = stack

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the stream as they come."""
        return self._pieces

    async def aclose(self) -> None:
        """Release the upstream."""
        await self._pieces.aclose()
        await self._stack.aclose()
