"""The table of refusals: each failure has its status, and none of them tells what was inside."""

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
from proxy.transport.responses import Failure, attempt, refusal_for
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
    assert isinstance(done, Failure)
    assert done.error_type == "ZeroDivisionError"
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


async def test_peers_fault_is_not_logged_as_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> str:
        raise MalformedRequest("x")

    assert isinstance(await attempt(fails(), lambda: None), Failure)
    assert caplog.text == ""


async def test_broken_invariant_stops_the_process() -> None:
    async def fails() -> str:
        raise InvariantBroken(SECRET)

    stopped: list[bool] = []
    assert isinstance(await attempt(fails(), lambda: stopped.append(True)), Failure)
    assert stopped == [True]


async def test_success_and_cancellation_pass_through() -> None:
    async def works() -> str:
        return "fine"

    async def waits() -> str:
        raise asyncio.CancelledError

    assert await attempt(works(), lambda: None) == "fine"
    with pytest.raises(asyncio.CancelledError):
        await attempt(waits(), lambda: None)
