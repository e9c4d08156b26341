"""A key that ends takes with it what is open on it: on every front, and up to the commit itself."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from proxy.compose.app import Composition
from tests.integration.mcp_bench import (
    WAIT_S,
    call,
    modern,
    notification,
    request,
    stateless_head,
    until,
)
from tests.integration.mcp_server import Server, result, serving
from tests.integration.model_bench import asking, fronted
from tests.integration.models.script import Context, Move
from tests.integration.models.server import Fault
from tests.integration.running import Running, running

Json = dict[str, Any]
ENDED = "a valid credential is required"
GOOD = "The office closes at six on Fridays."


class Agent:
    def __init__(self, front: Running, key_id: str, key: str) -> None:
        self.front = front
        self.key_id = key_id
        self.key = key

    async def operator(self, path: str, body: Json | None = None) -> Json:
        return await self.front.operate("POST", f"/keys{path}", body or {})

    async def revoke(self) -> None:
        await self.operator(f"/{self.key_id}/revoke")

    async def whoami(self) -> int:
        return (await self.front.call("GET", "/v1/whoami", self.key))[0]

    def half(self, path: str, body: Json) -> Half:
        return Half(self, path, json.dumps(body).encode())


async def until_refused(who: Agent) -> None:
    async with asyncio.timeout(WAIT_S):
        while await who.whoami() != 401:
            pass


async def agent(front: Running, name: str) -> Agent:
    made = await Agent(front, "", "").operator("", {"name": name, "tenant": "default"})
    return Agent(front, made["key"]["key_id"], made["plain"])


class Half:
    """A request of which the body's end is still to come."""

    def __init__(self, who: Agent, path: str, body: bytes) -> None:
        self._who = who
        self._path = path
        self._body = body
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def begin(self) -> None:
        address = self._who.front.sidecar.data
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port)
        self._streams = reader, writer
        scheme = "Token" if self._path.startswith("/v3/") else "Bearer"
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: {scheme} {self._who.key}\r\nContent-Type: application/json\r\n"
            f"Expect: 100-continue\r\nContent-Length: {len(self._body)}\r\n\r\n"
        )
        writer.write(head.encode())
        # Whoever is told to go on was let in by its key.
        assert b"100" in await reader.readline()
        await reader.readline()
        writer.write(self._body[:10])
        await writer.drain()

    async def end(self) -> bytes:
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(self._body[10:])
        async with asyncio.timeout(WAIT_S):
            answer = await reader.read()
        writer.close()
        return answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/memories", {"text": GOOD}),
        ("/v3/memories/add/", {"messages": [{"role": "user", "content": GOOD}], "infer": False}),
    ],
    ids=["native", "mem0"],
)
async def test_a_half_sent_write_of_a_key_that_ends_is_refused(
    tmp_path: Path, path: str, body: Json
) -> None:
    async with running(tmp_path) as front:
        ends, stays = await agent(front, "ends"), await agent(front, "stays")
        first, second = (one.half(path, {**body, "user_id": "a"}) for one in (ends, stays))
        await first.begin()
        await second.begin()
        await ends.revoke()
        assert (await first.end()).startswith(b"HTTP/1.1 401 ")
        assert await front.texts(stays.key) == []
        answer = await second.end()
        assert answer.startswith((b"HTTP/1.1 201 ", b"HTTP/1.1 200 ")), answer
        assert await front.texts(stays.key) == [GOOD]


