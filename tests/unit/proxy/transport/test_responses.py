"""Answers: framed once; each failure has its status, and none shows what was inside."""

from __future__ import annotations

import asyncio

import pytest

from policy.verdict import InvariantBroken
from proxy.seams.faults import (
    MalformedRequest,
    NotFound,
    NotOperator,
    Unauthenticated,
    UnknownWrite,
)
from proxy.seams.operation import HttpReply
from proxy.transport.request import response_of, stream_of
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


@pytest.mark.parametrize("text", ["a\r\nX-Other: b", "a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_header_or_the_phrase_ends_the_process_and_sends_nothing(
    text: str,
) -> None:
    for made in (response_of, stream_of):
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=200), {"Retry-After": text}, stays=True)
        with pytest.raises(InvariantBroken):
            made(HttpReply(status=422, phrase=text), {}, stays=True)


def test_an_answer_has_its_status_its_phrase_its_headers_and_its_body() -> None:
    reply = HttpReply(status=422, phrase="refused; do not retry", body=b"{}")
    made = response_of(reply, {"Server": "mnemogate"}, stays=True)
    assert (made.status, made.reason, made.body) == (422, "refused; do not retry", b"{}")
    assert made.headers["Server"] == "mnemogate"
    assert made.keep_alive is None


def test_a_connection_that_ends_is_announced() -> None:
    assert response_of(HttpReply(status=200), {}, stays=False).keep_alive is False
    assert stream_of(HttpReply(status=200), {}, stays=False).keep_alive is False


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_is_sent_none(status: int) -> None:
    assert not response_of(HttpReply(status=status, body=b"never"), {}, stays=True).body
