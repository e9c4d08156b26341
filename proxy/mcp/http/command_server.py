"""Serves MCP servers over HTTP that the sidecar runs itself as processes.

In the handshake era each session has a process of its own. In the stateless era all exchanges of a
principal share one process. Request ids of different exchanges may be equal, so each id is replaced
in the request and restored in the answer.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from proxy.dialects.mcp.message import (
    Message,
    MessageKind,
    NotRelayed,
    Object,
    RequestId,
    encode,
    parse,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.mcp.http.child import Child, ChildGone
from proxy.mcp.http.client_request import Exchange, exchange_of, via_of
from proxy.mcp.http.line import LineParts, RelayLine
from proxy.mcp.lines import TooLong
from proxy.mcp.relay import Side

PROGRESS: Final = "notifications/progress"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
UNSENT_MAX: Final = 64
_NO_WAY_BACK: Final[Object] = {
    "code": -32601,
    "message": "requests to the client are not served here",
}


class CommandLine(RelayLine):
    """A relay of one session, with a server process that serves this session alone."""

    def __init__(self, parts: LineParts, child: Child) -> None:
        super().__init__(parts)
        self._child = child
        self._by_token: dict[JsonValue, Exchange] = {}
        self._unsent: deque[tuple[bytes, Message]] = deque()

    async def serve(self) -> None:
        """Relay the process's messages until the process ends; then close this relay."""
        self.spawn(self._child.silence())
        async for line in self._child.lines():
            if isinstance(line, TooLong):
                await self.relay.refused(Side.SERVER, line.request_id, "message: too long")
            else:
                await self._from_server(line)
        await self.relay.flushed(Side.SERVER)
        self.close()

    async def to_server(self, raw: bytes, message: Message, via: object) -> None:
        """Write one message to the process, as one line."""
        exchange = exchange_of(via)
        token = message.meta.get("progressToken")
        if exchange is not None and isinstance(token, int | str):
            self._by_token[token] = exchange
            exchange.when_over(lambda: self._by_token.pop(token, None))
        try:
            await self._child.write(raw)
        except ChildGone:
            self.close()

    async def take(self, message: Message, exchange: Exchange) -> None:
        """Handle one message of the client.

        If the message opens a stream, server messages that waited for a stream are sent on it.
        """
        await super().take(message, exchange)
        if self._unsent:
            self.spawn(self._send_unsent())

    def listen(self, exchange: Exchange) -> None:
        """Use an exchange for messages that belong to no call, also for those that wait already."""
        super().listen(exchange)
        exchange.stream()
        self.spawn(self._send_unsent())

    async def deliver(self, side: Side, raw: bytes, message: Message, via: object) -> None:
        """Send one message to a side; a message to the client waits if no stream is open for it."""
        homeless = side is Side.CLIENT and exchange_of(via) is None and self._somewhere() is None
        if not homeless:
            await super().deliver(side, raw, message, via)
        elif len(self._unsent) < UNSENT_MAX:
            self._unsent.append((raw, message))

    async def _send_unsent(self) -> None:
        while self._unsent and self._somewhere() is not None:
            raw, message = self._unsent.popleft()
            await super().deliver(Side.CLIENT, raw, message, None)

    async def _hang_up(self) -> None:
        await self._child.end()

    async def _from_server(self, line: bytes) -> None:
        """Relay a message of the process; a progress message on the stream of the call it names."""
        try:
            message = parse(line)
        except NotRelayed:
            await self.relay.from_server(line)  # which refuses it
            return
        token = message.params.get("progressToken") if message.method == PROGRESS else None
        exchange = self._by_token.get(token) if isinstance(token, int | str) else None
        await self.relay.from_server(message, via_of(exchange))


class _SharedRequest:
    """One unanswered request at a process that several relays share."""

    def __init__(self, line: SharedLine, message: Message, exchange: Exchange | None) -> None:
        self.line = line
        self.request_id = message.request_id
        self.token = message.meta.get("progressToken")
        self.exchange = exchange


