"""Relays to an upstream server over Streamable HTTP: its answers, streams and sessions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from policy.bounded import Bounded
from proxy.dialects.mcp.heads import LAST_EVENT, SESSION, VERSION, headers_for, is_session_id
from proxy.dialects.mcp.message import (
    SERVER_GONE,
    Era,
    Message,
    MessageKind,
    NotRelayed,
    Object,
    RequestId,
    encode,
    parse,
)
from proxy.dialects.sse import MESSAGE, BrokenStream, EventFields, FieldReader
from proxy.mcp.http.client_request import EVENT_STREAM, JSON, Exchange, exchange_of, via_of
from proxy.mcp.http.line import LineParts, RelayLine
from proxy.mcp.relay import Side
from proxy.seams.faults import UpstreamError
from proxy.transport.stop import Stop
from proxy.transport.upstream import Upstream, UpstreamReply

# Seconds to wait until the server accepts a message that gets no answer. Later messages of the
# client wait meanwhile.
TELL_SECONDS: Final = 10.0
# Seconds that a stream may stay open after its answer. If the server ends the stream within them,
# its connection is used again.
GRACE_SECONDS: Final = 1.0
# A client that lost a stream may ask for the events after a given one, if the given event is among
# this many latest events.
EVENTS_SEEN_MAX: Final = 16_384
# The only headers of a server's answer that a client gets, with their forms: no filter searches
# headers for withheld texts.
_PASSED: Final = {
    VERSION: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "retry-after": re.compile(r"[0-9]{1,9}|[A-Z][a-z]{2}, [0-9A-Za-z: ]{20,22} GMT"),
}
# The header that tells a client how to get a credential for the server.
_CHALLENGE: Final = "www-authenticate"
_UNAUTHORIZED: Final = frozenset({401, 403})
_BODYLESS: Final = frozenset({202, 204})


def _print(event_id: str) -> bytes:
    return blake2b(event_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class UrlLine(RelayLine):
    """A relay to a server at a URL. In the handshake era the server chooses the session id."""

    def __init__(
        self,
        parts: LineParts,
        upstream: Upstream,
        adopt: Callable[[str, UrlLine], bool],
    ) -> None:
        """`adopt` registers the session id that the server chose; False if the id is in use."""
        super().__init__(parts)
        self._upstream = upstream
        self._adopt = adopt
        self._headers: dict[str, str] = {}
        self._stops: dict[RequestId, Stop] = {}
        # The latest event ids, as hashes, because a server may use long ids.
        self._events_seen = Bounded[bytes, None](EVENTS_SEEN_MAX)

    async def to_server(self, raw: bytes, message: Message, via: object) -> None:
        """Post one message.

        A request's answer is read in the background. A message that has no answer is waited for
        until the server accepts it.
        """
        exchange = exchange_of(via)
        if message.kind is MessageKind.REQUEST:
            ours = exchange is None or exchange.request_id != message.request_id
            self.spawn(self._call(raw, message, None if ours else exchange))
            return
        if message.cancels is not None and exchange is not None and exchange.era is Era.STATELESS:
            # In the stateless era a call can only be cancelled by closing its stream.
            self._stop(message.cancels)
            return
        try:
            async with (
                asyncio.timeout(TELL_SECONDS),
                self._upstream.send("POST", self._head(message, exchange), raw) as reply,
            ):
                await self._upstream.whole(reply)
        except (UpstreamError, TimeoutError):
            # The failure ends no call, because each call has a stream of its own.
            return

    def sent_event(self, event_id: str) -> bool:
        """Whether this relay got an event of this id lately, so that its client may resume there.

        Without this check, a server that looks up events by id alone would replay the events of
        another session.
        """
        return _print(event_id) in self._events_seen

    async def open_stream(self, exchange: Exchange) -> None:
        """Read the server's own messages, or the rest of a lost stream, in the background."""
        self.listen(exchange)
        self.spawn(self._listen(exchange))

    async def end_session(self, exchange: Exchange) -> int:
        """Ask the upstream server to end the session; return its HTTP status, 502 if none."""
        try:
            async with self._upstream.send("DELETE", self._sent(exchange)) as reply:
                await self._upstream.whole(reply)
                return reply.status
        except UpstreamError:
            return 502

    async def _hang_up(self) -> None:
        for stop in tuple(self._stops.values()):
            stop()
        for exchange in tuple(self._listening):
            exchange.finish()

    # ---- heads of the server's answers -----------------------------------------------------------

    def _sent(self, exchange: Exchange | None) -> dict[str, str]:
        headers = dict(self._headers if exchange is None else exchange.headers)
        headers.pop(SESSION, None)
        if self.session_id is not None:
            headers[SESSION] = self.session_id
        return headers

    def _head(self, message: Message, exchange: Exchange | None) -> dict[str, str]:
        if exchange is not None:
            self._headers = exchange.headers
        sent = self._sent(exchange)
        if message.era is Era.STATELESS and message.method is not None:
            kept = {name: value for name, value in sent.items() if not name.startswith("mcp-")}
            sent = {**kept, **headers_for(message, sent)}
        return {"accept": f"{JSON}, {EVENT_STREAM}", **sent, "content-type": JSON}

    # ---- reading the server's answers ------------------------------------------------------------

    def _stop(self, request_id: RequestId) -> None:
        stop = self._stops.get(request_id)
        if stop is not None:
            stop()

    async def _call(self, raw: bytes, message: Message, exchange: Exchange | None) -> None:
        """Post a request, and relay the server's whole answer, with all events of its stream."""
        request_id = message.request_id
        if request_id is None:
            return
        try:
            async with Stop() as stop:
                self._stops[request_id] = stop
                if exchange is not None:
                    exchange.when_over(lambda: _unread(exchange, stop))
                async with self._upstream.send("POST", self._head(message, exchange), raw) as reply:
                    await self._answered(reply, message, exchange)
        except UpstreamError as error:
            if not error.sent:
                await self._refused(request_id, exchange, {"message": error.detail})
        except (BrokenStream, TimeoutError):
            pass
        finally:
            self._stops.pop(request_id, None)
        await self.relay.flushed(Side.SERVER)
        if exchange is None or not exchange.resumable:
            # If the request is unanswered now, it will never be answered.
            await self.relay.lost(request_id)
        if exchange is not None:
            exchange.finish()

    async def _answered(
        self, reply: UpstreamReply, message: Message, exchange: Exchange | None
    ) -> None:
        if reply.status >= 500:  # noqa: PLR2004 - the outcome is unknown
            raise UpstreamError("the server behind failed")
        named = reply.headers.get(SESSION)
        if named is not None and message.method == "initialize" and self.session_id is None:
            self._name(named)
        if exchange is not None:
            exchange.passed = self._passed(reply)
        if reply.status >= 400 and message.request_id is not None:  # noqa: PLR2004
            if exchange is not None:
                exchange.status = reply.status
            await self._refused(message.request_id, exchange, await self._error_of(reply))
            self._end_if_gone(reply)
            return
        if reply.content_type == EVENT_STREAM:
            if exchange is not None:
                exchange.stream()
            await self._events(reply, exchange)
        elif reply.content_type == JSON and reply.status not in _BODYLESS:
            body = await self._upstream.whole(reply)
            await self.relay.from_server(body, via_of(exchange))
        else:
            raise UpstreamError("the server behind gave no answer to a request")

    def _passed(self, reply: UpstreamReply) -> dict[str, str]:
        """The headers of an answer that are forwarded; a session id only if it is this relay's."""
        said = reply.headers
        passed = {
            name: said[name]
            for name, shape in _PASSED.items()
            if name in said and shape.fullmatch(said[name])
        }
        if reply.status in _UNAUTHORIZED and _CHALLENGE in said:
            passed[_CHALLENGE] = said[_CHALLENGE]
        if self.session_id is not None and said.get(SESSION) == self.session_id:
            passed[SESSION] = self.session_id
        return passed

    def _end_if_gone(self, reply: UpstreamReply) -> None:
        """Close the relay if the server no longer knows the session, after the client's answer."""
        if reply.status == 404 and self.session_id is not None:  # noqa: PLR2004
            self.close()

    def _name(self, session_id: str) -> None:
        if not is_session_id(session_id) or not self._adopt(session_id, self):
            raise UpstreamError("the server behind named a session that cannot be used")
        self.session_id = session_id

    async def _refused(
        self, request_id: RequestId, exchange: Exchange | None, error: Object
    ) -> None:
        """Relay an HTTP refusal as the error that answers a request, whatever id the body has."""
        body: Object = {
            "jsonrpc": "2.0",
            "id": request_id,
            "error": {"code": SERVER_GONE, "message": "the server behind refused", **error},
        }
        await self.relay.from_server(encode(body), via_of(exchange))

    async def _error_of(self, reply: UpstreamReply) -> Object:
        if reply.content_type == JSON:
            body = await self._upstream.whole(reply)
            try:
                message = parse(body)
            except NotRelayed:
                message = None
            error = None if message is None else message.body.get("error")
            if isinstance(error, dict):
                return error
        return {"message": f"the server behind answered HTTP {reply.status}"}

    # ---- streams of the server -------------------------------------------------------------------

    async def _listen(self, exchange: Exchange) -> None:
        try:
            async with Stop() as stop:
                exchange.when_over(stop)
                async with self._upstream.send("GET", self._sent(exchange)) as reply:
                    exchange.passed = self._passed(reply)
                    if reply.status == 200 and reply.content_type == EVENT_STREAM:  # noqa: PLR2004
                        exchange.stream()
                        await self._events(reply, exchange)
                    else:
                        status = reply.status if reply.status >= 400 else 502  # noqa: PLR2004
                        exchange.answer(b"", status=status)
                        self._end_if_gone(reply)
        except UpstreamError as error:
            exchange.answer(encode({"detail": error.detail}), status=502)
        except (BrokenStream, TimeoutError):
            pass
        await self.relay.flushed(Side.SERVER)
        exchange.finish()

    async def _events(self, reply: UpstreamReply, exchange: Exchange | None) -> None:
        reader = FieldReader()
        async for piece in reply.pieces:
            for event in reader.feed(piece):
                await self._event(event, exchange)

    async def _event(self, event: EventFields, exchange: Exchange | None) -> None:
        if event.event_id and exchange is not None:
            self._events_seen[_print(event.event_id)] = None
            exchange.resumable = True
            if exchange.left:
                # No fault of the server: its client may ask for the rest elsewhere.
                raise BrokenStream("its client left")
        if event.event == MESSAGE and event.data and not event.data.isspace():
            again = exchange is not None and LAST_EVENT in exchange.headers
            await self.relay.from_server(event.data, via_of(exchange, event), again=again)
            return
        if exchange is None or (event.event_id is None and event.retry is None):
            # Nothing is forwarded without a client, or without an id or retry time: such an event
            # is the server's ping, and the exchange sends pings of its own.
            return
        # An event id is sent after the messages before it, because a client that resumes at the id
        # would miss them otherwise. Data of an event not named "message" is not forwarded.
        await self.relay.flushed(Side.SERVER)
        empty = b"" if event.data is not None else None
        await exchange.put(EventFields(data=empty, event_id=event.event_id, retry=event.retry))


def _unread(exchange: Exchange, stop: Stop) -> None:
    """Stop reading the server's stream for an exchange that is over.

    A client that leaves does not cancel its call: the rest of the answer is still read, unless the
    client can resume the stream.
    """
    if not exchange.left:
        stop.after(GRACE_SECONDS)
    elif exchange.resumable:
        stop()
