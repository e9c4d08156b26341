"""Answers that come in pieces, over real sockets: as fast as the peer reads, and no longer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec
import pytest

from proxy.seams.operation import HttpReply
from proxy.settings.table import Limits
from proxy.settings.values import Address
from proxy.transport.exchange import AnsweredReply, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener
from tests.integration.http_bench import LIMITS, request_bytes, surroundings

WAIT_S = 5.0
LAST_CHUNK = b"0\r\n\r\n"


class Source:
    """Pieces that a test hands over one by one; None ends them, an exception breaks them off."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.asked = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.asked += 1
            piece = await self.pieces.get()
            if piece is None:
                return
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed.set()


class StreamFront:
    name = "data"
    routes = frozenset({"stream"})

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.came = asyncio.Event()

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        del incoming
        source = Source()
        self.sources.append(source)
        self.came.set()
        reply = HttpReply(status=200, content_type="text/event-stream")
        return AnsweredReply(reply=reply, route="stream", pieces=source)


class Bench:
    def __init__(self, listener: Listener, front: StreamFront, port: int) -> None:
        self.listener = listener
        self.front = front
        self.port = port

    async def ask(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Source]:
        self.front.came.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request_bytes("GET", "/"))
        await asyncio.wait_for(self.front.came.wait(), WAIT_S)
        return reader, writer, self.front.sources[-1]


@contextlib.asynccontextmanager
async def streaming(limits: Limits = LIMITS) -> AsyncGenerator[Bench]:
    front = StreamFront()
    listener = Listener(
        front,
        limits=limits,
        rules=HostRules.of((), (), "127.0.0.1"),
        surroundings=surroundings(lambda _event: None),
        halt=lambda: None,
    )
    address = await listener.open_tcp(Address(host="127.0.0.1", port=0))
    try:
        yield Bench(listener, front, address.port)
    finally:
        await listener.close()


async def idle(listener: Listener) -> None:
    async with asyncio.timeout(WAIT_S):
        while listener.in_flight:  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0)


async def test_a_piece_arrives_before_the_next_one_is_made() -> None:
    async with streaming() as bench:
        reader, writer, source = await bench.ask()
        source.pieces.put_nowait(b"first")
        head = await asyncio.wait_for(reader.readuntil(b"first\r\n"), WAIT_S)
        assert head.startswith(b"HTTP/1.1 200")
        assert b"Content-Length" not in head
        source.pieces.put_nowait(b"second")
        source.pieces.put_nowait(None)
        rest = await asyncio.wait_for(reader.read(-1), WAIT_S)
        assert b"second" in rest
        assert rest.endswith(LAST_CHUNK)
        assert source.closed.is_set()
        writer.close()


async def test_a_stream_is_in_flight_until_its_last_byte() -> None:
    limits = msgspec.structs.replace(LIMITS, requests_max=1)
    async with streaming(limits) as bench:
        reader, writer, source = await bench.ask()
        other, closing = await asyncio.open_connection("127.0.0.1", bench.port)
        closing.write(request_bytes("GET", "/"))
        refused = await asyncio.wait_for(other.read(-1), WAIT_S)
        assert refused.startswith(b"HTTP/1.1 503")
        source.pieces.put_nowait(None)
        await asyncio.wait_for(reader.read(-1), WAIT_S)
        await idle(bench.listener)
        again, leaving, fresh = await bench.ask()
        fresh.pieces.put_nowait(None)
        assert (await asyncio.wait_for(again.read(-1), WAIT_S)).startswith(b"HTTP/1.1 200")
        for one in (writer, closing, leaving):
            one.close()


@pytest.mark.parametrize("leaves", [asyncio.StreamWriter.close, asyncio.StreamWriter.write_eof])
async def test_a_peer_that_leaves_an_idle_stream_frees_it(
    leaves: Callable[[asyncio.StreamWriter], None],
) -> None:
    async with streaming() as bench:
        reader, writer, source = await bench.ask()
        source.pieces.put_nowait(b"first")
        await asyncio.wait_for(reader.readuntil(b"first\r\n"), WAIT_S)
        leaves(writer)
        await asyncio.wait_for(source.closed.wait(), WAIT_S)
        writer.close()
        await idle(bench.listener)


async def test_an_empty_piece_does_not_end_an_answer() -> None:
    async with streaming() as bench:
        reader, writer, source = await bench.ask()
        for piece in (b"one", b"", b"two", None):
            source.pieces.put_nowait(piece)
        raw = await asyncio.wait_for(reader.readuntil(LAST_CHUNK), WAIT_S)
        assert raw.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n" + LAST_CHUNK)
        writer.close()


async def test_what_breaks_in_the_middle_is_never_taken_for_whole() -> None:
    async with streaming() as bench:
        reader, writer, source = await bench.ask()
        source.pieces.put_nowait(b"half")
        await asyncio.wait_for(reader.readuntil(b"half\r\n"), WAIT_S)
        source.pieces.put_nowait(RuntimeError("secret text"))
        rest = b""
        with contextlib.suppress(ConnectionError):
            rest = await asyncio.wait_for(reader.read(-1), WAIT_S)
        assert LAST_CHUNK not in rest
        assert b"secret" not in rest
        assert source.closed.is_set()
        writer.close()


async def test_a_listener_that_closes_does_not_wait_for_idle_streams() -> None:
    limits = msgspec.structs.replace(LIMITS, drain_seconds=60.0)
    async with streaming(limits) as bench:
        _, writer, source = await bench.ask()
        await asyncio.wait_for(bench.listener.close(), WAIT_S)
        assert source.closed.is_set()
        writer.close()
