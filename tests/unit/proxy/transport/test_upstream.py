"""A server behind that lies, hangs or floods: every wait ends, and nothing is followed."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, nullcontext, suppress

import pytest
import zstandard

from proxy.seams.environment import Serving
from proxy.seams.faults import UpstreamError
from proxy.transport.upstream import Upstream, UpstreamLimits, end_to_end

LIMITS = UpstreamLimits(
    connect_seconds=2.0, head_seconds=0.5, body_seconds=0.5, body_bytes_max=100_000
)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Peer:
    """Answers every connection with the same bytes, and keeps what it was sent."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.heads: list[bytes] = []


@asynccontextmanager
async def answering(raw: bytes, *, hang: bool = False) -> AsyncGenerator[Peer]:
    stop = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError):
            peer.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(raw)
            if hang:
                await stop.wait()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    peer = Peer(server.sockets[0].getsockname()[1])
    try:
        yield peer
    finally:
        stop.set()
        server.close()


async def fetched(url: str) -> tuple[int, dict[str, str], bytes]:
    headers = (("X-Upstream-Key", "ours"),)
    async with (
        Upstream(url, headers=headers, limits=LIMITS) as upstream,
        upstream.send(
            "POST",
            {
                "x-upstream-key": "theirs",
                "cookie": "a=b",
                "connection": "x-hop",
                "x-hop": "1",
                "accept-encoding": "gzip, br",
                "mcp-session-id": "s",
            },
            b"{}",
        ) as reply,
    ):
        return reply.status, reply.headers, await upstream.whole(reply)


async def test_an_answer_comes_back_and_only_what_may_pass_is_sent() -> None:
    raw = OK + b"Set-Cookie: a=b\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\n{}"
    async with answering(raw) as peer:
        status, headers, body = await fetched(peer.url)
    assert (status, body) == (200, b"{}")
    assert headers == {"content-type": "application/json", "www-authenticate": "Bearer"}
    head = peer.heads[0].lower()
    assert b"x-upstream-key: ours" in head
    assert b"mcp-session-id: s" in head
    assert b"accept-encoding: identity" in head
    for gone in (b"theirs", b"cookie", b"x-hop"):
        assert gone not in head


@pytest.mark.parametrize("fenced", [True, False])
async def test_a_past_holder_of_a_shard_sends_no_byte_to_a_server(*, fenced: bool) -> None:
    serving = Serving(holds=(lambda: False) if fenced else lambda: True)
    raw = OK + b"Content-Length: 2\r\n\r\n{}"
    async with answering(raw) as peer, Upstream(peer.url, serving=serving) as upstream:
        with pytest.raises(UpstreamError, match="does not hold") if fenced else nullcontext():
            async with upstream.send("POST", {}, b"{}") as reply:
                assert await upstream.whole(reply) == b"{}"
    # Control: the holder's request arrives.
    assert len(peer.heads) == (0 if fenced else 1)


async def test_no_piece_of_an_answer_is_given_out_after_the_lease() -> None:
    held = [True]
    raw = OK + b"Content-Length: 2\r\n\r\n{}"
    async with (
        answering(raw) as peer,
        Upstream(peer.url, serving=Serving(holds=lambda: bool(held))) as upstream,
        upstream.send("POST", {}) as reply,
    ):
        held.clear()
        with pytest.raises(UpstreamError, match="does not hold") as broken:
            await upstream.whole(reply)
    # Whether the request arrived is not known from this.
    assert broken.value.sent


async def _packed(coding: str, packed: bytes, more: str = "") -> bytes:
    head = f"Content-Encoding: {coding}\r\n{more}Content-Length: {len(packed)}\r\n\r\n"
    async with answering(OK + head.encode() + packed) as peer:
        _, headers, body = await fetched(peer.url)
    assert "content-encoding" not in headers
    return body


