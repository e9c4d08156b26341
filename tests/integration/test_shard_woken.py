"""A holder that sleeps through a takeover: what it was in the midst of goes no further (S-3).

Each client is in another state when SIGSTOP comes. What then would be answered or sent is at hand
before SIGCONT: the rest of a request, or of what a server said. The control has no deadline.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from tests.evaluate.free_port import on_free_port
from tests.integration.mcp_bench import call, notification, request
from tests.integration.models import chat
from tests.integration.models.script import Move
from tests.integration.shard_members import AGENT_KEY, Member, eventually
from tests.postgres_server import PostgresServer, serving

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]
Json = dict[str, Any]
SERVER: Final = Path(__file__).with_name("mcp_stdio_server.py")
BEFORE, AFTER = "in good time", "after it all"  # each is one piece of a stream
CHAT, EMBED, MCP = "/openai/v1/chat/completions", "/openai/v1/embeddings", "/mcp/small"
STALE: Final = "note that both members have"


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    with serving() as running:
        yield running


class Model:
    """A model API that keeps what it was sent, and ends a stream when it is told to."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, bytes]] = []
        self.ends = asyncio.Event()
        self.ended = False

    async def serve(self, received: web.Request) -> web.StreamResponse:
        body = await received.read()
        self.asked.append((received.path, body))
        if b'"stream"' not in body:
            return web.json_response({"object": "list", "data": []})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(received)
        stream = chat.stream(Move(text=BEFORE + AFTER), json.loads(body), "1")
        end = stream.index(b"\n\n", stream.index(BEFORE.encode())) + 2
        await response.write(stream[:end])
        await self.ends.wait()
        with suppress(ConnectionError):
            await response.write(stream[end:])
            await response.write_eof()
        self.ended = True
        return response


@asynccontextmanager
async def model_api() -> AsyncGenerator[Model]:
    model = Model()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", model.serve)
    async with on_free_port(application, shutdown_timeout=0.1) as model.url:
        yield model
        model.ends.set()


class Client:
    """A request that is sent in two parts, and every byte that comes back."""

    def __init__(self, member: Member, method: str, path: str, body: Json | None = None) -> None:
        self._port = member.data
        raw = b"" if body is None else json.dumps(body).encode()
        key = "Authorization: Bearer" if path.startswith("/v1/") else "X-Api-Key:"
        self._head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{member.data}\r\n"
            f"{key} {AGENT_KEY}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(raw)}\r\n"
        )
        self._raw = raw
        self._rest = b""
        self.got = bytearray()
        self._over = False

    async def begin(self, *, part: float, **headers: str) -> None:
        """Send a part of the request, which is more than its head if it has a body."""
        named = "".join(f"{name.replace('_', '-')}: {headers[name]}\r\n" for name in headers)
        head = f"{self._head}{named}\r\n".encode()
        cut = len(head) - 9 if not self._raw else len(head) + int(part * len(self._raw))
        whole = head + self._raw
        self._rest = b"" if part == 1 else whole[cut:]
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(whole[: len(whole) - len(self._rest)])
        await self._writer.drain()
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while piece := await reader.read(65_536):
                self.got += piece
        except ConnectionError:
            pass
        self._over = True

    def is_over(self) -> bool:
        """Whether the member has closed the connection."""
        return self._over

    async def finish(self) -> None:
        """Send the rest of the request."""
        self._writer.write(self._rest)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        self._reading.cancel()


async def until(holds: Callable[[], bool], what: str, member: Member | None = None) -> None:
    """Wait until something holds, while servers of this process answer."""
    await asyncio.to_thread(eventually, holds, what, member)


async def session_of(member: Member) -> str:
    """A new session with the MCP server, which has a process of its own."""
    opening = Client(member, "POST", MCP, request(0, "initialize", protocolVersion="2025-11-25"))
    await opening.begin(part=1)
    await until(lambda: b"serverInfo" in opening.got, "the session begins")
    head = bytes(opening.got).decode().lower()
    session = head.partition("mcp-session-id: ")[2].partition("\r\n")[0]
    await opening.close()
    ready = Client(member, "POST", MCP, notification("notifications/initialized"))
    await ready.begin(part=1, Mcp_Session_Id=session)
    await until(lambda: b" 202 " in ready.got, "the session is ready")
    await ready.close()
    return session


class Clients:
    """Those that a holder is in the midst of serving when it falls asleep."""

    def __init__(self, member: Member, memo: Path) -> None:
        asks = {"model": "scripted", "messages": [{"role": "user", "content": "Tell me."}]}
        late, progress = call(5, "late", seconds=0), call(6, "progress", seconds=4)
        progress["params"]["_meta"] = {"progressToken": "t"}
        self._memo = memo
        self._member = member
        self.stream = Client(member, "POST", CHAT, {**asks, "stream": True})
        self.turn = Client(member, "POST", CHAT, asks)
        self.embedding = Client(member, "POST", EMBED, {"model": "e", "input": "tea"})
        self.listing = Client(member, "GET", "/v1/memories")
        self.search = Client(member, "POST", "/v1/search", {"query": STALE})
        self.late = Client(member, "POST", MCP, late)
        self.progress = Client(member, "POST", MCP, progress)
        self.halves = (self.turn, self.embedding, self.listing, self.search, self.late)
        self.all = (*self.halves, self.stream, self.progress)

    async def begin(self) -> None:
        for one in self.halves[:-1]:
            await one.begin(part=0.5)
        await self.late.begin(part=0.5, Mcp_Session_Id=await session_of(self._member))
        await self.stream.begin(part=1)
        await until(lambda: BEFORE.encode() in self.stream.got, "the stream begins")
        session = await session_of(self._member)
        await self.progress.begin(part=1, Mcp_Session_Id=session)
        await until(lambda: b"notifications/progress" in self.progress.got, "the call begins")

    async def close(self) -> None:
        for one in self.all:
            await one.close()

    def called(self) -> bool:
        """Whether the call that was half there has reached the MCP server."""
        return Path(f"{self._memo}-started").exists()


