"""Health: what needs no key, what degraded means, and by which names it may be asked."""

from __future__ import annotations

import msgspec
import pytest

from proxy.fronts.health import Health, HealthHosts
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest
from proxy.transport.head import HostRules
from storage.values import StoreStatus

WELL = StoreStatus(
    incarnation="0",
    version=1,
    epoch=1,
    ruleset_digest="",
    live_count=1,
    held_count=0,
    leaf_count=2,
    bytes_used=10,
    bytes_quota=20,
    writable=True,
    reason=None,
)
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a container listens on
BROKEN = msgspec.structs.replace(WELL, writable=False, reason="the disk failed")
FULL = msgspec.structs.replace(WELL, writable=False, reason="the store has reached its quota")


def asked(
    status: StoreStatus, path: str, query: tuple[tuple[str, str], ...] = (), method: str = "GET"
) -> tuple[int, bytes] | None:
    health = Health(lambda: status, lambda: b"metrics")
    reply = health.answer(HttpRequest(method=method, path=path, query=query, headers={}))
    return None if reply is None else (reply.status, reply.body)


@pytest.mark.parametrize("status", [WELL, BROKEN, FULL], ids=["well", "broken", "full"])
def test_liveness_depends_on_nothing(status: StoreStatus) -> None:
    assert asked(status, "/healthz") == (200, b"ok\n")


@pytest.mark.parametrize("status", [BROKEN, FULL], ids=["broken", "full"])
def test_store_that_takes_no_writes_is_degraded_and_stays_in_service(status: StoreStatus) -> None:
    reason = {
        "status": "degraded",
        "reason": status.reason,
        "mode": "enforce",
    }
    for query, expected in (((), 200), ((("strict", "true"),), 503)):
        answer = asked(status, "/readyz", query)
        assert answer is not None
        assert answer[0] == expected
        assert msgspec.json.decode(answer[1]) == reason


def test_it_says_where_candidates_are_staged_unless_it_is_memory() -> None:
    elsewhere = msgspec.structs.replace(WELL, staged_in="unlinked file")
    answers = [asked(status, "/readyz") for status in (WELL, elsewhere)]
    said = [msgspec.json.decode(one[1]).get("staging") for one in answers if one is not None]
    assert said == [None, "unlinked file"]


def test_store_that_takes_writes_is_ready_in_both_senses() -> None:
    for query in ((), (("strict", "true"),)):
        assert asked(WELL, "/readyz", query) == (
            200,
            b'{"status":"ready","reason":null,"mode":"enforce"}',
        )


def test_a_memory_tool_that_no_map_takes_keeps_nothing_from_being_ready() -> None:
    health = Health(
        lambda: WELL,
        lambda: b"metrics",
        around=lambda one: msgspec.structs.replace(one, unmapped_tools=("save_memory",)),
    )
    reply = health.answer(HttpRequest(method="GET", path="/readyz", query=(), headers={}))
    assert reply is not None
    assert msgspec.json.decode(reply.body)["unmapped_tools"] == ["save_memory"]
    assert reply.status == 200


@pytest.mark.parametrize("query", [("strict", ""), ("strict", "1"), ("strcit", "true")])
def test_question_that_readiness_does_not_know_is_no_silent_yes(query: tuple[str, str]) -> None:
    with pytest.raises(MalformedRequest):
        asked(BROKEN, "/readyz", (query,))


def test_nothing_else_is_answered() -> None:
    assert asked(WELL, "/api/v1/status") is None
    for path in ("/healthz", "/readyz", "/metrics"):
        assert asked(WELL, path, method="POST") is None


@pytest.mark.parametrize(
    "host", ["10.1.2.3:7079", "10.1.2.3", "[fd00::1]:7079", "localhost", "gate.example"]
)
def test_health_may_be_asked_by_address_and_by_its_own_names(host: str) -> None:
    HealthHosts.of(("gate.example",), (), EVERYWHERE).check({"host": host})


@pytest.mark.parametrize(
    "host", ["attacker.example", "10.1.2.3.attacker.example", "10.1.2", "1.2.3.4@x", "", "[x]"]
)
def test_health_may_not_be_asked_by_a_foreign_name(host: str) -> None:
    # DNS rebinding needs a name: what the page resolved is in `Host`, never the address.
    with pytest.raises(MalformedRequest):
        HealthHosts.of((), (), EVERYWHERE).check({"host": host})


def test_other_listeners_are_not_opened_by_address() -> None:
    with pytest.raises(MalformedRequest):
        HostRules.of((), (), EVERYWHERE).check({"host": "10.1.2.3"})


def test_page_may_not_read_health_either() -> None:
    with pytest.raises(MalformedRequest, match="origin"):
        HealthHosts.of((), (), EVERYWHERE).check(
            {"host": "10.1.2.3", "origin": "https://x.example"}
        )