async def test_an_answer_of_several_parts_is_read_whole() -> None:
    for coding, pack in (("gzip", gzip.compress), ("zstd", zstandard.compress)):
        parts = [pack(b"%d." % at) for at in range(300)]
        whole = b"".join(b"%d." % at for at in range(300))
        assert await _packed(coding, b"".join(parts)) == whole
        assert await _packed(coding, b"") == b""
        for broken in (b"".join(parts)[:-1], b"".join(parts) + b"x"):
            with pytest.raises(UpstreamError, match=r"not whole|opened"):
                await _packed(coding, broken)
    chain = zstandard.compress(gzip.compress(b"a") + gzip.compress(b"b"))
    assert await _packed("gzip, zstd", chain) == b"ab"


@pytest.mark.parametrize("name", ["X-Name", "Content-Type", "Location"])
async def test_a_header_in_latin_1_or_a_trailer_breaks_no_answer(name: str) -> None:
    raw = OK + f"{name}: Jos\u00e9\r\n".encode("latin-1") + b"Transfer-Encoding: chunked\r\n\r\n"
    async with answering(raw + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\nX-Name: Jos\xe9\r\n\r\n") as peer:
        status, headers, body = await fetched(peer.url)
    assert (status, body) == (200, b"{}")
    assert name == "Content-Type" or headers == {"content-type": "application/json"}
    assert all(value.isascii() for value in headers.values())


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
async def test_a_compressed_answer_is_opened_within_its_limit(
    compress: Callable[[bytes], bytes],
) -> None:
    coding = b"gzip" if compress is gzip.compress else b"deflate"
    for size, fits in ((50_000, True), (50_000_000, False)):
        packed = compress(b"x" * size)
        assert len(packed) < LIMITS.body_bytes_max, "control: it is small until it is opened"
        raw = OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(packed))
        async with answering(raw + packed) as peer:
            if fits:
                assert len((await fetched(peer.url))[2]) == size
            else:
                with pytest.raises(UpstreamError, match="too large"):
                    await fetched(peer.url)


@pytest.mark.parametrize(
    ("raw", "hang", "says"),
    [
        (b"", True, "in time"),
        (b"HTTP/1.1 200 OK\r\n", True, "in time"),
        (OK + b"Content-Length: 10\r\n\r\n{", True, "in time"),
        (OK + b"Content-Length: 10\r\n\r\n{", False, "broke off"),
        (OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1_000_000, False, "too large"),
        (b"", False, "broke the connection"),
        (b"not HTTP at all\r\n\r\n", False, "broke the connection"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", False, "interim"),
        (b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:9/\r\n\r\n", False, "redirect"),
        (OK + b"X: " + b"y" * 100_000 + b"\r\n\r\n{}", False, "broke the connection"),
        (OK + b"Content-Encoding: lz4\r\nContent-Length: 1\r\n\r\nx", False, "coding"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", False, "not whole"),
        (OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", False, "opened"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", False, "broke off"),
    ],
)
async def test_whatever_comes_instead_of_an_answer_is_one_error(
    raw: bytes,
    hang: bool,  # noqa: FBT001 - a table
    says: str,
) -> None:
    async with answering(raw, hang=hang) as peer:
        with pytest.raises(UpstreamError, match=says):
            await fetched(peer.url)


async def test_nobody_there_is_known_as_not_sent() -> None:
    async with answering(b"") as peer:
        pass
    with pytest.raises(UpstreamError) as error:
        await fetched(peer.url)
    assert error.value.sent is False


async def test_a_redirect_is_not_followed() -> None:
    async with answering(OK + b"Content-Length: 2\r\n\r\n{}") as other:
        raw = b"HTTP/1.1 302 Go\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % other.url.encode()
        async with answering(raw) as peer:
            with pytest.raises(UpstreamError, match="redirect"):
                await fetched(peer.url)
        assert other.heads == []


def test_headers_of_one_hop_end_here() -> None:
    sent = {"connection": "Keep-Alive, X-One", "x-one": "1", "te": "trailers", "x-two": "2"}
    assert end_to_end(sent) == {"x-two": "2"}
