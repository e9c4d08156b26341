"""The operator's client against a small server that answers as told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from proxy.admin.wire.review_queue import WAITING
from proxy.admin.wire.store import HELD, HISTORY, KEY_ADD, MEMORIES, STATUS
from proxy.cli.client import Operator
from proxy.cli.exits import CommandFailed, Exit


@asynccontextmanager
async def _answering(
    status: int, body: bytes, server_name: str = "mnemogate", scheme: str = "http"
) -> AsyncGenerator[tuple[Operator, list[str]]]:
    asked: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        asked.append(f"{request.method} {request.raw_path}")
        return web.Response(status=status, body=body, headers={"Server": server_name})

    server = web.Server(handle)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session:
            yield Operator(session, f"{scheme}://{host}:{port}", "the test"), asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, Exit.REFUSED),
        (403, Exit.REFUSED),
        (404, Exit.NOT_FOUND),
        (422, Exit.USAGE),
        (503, Exit.UNREACHABLE),
        (500, Exit.UNREACHABLE),
        (302, Exit.UNREACHABLE),
    ],
)
async def test_every_refusal_has_its_exit_code(status: int, code: Exit) -> None:
    async with _answering(status, b'{"detail": "no \\u001b[2J"}') as (client, _):
        with pytest.raises(CommandFailed) as failed:
            await client.ask(WAITING)

    assert failed.value.code is code
    assert "\x1b" not in failed.value.what


async def test_an_answer_of_another_shape_is_no_answer() -> None:
    async with _answering(200, b'{"incarnation": 1}') as (client, _):
        with pytest.raises(CommandFailed) as failed:
            await client.ask(STATUS)

    assert failed.value.code is Exit.UNREACHABLE


async def test_a_name_cannot_leave_its_part_of_the_path() -> None:
    history = b'{"memory_id": "", "steps": []}'
    async with _answering(200, history) as (client, asked):
        await client.ask(HISTORY, "../keys?x=1#\\0", tenant="a&b", limit=None)

    assert asked == ["GET /api/v1/memories/..%2Fkeys%3Fx=1%23%5C0/history?tenant=a%26b"]


async def test_what_is_no_text_is_refused_before_anything_is_asked() -> None:
    no_text = "\udcff"
    async with _answering(200, b"{}") as (api, asked):
        with pytest.raises(CommandFailed, match="not UTF-8") as in_a_query:
            await api.ask(WAITING, tenant=no_text)
        with pytest.raises(CommandFailed, match="not UTF-8"):
            await api.ask(KEY_ADD, name=no_text)
        with pytest.raises(CommandFailed, match="not UTF-8"):
            await api.ask(HELD, no_text)
        assert in_a_query.value.code is Exit.USAGE
        assert asked == []


@pytest.mark.parametrize("status", [200, 404, 401])
async def test_an_answer_of_something_else_is_said_to_be_no_sidecars(status: int) -> None:
    async with _answering(status, b'{"memories": []}', "SimpleHTTP/0.6") as (client, _):
        with pytest.raises(CommandFailed, match="is not Mnemogate") as failed:
            await client.ask(MEMORIES)

    assert failed.value.code is Exit.UNREACHABLE
    assert "--admin" in failed.value.then


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9", "Connect call failed|refused"),
        ("http://[", "this is no URL"),
    ],
)
async def test_what_is_not_reached_says_why_in_words(url: str, why: str) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(CommandFailed, match=why):
            await Operator(session, url, "the test").ask(WAITING)


async def test_tls_where_none_is_spoken_is_said_to_be_that() -> None:
    async with _answering(200, b"{}", scheme="https") as (client, _):
        with pytest.raises(CommandFailed, match="no TLS is spoken there"):
            await client.ask(WAITING)
