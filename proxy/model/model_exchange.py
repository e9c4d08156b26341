"""One model request, from its body to the last byte of its reply.

The events of a streamed reply are forwarded as they arrive, but its tool calls only when judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import Final, TypeVar

import msgspec

from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.model.api import Editor, ModelApi, continued
from proxy.dialects.model.one_reading import straight_event, straight_object
from proxy.dialects.model.openai.responses_stream import ResponsesEditor, with_output
from proxy.dialects.model.reading import list_of, repeats, text_of
from proxy.dialects.model.replies_withheld import ReplyFilter
from proxy.dialects.model.stream import CallDecision
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.sse import Event
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.model.extraction import BackendReply, Extraction
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.redactor import Redactor
from proxy.model.reply_healer import HealedReply
from proxy.model.stored_replies import CallDecider
from proxy.model.upstream_model import TOTAL_S, UpstreamModel, events_of
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.seams.operation import HttpReply
from proxy.transport.exchange import Pieces
from proxy.transport.responses import AnswerFailure, attempt
from proxy.transport.upstream import UpstreamReply
from telemetry.propagation import format_traceparent

_Came = TypeVar("_Came", bytes, "list[Event]")

OK: Final = 200
EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"
_SAID: Final = range(200, 300)
_UNASKED: Final = "the server behind streams, and was not asked to"
AGAIN_MAX: Final = 3
"""How often a model is asked again within one request, because all its calls were refused."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Where and with which headers a request is sent; its body is built anew for each sending."""

    behind: UpstreamModel
    method: str
    target: str
    headers: dict[str, str]
    # False if no model is asked, because the reply of an earlier request is fetched.
    asks: bool = True