class SharedProcess:
    """One process for all stateless exchanges of one principal. Event loop only."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._numbers = itertools.count(1)
        self._asked: dict[int, _SharedRequest] = {}
        self.over = False

    @property
    def busy(self) -> bool:
        """Whether any request waits for an answer of the process."""
        return bool(self._asked)

    async def serve(self) -> None:
        """Distribute the process's messages until it ends; waiting requests then fail."""
        try:
            async for line in self._child.lines():
                if isinstance(line, TooLong):
                    await self._lost(line.request_id)
                else:
                    await self._heard(line)
        finally:
            self.over = True
            for number in tuple(self._asked):
                await self._lost(number)
            await self._child.end()

    async def silence(self) -> None:
        """Read the process's standard error, and drop it."""
        await self._child.silence()

    def close(self) -> None:
        """End the process; `serve` ends with it."""
        self.over = True
        self._child.close_input()

    async def ask(self, message: Message, line: SharedLine, exchange: Exchange | None) -> None:
        """Send one request to the process, under a new id that is unique in the process."""
        number = next(self._numbers)
        asked = self._asked[number] = _SharedRequest(line, message, exchange)
        body: Object = {**message.body, "id": number}
        if asked.token is not None:
            body["params"] = _with_meta(message.params, "progressToken", number)
        await self._write(body, number)

    async def take_back(self, request_id: RequestId, line: SharedLine, body: Object) -> None:
        """Cancel a request of `line`, under the id that the process knows the request by."""
        for number, asked in self._asked.items():
            if asked.line is line and asked.request_id == request_id:
                params = body.get("params")
                given = params if isinstance(params, dict) else {}
                await self._write({**body, "params": {**given, "requestId": number}}, number)
                return

    async def _write(self, body: Object, number: int) -> None:
        try:
            await self._child.write(encode(body))
        except ChildGone:
            await self._lost(number)

    async def _heard(self, line: bytes) -> None:
        try:
            message = parse(line)
        except NotRelayed as refusal:
            await self._lost(refusal.request_id)
            return
        if message.kind is MessageKind.REQUEST:
            refused: Object = {"jsonrpc": "2.0", "id": message.request_id, "error": _NO_WAY_BACK}
            await self._write(refused, 0)
        elif message.kind is MessageKind.NOTIFICATION:
            await self._told(message)
        elif isinstance(message.request_id, int):
            asked = self._asked.pop(message.request_id, None)
            if asked is not None:
                body: Object = {**message.body, "id": asked.request_id}
                result = body.get("result")
                if isinstance(result, dict):
                    body["result"] = _restored(result, message.request_id, asked.request_id)
                await asked.line.relay.from_server(encode(body), via_of(asked.exchange))

    async def _told(self, message: Message) -> None:
        """Forward a notification to the call that it names; drop it if it names no call."""
        token = message.params.get("progressToken")
        subscription = message.meta.get(SUBSCRIPTION)
        number = token if message.method == PROGRESS else _number(subscription)
        asked = self._asked.get(number) if type(number) is int else None
        if asked is None:
            return
        params = message.params
        if message.method == PROGRESS:
            params = {**params, "progressToken": asked.token}
        elif asked.request_id is not None:
            params = _with_meta(params, SUBSCRIPTION, _like(subscription, asked.request_id))
        body: Object = {**message.body, "params": params}
        await asked.line.relay.from_server(encode(body), via_of(asked.exchange))

    async def _lost(self, number: object) -> None:
        asked = self._asked.pop(number, None) if isinstance(number, int) else None
        if asked is not None and asked.request_id is not None:
            await asked.line.relay.lost(asked.request_id)


class SharedLine(RelayLine):
    """A relay for one exchange at a time, to a server process that other relays use as well."""

    def __init__(self, parts: LineParts, shared: Callable[[], Awaitable[SharedProcess]]) -> None:
        super().__init__(parts)
        self._shared = shared

    async def to_server(self, raw: bytes, message: Message, via: object) -> None:
        """Send a request or cancel one; the stateless era has no other client messages."""
        del raw  # The message is encoded anew, because the process gets it under another id.
        exchange = exchange_of(via)
        if message.kind is MessageKind.REQUEST:
            self.spawn(self._ask(message, exchange))
        elif message.cancels is not None:
            shared = await self._shared()
            await shared.take_back(message.cancels, self, message.body)

    async def _ask(self, message: Message, exchange: Exchange | None) -> None:
        try:
            shared = await self._shared()
        except ChildGone:
            if message.request_id is not None:
                await self.relay.lost(message.request_id)
            return
        await shared.ask(message, self, exchange)

    async def _hang_up(self) -> None:
        """Do nothing, because other relays share the process."""


def _with_meta(params: Object, key: str, value: JsonValue) -> Object:
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), key: value}}


def _restored(result: Object, number: int, request_id: RequestId | None) -> Object:
    """The result, with the client's request id in place of `number` as the subscription's id."""
    meta = result.get("_meta")
    if isinstance(meta, dict) and request_id is not None:
        subscription = meta.get(SUBSCRIPTION)
        if _number(subscription) == number:
            return _with_meta(result, SUBSCRIPTION, _like(subscription, request_id))
    return result


def _number(given: JsonValue) -> int | None:
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 16:  # noqa: PLR2004
        return int(given)
    return given if type(given) is int else None


def _like(given: JsonValue, request_id: RequestId) -> RequestId:
    """The id as text if the server wrote the id that it replaces as text; else unchanged."""
    return str(request_id) if isinstance(given, str) else request_id
