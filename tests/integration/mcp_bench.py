"""A data listener that serves `/mcp/small`: a real server behind, a guard in memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp

from policy.model import Principal, PrincipalId, Tenant
from proxy.dialects.sse import EventFields, FieldReader
from proxy.fronts.mcp_http import McpFront, ServedServer
from proxy.mcp.http.child import ServerCommandLine
from proxy.mcp.http.hub import BackgroundWork, Hub, HubLimits
from proxy.mcp.relay import Deliver, Relay, RelayLimits
from proxy.mcp.relay import Server as Behind
from proxy.seams.environment import Environment, RandomPool
from proxy.settings.tool_maps import shipped_map
from proxy.settings.values import Address
from proxy.transport.auth import Authenticator, hash_key
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from proxy.transport.upstream import Upstream, UpstreamLimits
from storage.values import KeyRecord
from telemetry.events import Event as Recorded
from tests.integration.http_bench import LIMITS
from tests.unit.proxy.mcp.guarding import MemoryGuard

Json = dict[str, Any]
KEYS = {name: f"mg_test_{name}_key_of_forty_characters_xx" for name in ("ada", "bob")}
VERSION = "2026-07-28"
META: Json = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
UPSTREAM = UpstreamLimits(head_seconds=2.0, body_seconds=2.0, body_bytes_max=1024 * 1024)
WAIT_S = 10.0


class Answer:
    """One answer: a body, or the events of a stream that ended."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    @property
    def events(self) -> list[EventFields]:
        return FieldReader().feed(self.body)

    @property
    def messages(self) -> list[Any]:
        if self.headers["content-type"] == "text/event-stream":
            return [json.loads(event.data) for event in self.events if event.data]
        return [json.loads(self.body)] if self.body else []


class McpBench:
    def __init__(self, url: str, http: aiohttp.ClientSession, listener: Listener) -> None:
        self.url = url
        self.http = http
        self.listener = listener
        self.guard: MemoryGuard
        self.hub: Hub
        self.authenticator: Authenticator
        self.recorded: list[Recorded] = []

    def headers(self, who: str | None = "ada", **more: str) -> dict[str, str]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        if who is not None:
            headers["Authorization"] = f"Bearer {KEYS[who]}"
        return headers

    async def send(
        self, method: str, headers: dict[str, str], body: object = None, path: str = "/mcp/small"
    ) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        async with asyncio.timeout(WAIT_S):
            async with self.http.request(
                method, self.url + path, headers=headers, data=data
            ) as response:
                found = await response.read()
                return Answer(response.status, dict(response.headers), found)

    async def post(self, body: object, who: str | None = "ada", **more: str) -> Answer:
        return await self.send("POST", self.headers(who, **more), body)

    async def initialize(self, who: str = "ada") -> str:
        answer = await self.post(request(0, "initialize", protocolVersion="2025-11-25"), who)
        assert answer.status == 200, answer.body
        session = answer.headers["mcp-session-id"]
        told = await self.post(
            notification("notifications/initialized"), who, mcp_session_id=session
        )
        assert (told.status, told.body) == (202, b"")
        return session

    async def stateless(self, body: Json, who: str = "ada", **more: str) -> Answer:
        return await self.send("POST", {**self.headers(who), **stateless_head(body), **more}, body)


async def until(true: Callable[[], bool]) -> None:
    """Until it is so; what is waited for happens in another task."""
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - the tests look from outside
            await asyncio.sleep(0.005)


def request(request_id: int | str, method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def call(request_id: int | str, name: str, **arguments: object) -> Json:
    return request(request_id, "tools/call", name=name, arguments=arguments)


def modern(body: Json) -> Json:
    return {**body, "params": {**body["params"], "_meta": META}}


def notification(method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def stateless_head(body: Json) -> dict[str, str]:
    head = {"MCP-Protocol-Version": VERSION, "Mcp-Method": body["method"]}
    name = body["params"].get("name", body["params"].get("uri"))
    return head if name is None else {**head, "Mcp-Name": name}


def records() -> tuple[KeyRecord, ...]:
    return tuple(
        KeyRecord(
            key_id=name,
            key_sha256=hash_key(key),
            principal=Principal(principal_id=PrincipalId(name), tenant=Tenant("default")),
            created_at_ms=0,
        )
        for name, key in KEYS.items()
    )


@asynccontextmanager
async def bench(
    behind: str | ServerCommandLine,
    *,
    limits: HubLimits | None = None,
    principals: frozenset[str] | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    remembers: bool = False,
) -> AsyncGenerator[McpBench]:
    guard, recorded = MemoryGuard(), list[Any]()
    out = Environment(clock_ns=time.time_ns, random_hex=RandomPool(), record=recorded.append)

    small = Behind("small", shipped_map("server-memory"), context=not remembers)
    if isinstance(behind, str):
        # Its tools are known already: what is looked at here is the transport.
        small.listed(Tenant("default"), ())

    def relay_for(principal: Principal, deliver: Deliver) -> Relay:
        return Relay(
            guard,
            principal,
            small,
            deliver,
            limits=RelayLimits(),
            surroundings=out,
        )

    async with AsyncExitStack() as stack:
        server: Upstream | ServerCommandLine
        if isinstance(behind, str):
            server = await stack.enter_async_context(
                Upstream(behind, headers=headers, limits=UPSTREAM)
            )
        else:
            server = behind
        beside = BackgroundWork()
        hub = Hub(
            "small",
            server,
            relay_for,
            limits=limits or HubLimits(),
            spawn=beside.spawn,
            halt=lambda: None,
            now_s=time.monotonic,
            random_hex=out.random_hex,
        )
        authenticator = Authenticator(records, (), out.now_ms)
        front = McpFront(
            {"small": ServedServer(hub=hub, principals=principals)},
            authenticator,
            lambda: None,
        )
        listener = Listener(
            front,
            limits=LIMITS,
            rules=HostRules.of((), (), "127.0.0.1"),
            surroundings=out,
            halt=lambda: None,
        )
        address = await listener.open_tcp(Address(host="127.0.0.1", port=0))
        stack.push_async_callback(listener.close)
        await stack.enter_async_context(beside.running(front.close))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        made = McpBench(f"http://127.0.0.1:{address.port}", http, listener)
        made.guard, made.hub, made.recorded = guard, hub, recorded
        made.authenticator = authenticator
        yield made