class Night:
    """A holder that slept through a takeover, and what the world did meanwhile."""

    def __init__(self, model: Model, clients: Clients) -> None:
        self.clients = clients
        self._model = model
        self._sent = len(model.asked)
        self._before = {one: bytes(one.got) for one in clients.all}

    @classmethod
    async def over(cls, model: Model, clients: Clients) -> Night:
        """What was there when it fell asleep; then all comes in that it waits for."""
        night = cls(model, clients)
        model.ends.set()
        for one in clients.halves:
            await one.finish()
        await until(lambda: model.ended, "the model has said all")
        return night

    def sent(self) -> list[str]:
        """The paths of what the model API was sent since."""
        return [path for path, _ in self._model.asked[self._sent :]]

    def came(self, client: Client) -> bytes:
        """What a client got since."""
        return bytes(client.got)[len(self._before[client]) :]

    def has(self, client: Client, text: bytes) -> bool:
        """Whether a client got this since."""
        return text in self.came(client)

    def said_nothing(self) -> None:
        """Nothing went to a server, and no client got a byte of an answer."""
        clients = self.clients
        assert self.sent() == []
        assert not clients.called()
        assert self.came(clients.stream) == b""
        assert self.came(clients.progress) == b""
        for one in clients.halves:
            answer = self.came(one)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 503 "), answer
            assert STALE.encode() not in answer


async def slept(root: Path, server: PostgresServer, part: str) -> None:
    """Let a holder sleep through a takeover; `part` is what it lacks (`past_holder`)."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(model_api())
        settings = (
            f'header_seconds = 60.0\n[[model]]\nname = "openai"\napi = "openai"\n'
            f'url = "{model.url}"\n[[mcp]]\nname = "small"\nmap = "context"\n'
            f'command = ["{sys.executable}", "{SERVER}"]\nenv = {{ MEMO = "{root / "memo"}" }}\n'
        )
        program = ("tests.integration.past_holder", part) if part else ("proxy",)
        place = (server.url(),)
        first = Member(root, "first", *place, shard=root.name, settings=settings, program=program)
        stack.callback(first.remove)
        await until(first.is_holder, "the first member holds the store", first)
        second = Member(root, "second", *place, shard=root.name)
        stack.callback(second.remove)
        await until(second.is_standby, "the second member stands by", second)
        assert await asyncio.to_thread(first.write, STALE) == 201
        clients = Clients(first, root / "memo")
        stack.push_async_callback(clients.close)
        await clients.begin()

        first.send(signal.SIGSTOP)
        await until(second.is_holder, "the second member takes over", second)
        night = await Night.over(model, clients)
        first.send(signal.SIGCONT)
        await {"": awoke, "watch": awoke_unaware, "deadline": awoke_as_holder}[part](night, first)


async def awoke(night: Night, woken: Member) -> None:
    """It gives the store up, and ends all that it was in the midst of."""
    await until(woken.is_standby, "the woken member stands by", woken)
    await until(lambda: all(one.is_over() for one in night.clients.all), "all connections end")
    night.said_nothing()


async def awoke_unaware(night: Night, woken: Member) -> None:
    """Each wall refuses by itself."""
    for one in night.clients.halves:
        await until(partial(night.has, one, b" 503 "), "a request is refused", woken)
    for one in (night.clients.stream, night.clients.progress):
        await until(one.is_over, "a stream is broken off", woken)
    night.said_nothing()


async def awoke_as_holder(night: Night, woken: Member) -> None:
    """Control: without a deadline it goes on as if nothing had been."""
    clients = night.clients
    await until(lambda: "/v1/embeddings" in night.sent(), "the model API is sent a request", woken)
    await until(clients.called, "the MCP server is called", woken)
    await until(partial(night.has, clients.progress, b"done"), "its stream goes on", woken)
    await until(partial(night.has, clients.stream, AFTER.encode()), "so does the model's", woken)
    for one in (clients.listing, clients.search):
        await until(partial(night.has, one, STALE.encode()), "memories are read", woken)


async def test_a_holder_that_slept_through_a_takeover_sends_and_answers_nothing(
    server: PostgresServer,
) -> None:
    with ExitStack() as stack:
        # The path of a Unix socket has to be short.
        made = (tempfile.TemporaryDirectory(prefix="woken-") for _ in range(3))
        roots = [Path(stack.enter_context(one)) for one in made]
        async with asyncio.TaskGroup() as nights:
            for root, part in zip(roots, ("", "watch", "deadline"), strict=True):
                nights.create_task(slept(root, server, part))
