"""The relay: it forwards or refuses, never raises, never reorders, and sends on no unknown tool."""

from __future__ import annotations

import asyncio
import json

from proxy.dialects.mcp.message import LIST, NotRelayed, parse
from proxy.mcp.lines import Lines, TooLong
from proxy.mcp.relay import Relay, RelayLimits, Side
from tests.unit.proxy.mcp.graph import TOOLS, GraphServer
from tests.unit.proxy.mcp.guarding import EVIL, MemoryGuard
from tests.unit.proxy.mcp.wire import Ends, is_own, relayed

WORDS = (
    (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_entities",'
        b'"arguments":{"entities":[{"name":"Ann","entityType":"person","observations":["x"]}]}}}\n'
    ),
    b'{"jsonrpc":"2.0","id":"1","method":"ping"}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
    b"\x00",
    b'"id":',
    b'"result":{}',
    b"EVIL",
    b"requestState",
    b"_meta",
    b"\\u0000",
    b"\r",
)
LIMITS = RelayLimits(message_bytes_max=4_096, answer_seconds=1, person_seconds=1)
KNOWN = frozenset(TOOLS) - {"reset_everything"}


def check(data: bytes) -> None:
    """A zero byte hands over to the other side; each side is cut into lines by itself."""
    asyncio.run(_relayed(data))


async def _relayed(data: bytes) -> None:
    guard = MemoryGuard()
    async with relayed(guard, limits=LIMITS) as ends:
        graph = GraphServer(ends)
        client = await _fed(ends.relay, data)
        for side in Side:
            await ends.relay.flushed(side)
    _check_sent(ends, client)
    assert EVIL not in json.dumps(graph.calls)
    assert {one["name"] for one in graph.calls} <= KNOWN
    settled = [candidate_id for candidate_id, _ in guard.settled]
    assert set(settled) == set(guard.states), "every admitted item is settled"


async def _fed(relay: Relay, data: bytes) -> list[bytes]:
    lines = {side: Lines(LIMITS.message_bytes_max) for side in Side}
    said: list[bytes] = []
    for number, part in enumerate(data.split(b"\x00")):
        side = Side.SERVER if number % 2 else Side.CLIENT
        take = relay.from_server if number % 2 else relay.from_client
        for one in (*lines[side].feed(part), *lines[side].end()):
            if isinstance(one, TooLong):
                await relay.refused(side, one.request_id, "message: too long")
                continue
            if side is Side.CLIENT:
                said.append(one)
            await take(one)
    return said


def _check_sent(ends: Ends, said: list[bytes]) -> None:
    """Check that the server got a subsequence of what the client sent."""
    rest = iter(said)
    for raw in ends.to_server:
        assert b"\n" not in raw
        assert b"\r" not in raw
        sent = parse(raw)
        if sent.method == LIST and is_own(raw):
            continue
        for one in rest:
            try:
                came = parse(one, bytes_max=LIMITS.message_bytes_max)
            except NotRelayed:
                continue
            if (came.kind, came.request_id, came.method) == (
                sent.kind,
                sent.request_id,
                sent.method,
            ):
                break
        else:
            raise AssertionError("sent out of order, or never said")
