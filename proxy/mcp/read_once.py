"""Calls one tool of a server for an operator, with no relay that withholds or labels texts."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from tempfile import TemporaryFile
from typing import IO, Final, Protocol

from proxy.dialects.mcp.message import (
    CALL,
    INITIALIZE,
    Message,
    MessageKind,
    NotRelayed,
    Object,
    encode,
    parse,
)
from proxy.dialects.sse import BrokenStream, FieldReader
from proxy.mcp.http.child import Child, ChildGone, ServerCommandLine
from proxy.seams.faults import UpstreamError
from proxy.transport.upstream import Upstream
from proxy.version import version

_PROTOCOL: Final = "2025-06-18"
_ACCEPT: Final = {"accept": "application/json, text/event-stream"}
_SAID_MAX: Final = 2_000
_JSON: Final = {"content-type": "application/json"}


class CannotRead(Exception):  # noqa: N818 - a state, not a fault of ours
    """The error where the server could not be asked, or its answer is no tool result.

    The error's text names the cause.
    """


class _Server(Protocol):
    async def ask(self, body: Object) -> Message | None:
        """Send a message to the server; returns its answer, or None for a notification."""
        ...


async def read_once(
    server: Upstream | ServerCommandLine, name: str, tool: str, arguments: Object, seconds: float
) -> tuple[str, Object]:
    """Call one tool of a server; return the server's own name, and the tool's result.

    Raises:
        CannotRead: The server could not be asked, or its answer is no tool result; with the end of
            what a server's process wrote to its standard error.
    """
    with TemporaryFile() as said:
        try:
            return await _called(server, name, tool, arguments, seconds, said)
        except CannotRead as error:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_MAX))
            told = said.read().decode(errors="replace").strip()
            raise CannotRead(f"{error}; it wrote: {told}" if told else str(error)) from None


async def _called(
    server: Upstream | ServerCommandLine,
    name: str,
    tool: str,
    arguments: Object,
    seconds: float,
    said: IO[bytes],
) -> tuple[str, Object]:
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            if isinstance(server, ServerCommandLine):
                child = await Child.start(server, name, said)
                stack.push_async_callback(child.end)
                return await _read(_Lines(child), tool, arguments)
            return await _read(_Posts(await stack.enter_async_context(server)), tool, arguments)
    except TimeoutError:
        raise CannotRead(f"the server did not answer within {seconds:g} s") from None
    except ChildGone as error:
        why = f"cannot be started ({error})" if str(error) else "ended before it answered"
        raise CannotRead(f"the server {why}") from None
    except (NotRelayed, UpstreamError, BrokenStream) as error:
        raise CannotRead(f"the server answered something else: {error}") from None


async def _read(server: _Server, tool: str, arguments: Object) -> tuple[str, Object]:
    info: Object = {"name": "mnemogate", "version": version()}
    hello: Object = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": info}
    began = await server.ask(_request(1, INITIALIZE, hello))
    await server.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer = await server.ask(_request(2, CALL, {"name": tool, "arguments": arguments}))
    if began is None or answer is None or answer.kind is not MessageKind.RESULT:
        raise CannotRead("the server refused to be read")
    given = began.result.get("serverInfo")
    own = given.get("name") if isinstance(given, dict) else None
    return own if isinstance(own, str) else "", answer.result


def _request(number: int, method: str, params: Object) -> Object:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


class _Lines:
    def __init__(self, child: Child) -> None:
        self._child = child
        self._lines = child.lines()

    async def ask(self, body: Object) -> Message | None:
        await self._child.write(encode(body))
        if "id" not in body:
            return None
        async for line in self._lines:
            if not isinstance(line, bytes):
                raise CannotRead("the answer of the server is too long")
            if not line.strip():
                continue
            message = parse(line)
            if message.request_id == body["id"] and message.kind in {
                MessageKind.RESULT,
                MessageKind.ERROR,
            }:
                return message
        raise ChildGone


class _Posts:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._session: dict[str, str] = {}

    async def ask(self, body: Object) -> Message | None:
        headers = {**_ACCEPT, **_JSON, **self._session}
        async with self._upstream.send("POST", headers, encode(body)) as reply:
            session = reply.headers.get("mcp-session-id")
            if session is not None:
                self._session = {"mcp-session-id": session, "mcp-protocol-version": _PROTOCOL}
            if "id" not in body:
                return None
            whole = await self._upstream.whole(reply)
            if reply.content_type != "text/event-stream":
                return parse(whole)
            for event in FieldReader().feed(whole + b"\n\n"):
                message = parse(event.data) if event.data else None
                if message is not None and message.request_id == body["id"]:
                    return message
        return None
