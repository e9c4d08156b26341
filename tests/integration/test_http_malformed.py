"""Every malformed request ends in a 4xx or a close, stores nothing, and gets no traceback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.integration.http_bench import (
    AGENT_KEY,
    Bench,
    parse,
    read_all,
    request_bytes,
    running,
)

CANARY = "violet-canary-7731"
AUTH = f"Authorization: Bearer {AGENT_KEY}\r\n"
HEAD = f"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\n{AUTH}".encode()
GOOD = b'{"text":"' + CANARY.encode() + b'"}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)

BODIES = {
    "duplicate keys": b'{"text":"' + CANARY.encode() + b'","class":"L4","class":"L1"}',
    "duplicate keys in metadata": b'{"text":"x","metadata":{"a":1,"a":2}}',
    "NaN": b'{"text":"x","metadata":{"a":NaN}}',
    "Infinity": b'{"text":"x","metadata":{"a":-Infinity}}',
    "1e999": b'{"text":"x","metadata":{"a":1e999}}',
    "integer beyond 2^64": b'{"text":"x","metadata":{"a":18446744073709551616}}',
    "integer of 5000 digits": b'{"text":"x","metadata":{"a":' + b"9" * 5000 + b"}}",
    "deep nesting": b'{"text":"x","metadata":' + b'{"a":' * 100 + b"1" + b"}" * 101,
    "nesting beyond the stack": b"[" * 60_000,
    "lone surrogate": b'{"text":"' + CANARY.encode() + b'\\ud800"}',
    "lone surrogate in a key": b'{"text":"x","metadata":{"\\udfff":1}}',
    "raw control character": b'{"text":"a\x01b"}',
    "byte order mark": b'\xef\xbb\xbf{"text":"x"}',
    "UTF-16": '{"text":"x"}'.encode("utf-16"),
    "not UTF-8": b'{"text":"\xff\xfe"}',
    "not JSON": b"text=" + CANARY.encode(),
    "empty": b"",
    "an array": b"[]",
    "trailing text": GOOD + b"x",
    "unknown field": b'{"text":"x","' + CANARY.encode() + b'":1}',
    "unknown class": b'{"text":"x","class":"' + CANARY.encode() + b'"}',
    "wrong type": b'{"text":5}',
    "text too long": b'{"text":"' + b"x" * 65_537 + b'"}',
}


def assert_refused(bench: Bench, answer: bytes) -> None:
    """4xx or silence, nothing stored, none of the peer's words, no traceback."""
    assert bench.session.stored == []
    assert CANARY.encode() not in answer
    for word in (b"Traceback", b"aiohttp", b".py", b"Error(", b"Exception"):
        assert word not in answer
    if answer:
        assert 400 <= parse(answer).status < 500
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_chunks_on_http_1_0_are_refused_and_nothing_behind_them_is_answered() -> None:
    async with running() as bench:
        old = HEAD.replace(b"/1.1", b"/1.0") + b"Connection: keep-alive\r\n"
        behind = HEAD + LENGTH + b"\r\n" + GOOD
        answer = await bench.raw(old + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED + behind)
        assert bench.session.stored == []
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert answer.count(b"HTTP/1.") == 1
        control = await bench.raw(old.replace(b"keep-alive", b"close") + LENGTH + b"\r\n" + GOOD)
        assert control.startswith(b"HTTP/1.0 201 ")


@pytest.mark.parametrize("name", BODIES)
async def test_malformed_body_is_refused_and_stores_nothing(name: str) -> None:
    async with running() as bench:
        answer = await bench.raw(request_bytes("POST", "/v1/memories", BODIES[name]))
        assert answer
        assert_refused(bench, answer)


async def test_the_same_bytes_well_formed_are_stored() -> None:
    # The control of this file: the table's own request lands once nothing is wrong with it.
    async with running() as bench:
        answer = await bench.raw(HEAD + b"Connection: close\r\n" + LENGTH + b"\r\n" + GOOD)
        assert parse(answer).status == 201
        chunked = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED
        assert parse(await bench.raw(chunked)).status == 201
        assert [proposal.text for proposal in bench.session.stored] == [CANARY, CANARY]


FLOOD = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
STRANGER = b"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(HEAD + b"Content-Length: 999999999\r\n\r\n", 413, id="declared too large"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + FLOOD * 8, 413, id="endless chunks"
        ),
        pytest.param(b"POST /v1/mem", 408, id="slow headers"),
        pytest.param(b"", None, id="silence"),
        pytest.param(HEAD + LENGTH + b"\r\n" + GOOD[:5], 408, id="slow body"),
        # At once, and not after the deadline of a body.
        pytest.param(STRANGER, 401, id="body of a stranger"),
        pytest.param(
            STRANGER + request_bytes("POST", "/v1/memories", GOOD), 401, id="rest of a refused body"
        ),
    ],
)
async def test_what_is_too_much_too_slow_or_a_strangers_ends_with_its_status(
    data: bytes, status: int | None
) -> None:
    async with running() as bench:
        answer = await bench.raw(data)
        assert status is None or parse(answer).status == status
        assert_refused(bench, answer)


async def test_headers_that_trickle_do_not_push_the_deadline_out() -> None:
    async with running() as bench:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def trickle() -> None:
            for _ in range(200):
                writer.write(b"X")
                await writer.drain()
                await asyncio.wait([closed], timeout=0.02)
                if closed.done():
                    return

        async with asyncio.TaskGroup() as group:
            closed = group.create_task(read_all(reader, writer, 5.0))
            group.create_task(trickle())
        assert loop.time() - began < 2.0
        assert_refused(bench, closed.result())


async def test_second_request_with_slow_headers_is_closed_as_well() -> None:
    async with running() as bench:
        first = request_bytes("GET", "/v1/whoami", headers={"Connection": "keep-alive"})
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        writer.write(first)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"POST /v1/memories HT")
        answer = await read_all(reader, writer, 3.0)
        assert b"408 Request Timeout" in answer
        assert bench.session.stored == []


@pytest.mark.parametrize(
    "rest", [b"zz\r\n", b"-1\r\n", b"5;\0\r\nhello\r\n", b"1\r\nxx\r\n", b"\r\n\r\n"]
)
async def test_body_that_breaks_halfway_is_the_peers_fault(rest: bytes) -> None:
    async with running() as bench:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        writer.write(b"8\r\n" + GOOD[:8] + b"\r\n")
        await writer.drain()
        await until(lambda: bench.listener.in_flight == 1)
        writer.write(rest)
        assert_refused(bench, await read_all(reader, writer, 3.0))
        assert all(event.status < 500 for event in bench.served())


async def test_peer_that_leaves_halfway_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as bench:
        _, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        writer.write(HEAD + LENGTH + b"\r\n" + GOOD[:5])
        await until(lambda: bench.listener.in_flight == 1)
        writer.transport.abort()
        await until(lambda: bench.listener.in_flight == 0)
        assert bench.session.stored == []
        assert all(event.status < 500 for event in bench.served())
        assert caplog.text == ""


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something holds; no fixed wait."""
    async with asyncio.timeout(30.0):
        while not condition():  # noqa: ASYNC110 - the listener has no event for it
            await asyncio.sleep(0)
