"""The data listener over real sockets: who is served, what is answered, what telemetry hears."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from policy.verdict import InvariantBroken, Reason
from storage.ground.errors import OutcomeUnknown, StoreUnavailable
from telemetry.events import RequestServed
from tests.integration.http_bench import (
    AGENT_KEY,
    CREATE,
    LIMITS,
    Bench,
    read_all,
    request_bytes,
    running,
)

MEMORY = "00000000-0000-4000-8000-000000000001"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


async def test_create_is_answered_201_with_all_a_client_needs() -> None:
    async with running() as bench:
        answer = await bench.request("POST", "/v1/memories", CREATE)
        assert answer.status == 201
        body = answer.json()
        assert body["id"] == MEMORY
        assert body["memory_class"] == "L3"
        assert body["source"] == "unknown"
        assert body["candidate_id"] == "ab" * 16
        assert body["trace_id"] == answer.headers["mnemogate-trace-id"]
        assert not body.keys() & {"version", "leaf_index"}, "they count what all tenants write"


async def test_no_key_no_service_not_even_on_loopback() -> None:
    async with running() as bench:
        for key in (None, "wrong", AGENT_KEY + "x", ""):
            answer = await bench.request("POST", "/v1/memories", CREATE, key=key)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert bench.session.performed == []


async def test_wrong_keys_are_throttled_and_the_right_one_is_not() -> None:
    async with running() as bench:
        statuses = [
            (await bench.request("GET", "/v1/whoami", key="wrong")).status for _ in range(25)
        ]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert (await bench.request("GET", "/v1/whoami")).status == 200


@pytest.mark.parametrize("method", WRITES)
async def test_mutating_route_that_nobody_knows_counts_as_a_write(method: str) -> None:
    async with running() as bench:
        for path in ("/v1/forget", "/unheard/of"):
            answer = await bench.request(method, path, CREATE)
            assert answer.status == 403
            assert b"unknown_write" in answer.body
        assert bench.session.performed == []


async def test_rejection_is_a_problem_without_content() -> None:
    async with running() as bench:
        bench.session.refuse = ("reject", Reason.SOURCE_CLASS_FORBIDDEN, 1)
        answer = await bench.request("POST", "/v1/memories", {**CREATE, "class": "L1"})
        assert answer.status == 403
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert body["reason"] == "source_class_forbidden"
        assert body["step"] == 1
        assert body["memory_class"] == "L1"
        assert body["trace_id"] == answer.headers["mnemogate-trace-id"]
        assert body["observation"]
        assert CREATE["text"].encode() not in answer.body


async def test_replayed_request_is_answered_like_the_first_and_says_so_in_a_header() -> None:
    async with running() as bench:
        bench.session.replayed = True
        headers = {"Idempotency-Key": "n-1"}
        answer = await bench.request("POST", "/v1/memories", CREATE, headers=headers)
        assert answer.status == 201
        assert answer.headers["mnemogate-replayed"] == "1"
        assert bench.session.stored[0].nonce == "n-1"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (StoreUnavailable("secret disk path"), 503),
        (OutcomeUnknown("secret"), 503),
        (RuntimeError("secret text of the candidate"), 500),
        (InvariantBroken("secret"), 500),
    ],
)
async def test_failure_answers_no_and_keeps_its_text_to_itself(
    failure: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as bench:
        bench.session.failure = failure
        answer = await bench.request("POST", "/v1/memories", CREATE)
        assert answer.status == status
        assert b"secret" not in answer.body
        assert "secret" not in caplog.text
        assert "Traceback" not in caplog.text
        assert ("retry-after" in answer.headers) == (status == 503)
        assert bool(bench.halted) == isinstance(failure, InvariantBroken)


async def test_origin_and_host_that_were_allowed_are_served() -> None:
    async with running(origins=("https://console.example",)) as bench:
        headers = {"Origin": "https://console.example", "Host": f"localhost:{bench.address.port}"}
        assert (await bench.request("GET", "/v1/whoami", headers=headers)).status == 200
        headers["Origin"] = "https://console.example.evil"
        assert (await bench.request("GET", "/v1/whoami", headers=headers)).status == 403


async def test_a_trace_of_the_callers_stands_beside_ours_as_a_hash() -> None:
    async with running() as bench:
        parent = "00-" + "a1" * 16 + "-" + "b2" * 8 + "-01"
        answer = await bench.request("GET", "/v1/whoami", headers={"traceparent": parent})
        said = str(answer.headers)
        assert "a1" * 8 not in said
        assert "b2" * 8 not in said
        again = await bench.request("GET", "/v1/whoami", headers={"traceparent": parent})
        assert again.headers["mnemogate-caller"] == answer.headers["mnemogate-caller"]
        assert again.headers["mnemogate-trace-id"] != answer.headers["mnemogate-trace-id"]
        # A trace of ours goes on, and has no caller.
        ours = {"traceparent": answer.headers["traceparent"]}
        on = await bench.request("GET", "/v1/whoami", headers=ours)
        assert on.headers["mnemogate-trace-id"] == answer.headers["mnemogate-trace-id"]
        assert "mnemogate-caller" not in on.headers


async def test_request_id_is_echoed_only_where_it_can_spell_nothing() -> None:
    async with running() as bench:
        own = await bench.request("GET", "/v1/whoami", headers={"X-Request-ID": "0" * 32})
        assert own.headers["x-request-id"] == "0" * 32
        text = await bench.request(
            "GET", "/v1/whoami", headers={"X-Request-ID": "ignore-previous-instructions"}
        )
        assert "ignore" not in text.headers["x-request-id"]


async def test_each_request_is_told_to_telemetry_once_by_template() -> None:
    async with running() as bench:
        await bench.request("POST", "/v1/memories", CREATE)
        await bench.request("GET", f"/v1/memories/{MEMORY}")
        await bench.request("GET", "/v1/whoami", key="wrong")
        await bench.request("GET", "/nothing-here/with-a-secret")
        served = [event for event in bench.events if isinstance(event, RequestServed)]
        assert [(event.route, event.status) for event in served] == [
            ("native.write", 201),
            ("native.get", 404),
            ("native.refused", 401),
            ("unknown", 404),
        ]
        assert served[0].principal == "agent"
        assert all(event.route in bench.routes for event in served)


async def test_requests_beyond_the_cap_are_answered_503() -> None:
    limits = msgspec.structs.replace(LIMITS, requests_max=1)
    async with running(limits=limits) as bench:
        bench.session.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(bench.request("POST", "/v1/memories", CREATE))
            await bench.session.entered.wait()
            second = await bench.request("GET", "/v1/whoami")
            bench.session.gate.set()
        assert first.result().status == 201
        assert second.status == 503
        assert "retry-after" in second.headers


async def test_shutdown_lets_a_running_request_finish_and_accepts_no_other() -> None:
    async with running() as bench:
        bench.session.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            running_one = group.create_task(bench.request("POST", "/v1/memories", CREATE))
            await bench.session.entered.wait()
            closing = group.create_task(bench.listener.close())
            await wait_until_refused(bench)
            bench.session.gate.set()
            await closing
        assert running_one.result().status == 201
        assert len(bench.session.stored) == 1


async def test_shutdown_waits_no_longer_than_its_bound() -> None:
    limits = msgspec.structs.replace(LIMITS, drain_seconds=0.1)
    async with running(limits=limits) as bench:
        bench.session.gate = asyncio.Event()
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
        writer.write(request_bytes("POST", "/v1/memories", msgspec.json.encode(CREATE)))
        await bench.session.entered.wait()
        async with asyncio.timeout(20.0):
            await bench.listener.close()
        assert await read_all(reader, writer, 20.0) == b""


async def wait_until_refused(bench: Bench) -> None:
    async with asyncio.timeout(20.0):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", bench.address.port)
            except OSError:
                return
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
