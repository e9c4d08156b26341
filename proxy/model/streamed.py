"""A reply that streams: text passes as it comes, calls wait until they are decided about."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from proxy.dialects.model.one_reading import straight_event
from proxy.dialects.model.responses_stream import ResponsesEditor
from proxy.dialects.model.sse import EventTooLarge, SseReader
from proxy.dialects.model.stream import Unread
from proxy.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence
    from contextlib import AsyncExitStack

    from proxy.dialects.model.sse import Event
    from proxy.model.coupling import Filter
    from proxy.model.turn import Turn
    from proxy.upstream import Reply


class StreamedReply:
    """The pieces of one reply, all its askings in one. See `Pieces`."""

    def __init__(self, turn: Turn, stack: AsyncExitStack, reply: Reply) -> None:
        """`stack` holds the upstream's answer open; it is closed with this."""
        self._turn = turn
        self._stack = stack
        self._reply = reply
        self._editor = turn.api.editor()
        self._running = self._run()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, none of them empty."""
        return self._running

    async def aclose(self) -> None:
        """Let go of the upstream, and note what the model had said by then."""
        await self._running.aclose()
        await self._stack.aclose()
        turn = self._turn
        await turn.deciding.tell(turn.current, self._editor.said())
        turn.ended()

    async def _run(self) -> AsyncGenerator[bytes]:
        turn, editor = self._turn, self._editor
        reply: Reply | None = self._reply
        while reply is not None:
            clean = turn.filter()
            try:
                async for events in events_of(turn.wire.behind.pieces(reply, turn.due_s)):
                    async for out in self._edited(events, clean):
                        yield out
                async for out in self._edited([None], clean):
                    yield out
            except Unread:
                raise UpstreamError("the server behind sent an event that is not JSON") from None
            if not editor.refused_all():
                break
            reply = await turn.ask_again(editor.again(), self._stack)
            if reply is None:
                yield editor.close()
        if editor.holds:
            # A part of a call must not pass for all of it.
            raise UpstreamError("the server behind broke off its answer")
        if isinstance(editor, ResponsesEditor):
            turn.output = editor.output
        turn.reply_id = editor.said().reply_id or ""

    async def _edited(self, events: Sequence[Event | None], clean: Filter) -> AsyncGenerator[bytes]:
        """What goes on of these events; nothing after a call until it is decided about.

        None is the end of the stream. What a verdict refuses is withheld from the next event on.
        """
        turn, editor = self._turn, self._editor
        out = b""
        for event in chain.from_iterable(_cleaned(one, clean) for one in events):
            was_over = editor.over
            passed, waiting = editor.feed(event)
            if waiting or (editor.over and not was_over):
                # What is certain goes first, so that nobody waits for a verdict on something else.
                before, out = out + (passed if waiting else b""), b""
                if before:
                    turn.begins()
                    yield before
                decided = await turn.deciding.decide(turn.current, waiting, editor.said())
                out = b"".join(editor.decide(one) for one in decided)
            out += b"" if waiting else passed
        if out:
            turn.begins()
            yield out


def _cleaned(event: Event | None, clean: Filter) -> list[Event]:
    return clean.end() if event is None else clean.feed(straight_event(event))


async def events_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[list[Event]]:
    """The events of a stream, as they are complete.

    Raises:
        UpstreamError: One of them is larger than any API sends.
    """
    reader = SseReader()
    async for piece in pieces:
        try:
            yield reader.feed(piece)
        except EventTooLarge:
            raise UpstreamError("the answer of the server behind is too large") from None
    yield reader.last()