class ModelExchange:
    """One model request. Its methods are called one after the other, by one task."""

    def __init__(
        self,
        asked: PrincipalRequest,
        wire: Wire,
        *,
        coupling: LedgerCoupling,
        extraction: Extraction,
        halt: Callable[[], None],
        clock_ns: Callable[[], int],
        ended: Callable[[ModelExchange], None],
        healed: HealedReply | None = None,
    ) -> None:
        """`ended` is called once, after the last byte or when the agent leaves.

        `healed` checks the reply before the agent gets it; None if nothing is to check the reply.
        """
        self.api: ModelApi = asked.api
        self.asked = asked
        self.prepared: PreparedRequest | None = None
        self.deciding = CallDecider(coupling, halt)
        self.askings = 0
        self.status = OK
        self.streamed = False
        self.withheld = False
        # Two times: when the request was first sent to the model API, and when the first byte of
        # the reply was sent to the agent. 0 before that.
        self.sent_ns = 0
        self.first_ns = 0
        self.due_s = asyncio.get_running_loop().time() + TOTAL_S
        self.wire = wire
        self.output: tuple[Json, ...] = ()  # the output of a Responses reply, as the agent gets it
        self.reply_id = ""
        self.clearing = Redactor(coupling, asked.principal)
        self._coupling = coupling
        self._extraction = extraction
        self._halt = halt
        self._clock_ns = clock_ns
        self._ended = ended
        self._more: list[Json] = []
        self._healed = healed if wire.asks and not asked.extracts else None

    async def answer(self) -> tuple[HttpReply, Pieces | None]:
        """Ask the model; return the reply's head, and the body's pieces if it streams, else None.

        Raises:
            UpstreamError: The model did not answer in a way that can be forwarded.
        """
        async with AsyncExitStack() as stack:
            reply = await self.ask(stack)
            self.status = reply.status
            streams = reply.content_type == EVENTS
            if streams and self.asked.extracts:
                raise UpstreamError(_UNASKED)
            if _said(reply) and streams:
                self.streamed = True
                events = await self.held_back(reply)
                head = HttpReply(
                    status=reply.status,
                    content_type=self.clearing.kind_of(reply),
                    headers=self._headers_of(reply),
                )
                return head, StreamedReply(self, stack.pop_all(), reply, events)
            body = await self.wire.behind.whole(reply)
            if _said(reply) and self.asked.extracts:
                judged = await self._judged(_read(body), self.asked.maps.maps[0])
                body = write_body(judged)
            elif _said(reply):
                body = await self._whole(body)
            else:
                body = self.clearing.answer(body, reply.headers.get("content-type", ""))
            self.begins()
            self.ended()
            return HttpReply(
                status=reply.status,
                body=body,
                content_type=self.clearing.kind_of(reply, _JSON),
                headers=self._headers_of(reply),
            ), None
        raise UpstreamError("the server behind broke off its answer")

    async def ask(self, stack: AsyncExitStack) -> UpstreamReply:
        """Send the request upstream; return the reply, which is open until `stack` is closed."""
        whole = continued(self.api, self.asked.body, self._more) if self._more else self.asked.body
        asked = msgspec.structs.replace(self.asked, body=whole)
        self.prepared = await self._coupling.prepare(asked)
        self.withheld |= self.prepared.body is not self.prepared.asked.body
        self.askings += 1
        self.sent_ns = self.sent_ns or self._clock_ns()
        wire = self.wire
        sent = write_body(self.prepared.body) if wire.asks else None
        headers = self.clearing.headers(wire.headers)
        headers = {**headers, "content-type": _JSON} if sent else headers
        return await stack.enter_async_context(
            wire.behind.send(wire.method, headers, sent, wire.target)
        )

    async def ask_again(self, more: list[Json], stack: AsyncExitStack) -> UpstreamReply | None:
        """Ask the model again, with `more` appended to the conversation; return the new reply.

        None if there is no new reply: then the first reply is the one that the agent gets.
        """
        healed = 0 if self._healed is None else self._healed.rounds
        if not self.wire.asks or self.askings - healed > AGAIN_MAX or self._is_late():
            return None
        self._more += more
        await stack.aclose()
        done = await attempt(self.ask(stack), self._halt)
        if isinstance(done, AnswerFailure) or not _said(done):
            return None
        return done

    def _is_late(self) -> bool:
        return asyncio.get_running_loop().time() > self.due_s

    def _headers_of(self, reply: UpstreamReply) -> tuple[tuple[str, str], ...]:
        told = () if self._healed is None else self._healed.headers()
        return (*self.clearing.headers_of(reply), *told)

    # ---- asking again for a reply that memories made wrong ---------------------------------------

    async def held_back(self, reply: UpstreamReply) -> list[Event] | None:
        """Read a stream that has to be checked as a whole; return its events, else None.

        Raises:
            UpstreamError: The stream breaks off, or has an event that cannot be parsed.
        """
        answers = self.asked.answers
        heals = self._healed is not None and await self._healed.holds_back(self.current)
        if not heals and answers is None:
            return None
        events = await self._events(reply)
        if heals:
            events = await self._mended(events, self._told_by, self._events)
        if answers is None:
            return events
        editor = self._read_events(events)
        if not isinstance(editor, ResponsesEditor):
            raise UpstreamError(_UNASKED)
        judged = await self._judged({"output": [*editor.output]}, answers)
        return with_output(events, list_of(judged.get("output")))

    async def _mended(
        self,
        came: _Came,
        told_by: Callable[[_Came], ModelReply],
        take: Callable[[UpstreamReply], Awaitable[_Came]],
    ) -> _Came:
        """Ask the model again while memories make its reply wrong; return the last reply."""
        healed = self._healed
        while healed is not None and await healed.asks_again(self.current, told_by(came)):
            before = self.prepared
            done = await attempt(self._another(take), self._halt)
            if isinstance(done, AnswerFailure) or done is None:
                self.prepared = before
                await healed.gives_up("no_answer")
                break
            came = done
        return came

    async def _another(self, take: Callable[[UpstreamReply], Awaitable[_Came]]) -> _Came | None:
        """Ask the model without hidden memories; return its reply, None if there is none."""
        if self._is_late():
            return None
        async with AsyncExitStack() as stack:
            reply = await self.ask(stack)
            return await take(reply) if _said(reply) else None
        return None

    async def _body(self, reply: UpstreamReply) -> bytes:
        raw = await self.wire.behind.whole(reply)
        _read(raw)
        return raw

    async def _events(self, reply: UpstreamReply) -> list[Event]:
        if reply.content_type != EVENTS:
            raise UpstreamError("the server behind was asked to stream, and did not")
        found: list[Event] = []
        async for events in events_of(self.wire.behind.pieces(reply, self.due_s)):
            found += events
        self._told_by(found)
        return found

    def _told_by(self, events: list[Event]) -> ModelReply:
        return self._read_events(events).said()

    def _read_events(self, events: list[Event]) -> Editor:
        """A new editor that was fed the events of a whole stream."""
        editor = self.api.editor()
        for event in events:
            _, waiting = editor.feed(straight_event(event))
            for one in waiting:
                editor.decide(CallDecision(key=one.key))
        return editor

    async def _judged(self, body: dict[str, Json], tool_map: ToolMap) -> dict[str, Json]:
        """A reply that is a write itself, without the facts that were refused."""
        said, trace = self.api.read_reply(body), self.asked.trace
        # The ledger finds the session of the extracted facts by this call id.
        call_id = f"extraction:{trace.trace_id}:{trace.span_id}"
        call = ModelCall(call_id=call_id, name="extraction", arguments={})
        reply = msgspec.structs.replace(said, calls=(*said.calls, call))
        replied = BackendReply(
            principal=self.asked.principal,
            api=self.api.name,
            call_id=call_id,
            tool_map=tool_map,
            told=await self.deciding.tell(self.current, reply),
            traceparent=format_traceparent(trace),
        )
        return await self._extraction.edited(replied, body)

    async def _whole(self, raw: bytes) -> bytes:
        """Judge and edit a reply that came whole; return the body that the agent gets."""
        reply = self.api.whole()
        while True:
            raw = await self._mended(raw, self._read_reply, self._body)
            came = _read(raw)
            body = straight_object(came)
            if self.asked.answers is not None:
                body = await self._judged(body, self.asked.answers)
            waiting = reply.feed(body)
            said = reply.said()
            decided = await self.deciding.decide(self.current, waiting, said)
            for one in decided:
                reply.decide(one)
            if not reply.refused_all():
                break
            async with AsyncExitStack() as stack:
                again = await self.ask_again(reply.again(), stack)
                if again is None:
                    break
                raw = await self.wire.behind.whole(again)
        given = reply.edited()
        edited = self._coupling.said(self.current, given)
        self.reply_id = text_of(edited.get("id")) or ""
        found = edited.get("output")
        self.output = tuple(found) if isinstance(found, list) else ()
        # The received bytes are forwarded only if no key is repeated, because another parser might
        # take the other value of the key.
        same = edited is given and edited == body
        same = same and body is came and not repeats(raw.decode("utf-8"), came)
        return raw if same else write_body(edited)

    def _read_reply(self, raw: bytes) -> ModelReply:
        return self.api.read_reply(straight_object(_read(raw)))

    def filter(self) -> ReplyFilter:
        """A new filter that removes withheld texts from the events of the reply."""
        return self._coupling.filter(self.current)

    def begins(self) -> None:
        """Note the time at which the first byte of the reply is sent to the agent."""
        self.first_ns = self.first_ns or self._clock_ns()

    def ended(self) -> None:
        """Report that the reply is over, or that the agent has left."""
        self._ended(self)

    @property
    def session(self) -> str:
        """The session of the request; "" until it is known."""
        return "" if self.prepared is None else self.prepared.session

    @property
    def memory_count(self) -> int:
        """The number of served memories that the request contains."""
        return 0 if self.prepared is None else len(self.prepared.memories)

    @property
    def current(self) -> PreparedRequest:
        """The request as it was last sent to the model API."""
        if self.prepared is None:
            raise UpstreamError("nothing was sent to the server behind", sent=False)
        return self.prepared


