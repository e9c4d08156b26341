"""The operator's client against a small server, and a list that changes while it is read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise, repeat

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from proxy.admin.wire.review_queue import WAITING
from proxy.admin.wire.store import (
    HELD,
    HISTORY,
    KEY_ADD,
    MEMORIES,
    STATUS,
)
from proxy.cli import backend_walk
from proxy.cli.backend_walk import IDLE_MAX, ListTrail
from proxy.cli.client import Operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.seams.faults import UpstreamError
from proxy.seams.http_backend import ListPart
from proxy.seams.operation import HttpRequest


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
        yield Operator(f"{scheme}://{host}:{port}", "the test"), asked
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

    assert asked == ["GET /api/v1/memories/..%2Fkeys%3Fx%3D1%23%5C0/history?tenant=a%26b"]


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
    with pytest.raises(CommandFailed, match=why):
        await Operator(url, "the test").ask(WAITING)


async def test_tls_where_none_is_spoken_is_said_to_be_that() -> None:
    async with _answering(200, b"{}", scheme="https") as (client, _):
        with pytest.raises(CommandFailed, match="no TLS is spoken there"):
            await client.ask(WAITING)


PAGE = 5
ASKED = HttpRequest(method="GET", path="/list")


def begin(number: int) -> HttpRequest:
    return HttpRequest(method="GET", path=f"/list/{number}")


def part(names: list[str], *, most: int = PAGE) -> ListPart:
    return ListPart(names=tuple(names), is_full=len(names) >= most, begin=begin)


def read(pages: Iterable[list[str]]) -> None:
    """Let a walk have these pages, whatever it asks for."""
    trail = ListTrail()
    for names in pages:
        trail.take(part(names))


def walked(server: list[str], between: Callable[[int], None]) -> list[str]:
    """All that a walk over the server's list finds; `between` is called after each page."""
    trail, found, pages = ListTrail(), list[str](), 0
    while trail.begin is not None:
        found += trail.take(part(server[trail.begin : trail.begin + PAGE]))
        pages += 1
        between(pages)
    return found


def test_a_list_that_nobody_changes_is_read_once() -> None:
    for length in range(3 * PAGE):
        names = [f"n{number}" for number in range(length)]
        assert walked([*names], lambda _: None) == names


@given(st.lists(st.lists(st.integers(0, 99), max_size=30), max_size=12))
def test_what_stays_in_a_list_is_found_whatever_is_deleted_between_two_pages(
    gone: list[list[int]],
) -> None:
    names = [f"n{number}" for number in range(100)]
    server = [*names]

    def delete(at: int, page: int) -> None:
        for number in gone[page - 1] if page <= at else []:
            if f"n{number}" in server:
                server.remove(f"n{number}")

    found = walked(server, partial(delete, len(gone)))
    assert {*server} <= {*found}
    assert len({*found}) == len(found)


def test_what_is_new_at_the_beginning_moves_nothing_out_of_sight_and_is_counted_once() -> None:
    server = [f"n{number}" for number in range(40)]
    found = walked(server, lambda page: server.insert(0, f"new{page}"))
    assert {f"n{number}" for number in range(40)} <= {*found}
    assert len({*found}) == len(found)


def test_all_is_gone_but_one_that_moved_to_the_beginning() -> None:
    server = [*(f"n{number}" for number in range(PAGE)), "last"]

    def empty(page: int) -> None:
        if page == 1:
            del server[:PAGE]

    assert walked(server, empty)[-1] == "last"


def test_a_list_without_an_end_is_left_with_the_reason() -> None:
    names = [f"n{number}" for number in range(PAGE)]
    with pytest.raises(UpstreamError, match="page after page"):
        read(repeat(names, IDLE_MAX + 2))
    # Control: one page fewer.
    read(repeat(names, IDLE_MAX + 1))


@pytest.mark.parametrize("shows_again", [False, True])
def test_a_server_with_ever_new_names_is_left_too(
    monkeypatch: pytest.MonkeyPatch,
    shows_again: bool,  # noqa: FBT001 - a case of the test
) -> None:
    monkeypatch.setattr(backend_walk, "NAMES_MAX", 300)
    made = [[f"{page}-{number}" for number in range(PAGE)] for page in range(300)]
    pages = [before[-1:] + page for before, page in pairwise(made)] if shows_again else made
    with pytest.raises(UpstreamError, match="more than 300"):
        read(pages)
