"""A small MCP server over HTTP, both eras, for tests: real sockets, sessions, resumable streams.

It knows nothing of this project. `script` lets a test answer a request in any way it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]
META = "io.modelcontextprotocol/protocolVersion"


def result(request_id: object, **value: object) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


class Session:
    """Events that were sent, for whoever comes back for them."""

    def __init__(self) -> None:
        self.events: list[tuple[int, bytes]] = []
        self.pushes: asyncio.Queue[Json | None] = asyncio.Queue()
        self.answers: asyncio.Queue[Json] = asyncio.Queue()


class Server:
    def __init__(self) -> None:
        self.sse = True  # answer with events, not with one body
        self.named = True  # name sessions
        self.sessions: dict[str, Session] = {}
        self.requests: list[web.Request] = []
        self.bodies: list[Json] = []
        self.cancelled: list[object] = []
        self.started = asyncio.Event()
        self.closed = asyncio.Event()
        self.release = asyncio.Event()
        self.script: Callable[[web.Request, Json], Awaitable[web.StreamResponse | None]] | None
        self.script = None
        self.url = ""
        self.group = asyncio.TaskGroup()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.method == "GET":
            return await self.get(request)
        if request.method == "DELETE":
            known = self.sessions.pop(request.headers.get("Mcp-Session-Id", ""), None)
            return web.Response(status=404 if known is None else 200)
        body = json.loads(await request.read())
        self.bodies.append(body)
        if self.script is not None:
            scripted = await self.script(request, body)
            if scripted is not None:
                return scripted
        if META in body.get("params", {}).get("_meta", {}):
            return await self.stateless(request, body)
        return await self.handshake(request, body)

    # Handshake era

    async def handshake(self, request: web.Request, body: Json) -> web.StreamResponse:
        headers: dict[str, str] = {}
        session = Session()
        if body.get("method") == "initialize" and self.named:
            name = f"session-{len(self.sessions) + 1}"
            self.sessions[name] = session
            headers["Mcp-Session-Id"] = name
        elif self.named:
            found = self.sessions.get(request.headers.get("Mcp-Session-Id", ""))
            if found is None:
                error = {"code": -32600, "message": "Session not found"}
                return web.json_response(
                    {"jsonrpc": "2.0", "id": "server-error", "error": error}, status=404
                )
            session = found
        if "id" not in body or "method" not in body:
            if body.get("method") == "notifications/cancelled":
                self.cancelled.append(body["params"]["requestId"])
            if "result" in body:
                session.answers.put_nowait(body)
            return web.Response(status=202, headers=headers)
        if not self.sse:
            return web.json_response(await self.value(body, session, None), headers=headers)
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def send(message: Json) -> None:
            await self.send(response, session, message)

        async def work() -> None:
            await send(await self.value(body, session, send))

        # In this era a client that goes away takes nothing back.
        await asyncio.shield(self.group.create_task(work()))
        return response

    async def send(self, response: web.StreamResponse, session: Session, message: Json) -> None:
        number = len(session.events) + 1
        data = json.dumps(message).encode()
        session.events.append((number, data))
        with contextlib.suppress(ConnectionError):
            raw = b"event: message\r\nid: %d\r\ndata: %b\r\n\r\n" % (number, data)
            await response.write(raw)

    async def value(  # noqa: PLR0911 - one per method
        self, body: Json, session: Session, send: Callable[[Json], Awaitable[None]] | None
    ) -> Json:
        params = body.get("params", {})
        match body["method"]:
            case "initialize":
                return result(
                    body["id"],
                    protocolVersion=params.get("protocolVersion", "2025-11-25"),
                    capabilities={"tools": {}},
                    serverInfo={"name": "small", "version": "1"},
                )
            case "tools/call" if params["name"] == "ask" and send is not None:
                asked: Json = {"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": {}}
                await send(asked)
                answer = await session.answers.get()
                return result(body["id"], content=[], roots=answer["result"])
            case "tools/call" if params["name"] == "slow":
                self.started.set()
                await self.release.wait()
                return result(body["id"], content=[{"type": "text", "text": "slow"}])
            case "tools/call" if params["name"] == "progress" and send is not None:
                for step in range(3):
                    told = {"progressToken": params["_meta"]["progressToken"], "progress": step}
                    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
                    await send(note)
                if params["arguments"].get("wait"):
                    await self.release.wait()
                return result(body["id"], content=[])
            case "tools/call":
                text = json.dumps(params.get("arguments"))
                return result(body["id"], content=[{"type": "text", "text": text}])
            case "resources/read":
                text = "a quiet secret of the store"
                return result(body["id"], contents=[{"uri": params["uri"], "text": text}])
            case _:
                return result(body["id"])

    async def get(self, request: web.Request) -> web.StreamResponse:
        session = self.sessions.get(request.headers.get("Mcp-Session-Id", ""))
        if session is None:
            return web.Response(status=404)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        last = request.headers.get("Last-Event-ID")
        if last is not None:
            for number, data in session.events:
                if number > int(last):
                    await response.write(b"id: %d\ndata: %b\n\n" % (number, data))
        await response.write(b": open\n\n")
        while (message := await session.pushes.get()) is not None:
            await self.send(response, session, message)
        return response

    # Stateless era

    async def stateless(self, request: web.Request, body: Json) -> web.StreamResponse:
        params, kind = body["params"], {"resultType": "complete"}
        if body["method"] == "tools/call" and params["name"] == "slow":
            self.started.set()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.closed.set()
                raise
        if body["method"] == "subscriptions/listen":
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            meta = {"io.modelcontextprotocol/subscriptionId": body["id"]}
            note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            for _ in range(2):
                data = json.dumps({**note, "params": {"_meta": meta}}).encode()
                await response.write(b"data: %b\n\n" % data)
            await self.release.wait()
            return response
        if body["method"] == "unheard/of":
            error = {"code": -32601, "message": "Method not found"}
            return web.json_response(
                {"jsonrpc": "2.0", "id": body["id"], "error": error}, status=404
            )
        text = json.dumps(params.get("arguments"))
        value = result(body["id"], content=[{"type": "text", "text": text}], **kind)
        return web.json_response(value)


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[Server]:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/mcp", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"http://127.0.0.1:{port}/mcp"
    async with server.group:
        try:
            yield server
        finally:
            server.release.set()
            for session in server.sessions.values():
                session.pushes.put_nowait(None)
                session.answers.put_nowait({"result": {}})
            await runner.cleanup()