class StreamedReply:
    """The body of one streamed reply, in pieces. See `Pieces`.

    If the model is asked a second time, the pieces of its second reply follow.
    """

    def __init__(
        self,
        turn: ModelExchange,
        stack: AsyncExitStack,
        reply: UpstreamReply,
        events: list[Event] | None,
    ) -> None:
        """`stack` keeps the upstream's answer open until this stream is closed.

        `events` are all events of a reply that was held back until it was whole, else None.
        """
        self._turn = turn
        self._stack = stack
        self._reply = reply
        self._events = events
        self._editor = turn.api.editor()
        self._running = self._run()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the reply, none of them empty."""
        return self._running

    async def aclose(self) -> None:
        """Release the upstream, and note what the model had said so far."""
        await self._running.aclose()
        await self._stack.aclose()
        turn = self._turn
        await turn.deciding.tell(turn.current, self._editor.said())
        turn.ended()

    async def _run(self) -> AsyncGenerator[bytes]:
        turn, editor = self._turn, self._editor
        reply: UpstreamReply | None = self._reply
        while reply is not None:
            clean = turn.filter()
            async for events in self._coming(reply):
                async for out in self._edited(events, clean):
                    yield out
            async for out in self._edited([None], clean):
                yield out
            if not editor.refused_all():
                break
            reply = await turn.ask_again(editor.again(), self._stack)
            if reply is None:
                yield editor.close()
            else:
                self._events = await turn.held_back(reply)
        if editor.holds:
            # The stream is broken off, because a part of a call must not look like a complete one.
            raise UpstreamError("the server behind broke off its answer")
        if isinstance(editor, ResponsesEditor):
            turn.output = editor.output
        turn.reply_id = editor.said().reply_id or ""

    async def _coming(self, reply: UpstreamReply) -> AsyncGenerator[list[Event]]:
        """The events of a reply, in the groups in which they came."""
        if self._events is not None:
            yield self._events
            return
        async for events in events_of(self._turn.wire.behind.pieces(reply, self._turn.due_s)):
            yield events

    async def _edited(
        self, events: Sequence[Event | None], clean: ReplyFilter
    ) -> AsyncGenerator[bytes]:
        """The bytes to forward; no event after a call is forwarded before the call is judged.

        None in `events` marks the end of the stream. A text that a verdict refuses is withheld from
        the next event on.
        """
        turn, editor = self._turn, self._editor
        out = b""
        for event in chain.from_iterable(_cleaned(one, clean) for one in events):
            was_over = editor.over
            passed, waiting = editor.feed(event)
            if waiting or (editor.over and not was_over):
                # Events before the call are forwarded first, so that they need not wait for the
                # call's verdict.
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


def _cleaned(event: Event | None, clean: ReplyFilter) -> list[Event]:
    return clean.end() if event is None else clean.feed(straight_event(event))


def _said(reply: UpstreamReply) -> bool:
    """Whether the status of an answer means that the model replied."""
    return reply.status in _SAID


def _read(raw: bytes) -> dict[str, Json]:
    try:
        return read_body(raw)
    except MalformedRequest:
        raise UpstreamError("the answer of the server behind is not JSON") from None
