"""Answers that one principal does not read, and what is left for its neighbours."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from policy.model import Principal, PrincipalId, Tenant
from proxy.seams.operation import HttpReply
from proxy.settings.values import Address
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from tests.integration.http_bench import LIMITS, surroundings

MIB = 1024 * 1024
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


async def status(port: int, name: str) -> bytes:
    """What a peer is answered that reads all of it."""
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
        if await status(port, "greedy") == b"503":
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
        assert await status(port, "greedy") == b"200"
        await that_read_nothing(port, peers)
        assert await status(port, "modest") == (b"200" if shared else b"503")
    finally:
        for peer in peers:
            peer.close()
        await listener.close()