class Halting:
    """A failpoint at which the writer's thread waits."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.armed = False
        self.reached = threading.Event()
        self.release = threading.Event()

    def __call__(self, name: str) -> None:
        if self.armed and name == self._name:
            self.armed = False
            self.reached.set()
            self.release.wait(WAIT_S)


@pytest.mark.parametrize("revoked", [True, False])
async def test_what_was_decided_before_a_key_ended_stands_and_what_waits_is_refused(
    tmp_path: Path,
    revoked: bool,  # noqa: FBT001
) -> None:
    halting = Halting("decided")
    async with running(tmp_path, Composition(failpoint=halting)) as front:
        ends = await agent(front, "ends")
        other = await agent(front, "other")
        halting.armed = True
        async with asyncio.TaskGroup() as group:
            before = group.create_task(front.write(ends.key, {"text": GOOD}))
            await until(halting.reached.is_set)
            waiting = group.create_task(front.write(ends.key, {"text": "The bakery opens at 7."}))
            others = group.create_task(front.write(other.key, {"text": "Lunch is at noon."}))
            register = front.sidecar.store.writer
            await until(lambda: _queued(register) == 2)
            if revoked:
                ending = group.create_task(ends.revoke())
                await until_refused(ends)
                assert not ending.done(), "it is not durable yet, and nobody is let in"
            halting.release.set()
        assert before.result()[0] == 201
        assert others.result()[0] == 201
        assert waiting.result()[0] == (401 if revoked else 201)
        landed = {GOOD, "Lunch is at noon."}
        if not revoked:
            landed.add("The bakery opens at 7.")
        assert set(await front.texts(other.key)) == landed


def _queued(writer: Any) -> int:  # noqa: ANN401 - the tests look from inside
    found: int = writer._queue.qsize()
    return found


async def test_a_read_that_is_answered_after_the_key_ended_shows_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as front:
        ends, stays = await agent(front, "ends"), await agent(front, "stays")
        assert (await front.write(ends.key, {"text": GOOD}))[0] == 201
        halves = [one.half("/v1/search", {"query": "office"}) for one in (ends, stays)]
        for half in halves:
            await half.begin()
        await ends.revoke()
        refused, found = [await half.end() for half in halves]
        assert refused.startswith(b"HTTP/1.1 401 ")
        assert GOOD.encode() not in refused
        assert GOOD.encode() in found


def _at_length(_context: Context) -> Move:
    return Move(text=" ".join(f"word{number}" for number in range(2_000)))


@pytest.mark.parametrize("api", ["anthropic", "chat"])
async def test_a_models_stream_ends_with_the_key_that_asked(tmp_path: Path, api: str) -> None:
    async with fronted(tmp_path) as bench:
        ends, stays = await agent(bench.front, "ends"), await agent(bench.front, "stays")
        bench.model.piece_len, bench.model.pause_s = 64, 0.05
        bench.model.move = _at_length
        body = asking(api, "Tell me a long story.", stream=True)
        path = {"anthropic": "/anthropic/v1/messages", "chat": "/openai/v1/chat/completions"}[api]
        async with (
            _asked(bench.front, path, ends, body) as first,
            _asked(bench.front, path, stays, body) as second,
        ):
            assert (first.status, second.status) == (200, 200)
            await first.content.readany()
            await second.content.readany()
            await ends.revoke()
            async with asyncio.timeout(WAIT_S):
                assert await _torn(first)
                await bench.model.left.wait()
            assert await second.content.readany(), "another key's stream goes on"


async def test_a_request_that_waits_for_the_model_ends_with_its_key(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        ends = await agent(bench.front, "ends")
        bench.model.faults = [Fault(silent_s=60.0)]
        body = asking("chat", "hello")
        async with asyncio.TaskGroup() as group:
            work = _asked(bench.front, "/openai/v1/chat/completions", ends, body)
            asked = group.create_task(_whole(work))
            await until(lambda: bool(bench.model.requests))
            await ends.revoke()
            async with asyncio.timeout(WAIT_S):
                status, text = await asked
        assert (status, ENDED in text) == (401, True)


async def _lists_its_tool(_request: web.Request, body: Json) -> web.StreamResponse | None:
    if body.get("method") != "tools/list":
        return None
    tools = [{"name": "slow", "inputSchema": {"type": "object"}}]
    return web.json_response(result(body["id"], tools=tools))


@asynccontextmanager
async def before_a_server(base: Path, server: Server) -> AsyncGenerator[Running]:
    server.script = _lists_its_tool
    table = f'[[mcp]]\nname = "small"\nurl = "{server.url}"\nmap = "context"\n'
    async with running(base, tables=table) as front:
        yield front


def _headers(who: Agent, **more: str) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    accept = "application/json, text/event-stream"
    return {"Authorization": f"Bearer {who.key}", "Accept": accept, **named}


@asynccontextmanager
async def _asked(
    front: Running, path: str, who: Agent, body: Json | None = None, **more: str
) -> AsyncGenerator[aiohttp.ClientResponse]:
    method = "GET" if body is None else "POST"
    url = front.url + path
    async with front.client.request(method, url, json=body, headers=_headers(who, **more)) as got:
        yield got


async def _whole(asked: Any) -> tuple[int, str]:  # noqa: ANN401 - as aiohttp's contexts are
    async with asked as got:
        try:
            return got.status, await got.text()
        except aiohttp.ClientError:
            return got.status, ENDED


async def _torn(got: aiohttp.ClientResponse) -> bool:
    try:
        while await got.content.readany():
            pass
    except aiohttp.ClientError:
        return True
    return False


async def _session(front: Running, who: Agent) -> str:
    hello = request(0, "initialize", protocolVersion="2025-11-25")
    async with _asked(front, "/mcp/small", who, hello) as got:
        assert got.status == 200, await got.text()
        session = got.headers["mcp-session-id"]
    ready = notification("notifications/initialized")
    async with _asked(front, "/mcp/small", who, ready, mcp_session_id=session) as got:
        assert got.status == 202
    return session


async def test_an_mcp_session_its_stream_and_its_call_end_with_the_key(tmp_path: Path) -> None:
    async with serving(Server()) as server, before_a_server(tmp_path, server) as front:
        ends, stays = await agent(front, "ends"), await agent(front, "stays")
        gone, kept = await _session(front, ends), await _session(front, stays)
        async with (
            _asked(front, "/mcp/small", ends, mcp_session_id=gone) as first,
            _asked(front, "/mcp/small", stays, mcp_session_id=kept) as second,
            asyncio.TaskGroup() as group,
        ):
            slow = call(1, "slow")
            flying = [
                group.create_task(
                    _whole(_asked(front, "/mcp/small", who, slow, mcp_session_id=session))
                )
                for who, session in ((ends, gone), (stays, kept))
            ]
            await until(lambda: sum(one.get("method") == "tools/call" for one in server.bodies) > 1)
            await ends.revoke()
            async with asyncio.timeout(WAIT_S):
                await _torn(first)
                status, text = await flying[0]
            assert '"slow"' not in text, (status, text)
            server.release.set()
            status, text = await flying[1]
            assert (status, '"result"' in text) == (200, True), text
            server.sessions["session-2"].pushes.put_nowait(notification("notifications/told"))
            async with asyncio.timeout(WAIT_S):
                while b"notifications/told" not in await second.content.readany():
                    pass


async def test_an_mcp_call_without_a_session_ends_with_its_key(tmp_path: Path) -> None:
    async with serving(Server()) as server, before_a_server(tmp_path, server) as front:
        ends, stays = await agent(front, "ends"), await agent(front, "stays")
        body = modern(call(1, "slow"))
        async with asyncio.TaskGroup() as group:
            flying = [
                group.create_task(
                    _whole(_asked(front, "/mcp/small", who, body, **stateless_head(body)))
                )
                for who in (ends, stays)
            ]
            await until(lambda: sum(one.get("method") == "tools/call" for one in server.bodies) > 1)
            await ends.revoke()
            status, text = await flying[0]
            assert (status, '"result"' in text) == (401, False)
            server.release.set()
            status, text = await flying[1]
            assert (status, '"result"' in text) == (200, True), text


async def test_a_session_is_of_the_key_that_opened_it(tmp_path: Path) -> None:
    async with serving(Server()) as server, before_a_server(tmp_path, server) as front:
        first = await agent(front, "ada")
        made = await first.operator("", {"name": "ada", "tenant": "default"})
        second = Agent(front, made["key"]["key_id"], made["plain"])
        session = await _session(front, first)
        ping = request(1, "ping")
        async with _asked(front, "/mcp/small", second, ping, mcp_session_id=session) as got:
            assert got.status == 404, "it opens one of its own"
        await first.revoke()
        assert await second.whoami() == 200
        again = await _session(front, second)
        async with _asked(front, "/mcp/small", second, ping, mcp_session_id=again) as got:
            assert got.status == 200


async def test_a_rotated_key_ends_what_is_open_on_it_when_its_grace_is_over(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        old = await agent(bench.front, "ada")
        bench.model.piece_len, bench.model.pause_s = 64, 0.05
        bench.model.move = _at_length
        body = asking("chat", "Tell me a long story.", stream=True)
        path = "/openai/v1/chat/completions"
        async with _asked(bench.front, path, old, body) as stream:
            made = await old.operator(f"/{old.key_id}/rotate", {"grace_seconds": 1})
            assert await stream.content.readany(), "in its grace it goes on"
            async with asyncio.timeout(WAIT_S):
                assert await _torn(stream)
        assert await old.whoami() == 401
        assert await Agent(bench.front, "", made["plain"]).whoami() == 200


async def test_an_operator_that_ends_its_own_key_is_told_so(tmp_path: Path) -> None:
    async with running(tmp_path) as front:
        await front.operate("POST", "/keys/operator/revoke", {})
        await front.operate("GET", "/keys", status=401)
