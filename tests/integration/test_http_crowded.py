"""Two thousand connections of one neighbour: everybody else is served, and little is held."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import resource
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from policy.model import Principal, PrincipalId, Tenant
from proxy.console import console
from proxy.seams.operation import HttpReply
from proxy.settings.values import Address
from proxy.transport import crowd, listener
from proxy.transport.crowd import Guest
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from tests.integration.http_bench import LIMITS, surroundings
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Running, running

NEIGHBOURS = 2_000
FILES = 3 * NEIGHBOURS
PATIENCE = {"header_seconds": "60", "body_seconds": "60"}
STRANGER = b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BEGUN = b"GET /v1/whoami HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLOW = (
    f"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {AGENT_KEY}\r\n"
    "Content-Length: 1000\r\n\r\n{"
).encode()
FORM = (
    b"POST /review/" + b"0" * 32 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nff000\r\n"
)
FORM_BYTES = 0xFF000
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _enough_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= FILES:
        return
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"a process may have {hard} files open here, and this needs {FILES}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))


@contextlib.asynccontextmanager
async def neighbours(address: Address, count: int, sends: bytes) -> AsyncGenerator[None]:
    """So many connections, each of which sends as much of this as the kernel takes."""
    loop = asyncio.get_running_loop()
    opened: list[socket.socket] = []

    async def one() -> None:
        end = socket.socket()
        end.setblocking(False)  # noqa: FBT003 - a positional parameter of the standard library
        opened.append(end)
        await loop.sock_connect(end, (address.host, address.port))
        with contextlib.suppress(OSError):
            end.send(sends)

    try:
        for _ in range(0, count, 50):
            await asyncio.gather(*(one() for _ in range(50)))
        await asyncio.sleep(0.5)
        yield
    finally:
        for end in opened:
            end.close()


async def status(address: Address, path: str, key: str | None) -> int:
    """What one new connection is answered, 0 for nothing."""
    lines = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    if key is not None:
        lines += f"Authorization: Bearer {key}\r\n"
    try:
        async with asyncio.timeout(10.0):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(f"{lines}\r\n".encode())
            answer = await reader.read()
    except (OSError, TimeoutError):
        return 0
    writer.close()
    return int(answer.split(b" ")[1]) if answer else 0


async def served(live: Running) -> tuple[int, ...]:
    data, admin = addresses(live)
    return (
        await status(data, "/v1/whoami", AGENT_KEY),
        await status(admin, "/api/v1/status", OPERATOR_KEY),
        await status(admin, "/healthz", None),
    )


def addresses(live: Running) -> tuple[Address, Address]:
    data, admin = live.sidecar.data, live.sidecar.admin
    assert data is not None
    assert admin is not None
    return data, admin


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


class NobodyLeaves(crowd.Crowd):
    """The way it was: as many as may be there, whoever they are."""

    def enter(self, guest: Guest) -> bool:
        return len(self) < 512 and super().enter(guest)


class Counted(crowd.RequestTurn):
    """The way it was: a request counts from its head on."""

    def enter(self, principal: str) -> None:
        super().enter(principal)
        self.whole()


@pytest.mark.heavy
@pytest.mark.parametrize("sends", [b"", BEGUN, STRANGER], ids=["silent", "begun", "answered"])
async def test_connections_without_a_key_shut_nobody_out(tmp_path: Path, sends: bytes) -> None:
    async with running(tmp_path, flags=PATIENCE) as live:
        data, admin = addresses(live)
        async with neighbours(data, NEIGHBOURS, sends), neighbours(admin, NEIGHBOURS, sends):
            for _ in range(3):
                assert await served(live) == (200, 200, 200)


@pytest.mark.heavy
async def test_control_where_nobody_makes_room_all_are_shut_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "Crowd", NobodyLeaves)
    async with running(tmp_path, flags=PATIENCE) as live:
        data, admin = addresses(live)
        async with neighbours(data, NEIGHBOURS, BEGUN), neighbours(admin, NEIGHBOURS, BEGUN):
            assert await served(live) == (503, 503, 503)


@pytest.mark.heavy
async def test_slow_bodies_of_one_key_shut_no_other_tenant_out(tmp_path: Path) -> None:
    async with running(tmp_path, flags=PATIENCE) as live:
        key = await live.key("alice", tenant="another")
        data, _ = addresses(live)
        for count in (300, NEIGHBOURS):
            async with neighbours(data, count, SLOW):
                assert await status(data, "/v1/whoami", key) == 200
                written, _ = await live.write(key, {"text": f"The bell rang {count} times."})
                assert written == 201
                assert await status(data, "/v1/whoami", AGENT_KEY) == 200


@pytest.mark.heavy
async def test_control_where_a_body_that_arrives_counts_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "RequestTurn", Counted)
    monkeypatch.setattr(crowd, "BURST", 1_000)
    async with running(tmp_path, flags=PATIENCE) as live:
        key = await live.key("alice", tenant="another")
        data, _ = addresses(live)
        async with neighbours(data, 300, SLOW):
            assert await status(data, "/v1/whoami", key) == 503


async def held_bytes(live: Running, count: int) -> int:
    _, admin = addresses(live)
    # What was freed before and not given back would hide what is held now.
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    async with neighbours(admin, count, FORM + b"a" * FORM_BYTES):
        await asyncio.sleep(2.0)
        assert await served(live) == (200, 200, 200)
        return resident_bytes() - before


@pytest.mark.heavy
async def test_who_has_no_key_makes_us_hold_next_to_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, flags=PATIENCE) as live:
        assert await held_bytes(live, NEIGHBOURS) < 96 * MIB


@pytest.mark.heavy
async def test_control_with_a_form_of_any_size_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "FORM_BYTES_MAX", MIB)
    async with running(tmp_path, flags=PATIENCE) as live:
        assert await held_bytes(live, 300) > 150 * MIB


UNREAD_BYTES_MAX = 16 * MIB
PATIENT = msgspec.structs.replace(
    LIMITS, header_seconds=600.0, body_seconds=600.0, unread_bytes_max=UNREAD_BYTES_MAX
)
WAIT_S = 10.0


class Pages:
    """Answers everything with a page, to the principal that the path names."""

    name = "data"
    routes = frozenset({"page"})

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        name = incoming.head.path.strip("/")
        incoming.enter(Principal(principal_id=PrincipalId(name), tenant=Tenant("default")))
        reply = HttpReply(status=200, content_type="text/plain", body=b"x" * MIB)
        return AnsweredReply(reply=reply, route="page", principal=name)


def asks(name: str) -> bytes:
    return f"GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def status_with(port: int, name: str) -> bytes:
    async with asyncio.timeout(WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asks(name))
        line = await reader.readline()
        writer.transport.abort()
    return line.split()[1]


async def that_read_nothing(port: int, peers: list[socket.socket]) -> None:
    """Let connections ask for page after page, until no answer is let wait any more."""
    loop = asyncio.get_running_loop()
    refused = 0
    # Several times in a row: what the kernel still took meanwhile is room again.
    while refused < 3:
        if await status_with(port, "greedy") == b"503":
            refused += 1
            await asyncio.sleep(0.05)
            continue
        refused = 0
        for _ in range(8):
            peer = socket.socket()
            peers.append(peer)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            peer.settimeout(0)
            await loop.sock_connect(peer, ("127.0.0.1", port))
            # More than the kernel keeps by itself.
            await loop.sock_sendall(peer, asks("greedy") * 16)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "control"])
async def test_who_reads_no_answers_leaves_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    if not shared:
        monkeypatch.setattr("proxy.transport.listener.BURST", 1_000_000)
    listener = Listener(
        Pages(),
        limits=msgspec.structs.replace(PATIENT, connections_max=256, requests_max=256),
        rules=HostRules.of((), (), "127.0.0.1"),
        surroundings=surroundings(lambda _event: None),
        halt=lambda: None,
    )
    port = (await listener.open_tcp(Address(host="127.0.0.1", port=0))).port
    peers: list[socket.socket] = []
    try:
        assert await status_with(port, "greedy") == b"200"
        await that_read_nothing(port, peers)
        assert await status_with(port, "modest") == (b"200" if shared else b"503")
    finally:
        for peer in peers:
            peer.close()
        await listener.close()
