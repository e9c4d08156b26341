"""A peer that ends its side of the connection and reads on: it is answered, or nothing is done."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.integration.http_bench import AGENT_KEY, LIMITS, Bench, parse, read_all, running

WAIT_S = 10.0
# Whoever waits for the rest of a request waits longer than any test.
PATIENT = msgspec.structs.replace(LIMITS, header_seconds=600.0, body_seconds=600.0)
AUTH = f"Host: localhost\r\nAuthorization: Bearer {AGENT_KEY}\r\n"
HEAD = f"POST /v1/memories HTTP/1.1\r\n{AUTH}".encode()
LARGE = b'{"text":"' + b"tea " * 12_000 + b'"}'
KEPT = f"GET /v1/whoami HTTP/1.1\r\n{AUTH}\r\n".encode()


def whole(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(body: bytes) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


async def half_closed(bench: Bench, *parts: bytes) -> bytes:
    """What is answered to these, each in a segment of its own, the last with the end behind it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        if part is not parts[-1]:
            await asyncio.sleep(0.02)
    writer.write_eof()
    return await read_all(reader, writer, WAIT_S)


@pytest.mark.parametrize(
    "parts",
    [
        (whole(b'{"text":"tea"}'),),
        (in_chunks(b'{"text":"tea"}'),),
        (whole(b'{"text":"tea"}')[:-3], b'a"}'),
        (whole(LARGE),),
        (in_chunks(LARGE),),
        (whole(LARGE)[:40_000], whole(LARGE)[40_000:]),
    ],
    ids=["length", "chunks", "in two parts", "large", "large chunks", "large in two parts"],
)
async def test_a_write_of_a_peer_that_says_no_more_is_done_and_answered(
    parts: tuple[bytes, ...],
) -> None:
    async with running() as bench:
        answer = await half_closed(bench, *parts)
        assert parse(answer).status == 201
        assert len(bench.session.stored) == 1


async def test_one_that_is_judged_when_the_end_comes_is_answered_too() -> None:
    async with running() as bench:
        bench.session.gate = asyncio.Event()
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        writer.write(whole(b'{"text":"tea"}'))
        await asyncio.wait_for(bench.session.entered.wait(), WAIT_S)
        writer.write_eof()
        await asyncio.sleep(0.05)
        bench.session.gate.set()
        assert parse(await read_all(reader, writer, WAIT_S)).status == 201


async def test_each_of_several_is_answered_and_then_the_connection_ends() -> None:
    async with running() as bench:
        answer = await half_closed(bench, KEPT + whole(b'{"text":"tea"}') + KEPT)
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.count(b"HTTP/1.1 201 ") == 1
        assert len(bench.session.stored) == 1


@pytest.mark.parametrize(
    "sent",
    [whole(b'{"text":"tea"}')[:-1], in_chunks(b'{"text":"tea"}')[:-5], HEAD, b"POST /v1/mem", b""],
    ids=["length", "chunks", "head", "line", "nothing"],
)
async def test_what_is_not_whole_is_not_done_and_nobody_waits_for_it(sent: bytes) -> None:
    async with running(limits=PATIENT) as bench:
        await half_closed(bench, sent)
        assert bench.session.stored == []
        # Control: the same peer, whole.
        control = await half_closed(bench, whole(b'{"text":"tea"}'))
        assert parse(control).status == 201
