"""Sends requests to one model API upstream, within deadlines and limits on the answer's size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from proxy.dialects.sse import BrokenStream, Event, RawReader
from proxy.seams.environment import Serving
from proxy.seams.faults import UpstreamError
from proxy.settings.model import ModelUpstream
from proxy.transport.upstream import Upstream, UpstreamLimits, UpstreamReply

# These headers of a model API's answer are not copied, because the sidecar sets its own.
_OURS: Final = frozenset(
    {
        *("cache-control", "content-type", "date", "server", "traceparent"),
        *("x-content-type-options", "mnemogate-trace-id", "mnemogate-caller"),
        *("mnemogate-healed", "mnemogate-not-healed"),
    }
)


TOTAL_S: Final = 3_600.0
"""Seconds for a whole answer, including further requests to the model for the same answer."""
REPLY_BYTES_MAX: Final = 64 * 1024**2
"""The largest answer in bytes, compressed as well as decompressed."""


class UpstreamModel(Upstream):
    """One configured model API, while its connection pool is open. Event loop only."""

    def __init__(self, settings: ModelUpstream, serving: Serving | None = None) -> None:
        limits = UpstreamLimits(
            head_seconds=settings.answer_seconds,
            body_seconds=TOTAL_S,
            body_bytes_max=REPLY_BYTES_MAX,
        )
        super().__init__(settings.url, limits=limits, way=settings, serving=serving)
        self.settings = settings

    async def pieces(self, reply: UpstreamReply, due_s: float) -> AsyncGenerator[bytes]:
        """The pieces of a stream, until `due_s` on the loop's clock at the latest.

        Raises:
            UpstreamError: The stream is silent for too long, lasts too long, or is too large.
        """
        loop = asyncio.get_running_loop()
        left = REPLY_BYTES_MAX
        coming = reply.pieces
        while True:
            patience_s = min(due_s, loop.time() + self.settings.answer_seconds)
            try:
                async with asyncio.timeout_at(patience_s):
                    piece = await anext(coming)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise UpstreamError("the server behind did not finish its answer") from None
            left -= len(piece)
            if left < 0:
                raise UpstreamError("the answer of the server behind is too large")
            yield piece


def shown_headers(reply: UpstreamReply) -> tuple[tuple[str, str], ...]:
    """The upstream's headers that the agent gets, such as request ids, limits and retry times."""
    return tuple((name, value) for name, value in reply.headers.items() if name not in _OURS)


async def events_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[list[Event]]:
    """The events of a stream, each as soon as it is complete.

    Raises:
        UpstreamError: An event is larger than any API sends.
    """
    reader = RawReader()
    async for piece in pieces:
        try:
            yield reader.feed(piece)
        except BrokenStream:
            raise UpstreamError("the answer of the server behind is too large") from None
    yield reader.last()
