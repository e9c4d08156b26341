"""Answers: framed once; each failure has its status, and none shows what was inside."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiohttp.http import HttpVersion, HttpVersion10, HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from policy.verdict import InvariantBroken
from proxy.seams.faults import (
    MalformedRequest,
    NotFound,
    NotOperator,
    Unauthenticated,
    UnknownWrite,
)
from proxy.seams.operation import HttpReply
from proxy.transport.request import Connects, ReceivedRequest, chunk_of
from proxy.transport.responses import AnswerFailure, attempt, refusal_for
from storage.ground.errors import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    UnknownCandidate,
    UnknownLeaf,
)

SECRET = "the refused text itself"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MalformedRequest("field: rule"), 422),
        (MalformedRequest("body: too large", status=413), 413),
        (UnknownWrite(), 403),
        (Unauthenticated(), 401),
        (Unauthenticated(throttled=True), 429),
        (NotOperator(SECRET), 403),
        (NotFound(), 404),
        (UnknownCandidate(SECRET), 404),
        (UnknownLeaf(SECRET), 404),
        (StoreUnavailable(SECRET), 503),
        (OutcomeUnknown(SECRET), 503),
        (StoreCorrupt(SECRET), 503),
        (InvariantBroken(SECRET), 500),
        (RecursionError(SECRET), 500),
        (KeyError(SECRET), 500),
    ],
)
def test_each_failure_has_its_status_and_keeps_its_text(error: Exception, status: int) -> None:
    refusal = refusal_for(error)
    assert refusal.status == status
    assert SECRET not in refusal.detail + refusal.title
    assert (refusal.retry_after_s is not None) == (
        status == 429 or isinstance(error, StoreUnavailable | OutcomeUnknown)
    )


async def test_whatever_is_raised_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> str:
        raise ZeroDivisionError(SECRET)

    done = await attempt(fails(), lambda: pytest.fail("nothing is broken"))
    assert isinstance(done, AnswerFailure)
    assert done.error_type == "ZeroDivisionError"
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


async def test_peers_fault_is_not_logged_as_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> str:
        raise MalformedRequest("x")

    assert isinstance(await attempt(fails(), lambda: None), AnswerFailure)
    assert caplog.text == ""


async def test_broken_invariant_stops_the_process() -> None:
    async def fails() -> str:
        raise InvariantBroken(SECRET)

    stopped: list[bool] = []
    assert isinstance(await attempt(fails(), lambda: stopped.append(True)), AnswerFailure)
    assert stopped == [True]


async def test_success_and_cancellation_pass_through() -> None:
    async def works() -> str:
        return "fine"

    async def waits() -> str:
        raise asyncio.CancelledError

    assert await attempt(works(), lambda: None) == "fine"
    with pytest.raises(asyncio.CancelledError):
        await attempt(waits(), lambda: None)


def asked(method: str = "GET", version: HttpVersion = HttpVersion11) -> ReceivedRequest:
    head: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    closes = upgrades = chunks = False
    message = RawRequestMessage(
        method, "/", version, head, (), closes, None, upgrades, chunks, URL("/")
    )
    return ReceivedRequest(message, cast("Connects", None))


def lines_of(answer: bytes) -> list[str]:
    return answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")


@pytest.mark.parametrize("text", ["a\r\nX-Other: b", "a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_header_or_the_phrase_ends_the_process_and_sends_nothing(
    text: str,
) -> None:
    for made in (asked().answer, asked().stream_head):
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=200), {"Retry-After": text}, 0, stays=True)
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=200), {text: "1"}, 0, stays=True)
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=422, phrase=text), {}, 0, stays=True)


def test_an_answer_has_its_status_its_phrase_its_headers_and_its_body() -> None:
    reply = HttpReply(status=422, phrase="refused; do not retry", body=b"{}")
    made = asked().answer(reply, {"Server": "mnemogate"}, 0, stays=True)
    assert made == (
        b"HTTP/1.1 422 refused; do not retry\r\nServer: mnemogate\r\nContent-Length: 2\r\n"
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n{}"
    )
    assert lines_of(asked().answer(HttpReply(status=201), {}, 0, stays=True))[0] == (
        "HTTP/1.1 201 Created"
    )


def test_a_connection_that_ends_is_announced() -> None:
    for made in (asked().answer, asked().stream_head):
        assert "Connection: close" in lines_of(made(HttpReply(status=200), {}, 0, stays=False))
        assert "Connection: close" not in lines_of(made(HttpReply(status=200), {}, 0, stays=True))
    old = asked(version=HttpVersion10)
    assert "Connection: keep-alive" in lines_of(
        old.answer(HttpReply(status=200), {}, 0, stays=True)
    )


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_is_sent_none(status: int) -> None:
    made = asked().answer(HttpReply(status=status, body=b"never"), {}, 0, stays=True)
    assert made.endswith(b"\r\n\r\n")
    assert b"Content-Length" not in made


def test_a_head_is_answered_with_the_length_of_what_it_does_not_get() -> None:
    made = asked("HEAD").answer(HttpReply(status=200, body=b"tea"), {}, 0, stays=True)
    assert made.endswith(b"\r\n\r\n")
    assert "Content-Length: 3" in lines_of(made)
    # Of an upstream's answer to HEAD nobody has the body; its length is not 0 for that.
    relayed = HttpReply(status=200)
    assert b"Content-Length" not in asked("HEAD").answer(relayed, {}, 0, stays=True)
    assert b"Content-Length: 0\r\n" in asked("GET").answer(relayed, {}, 0, stays=True)


def test_an_answer_in_pieces_has_chunks_where_its_peer_reads_them() -> None:
    chunked = "Transfer-Encoding: chunked"
    for request, has in (
        (asked(), True),
        (asked(version=HttpVersion10), False),
        (asked("HEAD"), False),
    ):
        made = request.stream_head(HttpReply(status=200), {}, 0, stays=False)
        assert (chunked in lines_of(made)) is has
    assert chunk_of(b"tea and more tea") == b"10\r\ntea and more tea\r\n"
