"""A scripted model on a real socket, for all four APIs, streaming and not, and its faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

from tests.evaluate.free_port import on_free_port
from tests.integration.models import chat, gemini, messages, responses
from tests.integration.models.script import Context, Move, next_move

Json = dict[str, Any]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # with the query
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return msgspec.json.decode(self.raw, type=Json)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What a request gets instead of a good answer."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b"{}"
    # Break the connection behind so many bytes of the answer; None: do not.
    cut: int | None = None
    # Say nothing for so long before the head, or, with `cut`, instead of breaking the connection.
    silent_s: float = 0.0


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    read: Callable[[Json], Context]
    whole: Callable[[Move, Json, str], Json]
    stream: Callable[[Move, Json, str], bytes]


WIRES: Final = {
    "/messages": Wire(read=messages.read, whole=messages.whole, stream=messages.stream),
    "/chat/completions": Wire(read=chat.read, whole=chat.whole, stream=chat.stream),
    ":generateContent": Wire(read=gemini.read, whole=gemini.whole, stream=gemini.stream),
    ":streamGenerateContent": Wire(read=gemini.read, whole=gemini.whole, stream=gemini.stream),
    "/responses": Wire(read=responses.read, whole=responses.whole, stream=responses.stream),
}


# The SDK of this API then sends whole conversations.
NO_THREADS: Final[Json] = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "thread: not here",
        "details": {"error_code": "thread_unsupported_request"},
    },
}


class ScriptedModel:
    """Follows directives (see `script`), and keeps every request."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.answers: list[bytes] = []  # the bodies of whole answers, as they were sent
        self.faults: list[Fault] = []  # one for each request to come, until they are used up
        self.piece_len = 64 * 1024  # bytes of a stream that are written at once
        self.pause_s = 0.0  # between two pieces
        self.move: Callable[[Context], Move] = next_move
        self._items: dict[str, list[Json]] = {}  # of a response, all that came before it
        self.left = asyncio.Event()  # a client went before the end of its answer

    @property
    def asked(self) -> list[Json]:
        """The bodies of the requests that asked the model."""
        return [one.body for one in self.requests if one.method == "POST" and _wire(one.path)]

    def sent_upstream(self) -> bytes:
        return b"\n".join(
            one.path.encode() + repr(one.headers).encode() + one.raw for one in self.requests
        )

    async def serve(self, request: web.Request) -> web.StreamResponse:
        received = Received(
            method=request.method,
            path=request.raw_path,
            headers={name.lower(): value for name, value in request.headers.items()},
            raw=await request.read(),
        )
        self.requests.append(received)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault.cut is None:
            await asyncio.sleep(fault.silent_s)
            return web.Response(status=fault.status, headers=fault.headers, body=fault.body)
        wire = _wire(received.path)
        if wire is None or request.method != "POST":
            kind = request.headers.get("Content-Type", "")
            return web.json_response({"path": request.path, "kind": kind, "len": len(received.raw)})
        body = self._with_history(received.body)
        if body.get("thread"):
            return web.json_response(NO_THREADS, status=400)
        move = self.move(wire.read(body))
        reply_id = f"{len(self.requests):08d}"
        self._keep(body, wire.whole(move, body, reply_id))
        if not body.get("stream") and "alt=sse" not in received.path:
            whole = wire.whole(move, body, reply_id)
            return await self._write(request, msgspec.json.encode(whole), "application/json", fault)
        stream = wire.stream(move, body, reply_id)
        return await self._write(request, stream, "text/event-stream; charset=utf-8", fault)

    def _with_history(self, body: Json) -> Json:
        """A request that goes on from an earlier reply, with what a provider remembers."""
        before = self._items.get(body.get("previous_response_id", ""))
        return body if before is None else {**body, "input": [*before, *_items(body)]}

    def _keep(self, body: Json, reply: Json) -> None:
        if reply.get("object") == "response":
            self._items[reply["id"]] = [*_items(body), *reply["output"]]

    async def _write(
        self, request: web.Request, raw: bytes, kind: str, fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": kind, "request-id": "req_upstream", "x-request-id": "req_up"}
        )
        await response.prepare(request)
        self.answers.append(raw)
        whole, cut = raw, None if fault is None else fault.cut
        raw = whole if cut is None else whole[:cut]
        try:
            for at in range(0, len(raw), self.piece_len):
                await response.write(raw[at : at + self.piece_len])
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
            if fault is not None and cut is not None:
                await asyncio.sleep(fault.silent_s)
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        return response


def _items(body: Json) -> list[Json]:
    given: str | list[Json] = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _wire(path: str) -> Wire | None:
    bare = path.partition("?")[0].rstrip("/")
    return next((wire for tail, wire in WIRES.items() if bare.endswith(tail)), None)


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[ScriptedModel]:
    """A scripted model that listens on a free port."""
    model = ScriptedModel()
    application = web.Application(client_max_size=256 * 1024**2)
    application.router.add_route("*", "/{path:.*}", model.serve)
    async with on_free_port(
        application, handler_cancellation=True, shutdown_timeout=1.0
    ) as model.url:
        yield model
