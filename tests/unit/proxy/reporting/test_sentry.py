"""Steps of incidents for Sentry: made of their record alone, and sent until they were taken."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from policy.after.closure import Act, CaseMode, CaseSignal, CaseStep, Relation
from policy.model import Basis, CandidateId, MemoryClass, PrincipalId, SourceKind, Tenant
from proxy.reporting.sentry import Sentry, sentry_events
from proxy.seams.faults import UpstreamError
from proxy.settings.load import load_settings
from proxy.settings.table import Settings, SettingsError
from proxy.settings.values import BadValue, Secret
from storage.audit import IncidentLeaf
from storage.features.cases import Case, CaseMemory
from tests.unit.proxy.reporting.test_webhook import Receiver, receiving

STEP = IncidentLeaf(
    case_id="0123456789abcdef",
    at_ms=1_790_000_000_003,
    step=CaseStep.CONVICTED,
    signal=CaseSignal.PERSON,
    mode=CaseMode.RETRIEVAL,
    suspects=10,
    asks=12,
    culprits=1,
    by=PrincipalId("mnemogate:blame"),
)
CULPRIT = CaseMemory(
    memory="m-1",
    candidate_id=CandidateId("c" * 32),
    relation=Relation.CULPRIT,
    act=Act.QUARANTINE,
    memory_class=MemoryClass.L3,
    source=SourceKind.TOOL_RESULT,
    basis=Basis.UNPROVEN,
    leaf_index=4,
    server="web",
    tool="fetch",
)
CASE = Case(
    case_id=STEP.case_id,
    tenant=Tenant("default"),
    signal=STEP.signal,
    step=STEP.step,
    opened_at_ms=1,
    at_ms=2,
    by=STEP.by,
    culprits=(CULPRIT,),
)
LOOPBACK = (ip_network("127.0.0.0/8"),)
PRIVATE_KEY = "0" * 31 + "7"
MADE_BY_THE_SDK = {
    "breadcrumbs",
    "contexts",
    "environment",
    "platform",
    "release",
    "sdk",
    "server_name",
    "transaction_info",
}


def body() -> bytes:
    return sentry_events((STEP,), lambda _: CASE)


def sink(port: int, *, allowed: bool = True) -> Sentry:
    dsn = Secret(f"http://{PRIVATE_KEY}@127.0.0.1:{port}/42")
    return Sentry(dsn, LOOPBACK if allowed else (), "mnemogate@1")


def event_in(envelope: bytes) -> dict[str, Any]:
    _, _, event = envelope.rstrip(b"\n").split(b"\n", 2)
    decoded: dict[str, Any] = msgspec.json.decode(event)
    return decoded


async def test_an_event_says_what_the_record_says_and_nothing_of_the_process() -> None:
    async with receiving() as receiver:
        sentry = sink(receiver.port)
        assert not sentry._client.options["send_default_pii"]
        await sentry.deliver("msg_1", body())
    [(headers, envelope)] = receiver.got
    event = event_in(envelope)
    (made,) = msgspec.json.decode(body())
    assert event.keys() - MADE_BY_THE_SDK == made.keys()
    assert event["fingerprint"] == ["person", "web/fetch"]
    assert event["tags"] == {
        "incident": "0123456789abcdef",
        "state": "convicted",
        "signal": "person",
        "mode": "retrieval",
        "origin": "web/fetch",
        "by": "mnemogate:blame",
    }
    assert event["extra"] == {"suspects": 10, "asks": 12, "culprits": 1}
    assert event["breadcrumbs"] == {"values": []}
    assert (event["server_name"], event["release"]) == ("mnemogate", "mnemogate@1")
    assert event["sdk"]["integrations"] == []
    assert PRIVATE_KEY in headers["x-sentry-auth"]
    assert PRIVATE_KEY.encode() not in envelope


async def test_an_event_that_was_not_taken_is_sent_again_under_its_id() -> None:
    async def down(receiver: Receiver, request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(status=429 if len(receiver.got) == 1 else 200)

    async with receiving(down) as receiver:
        sentry = sink(receiver.port)
        with pytest.raises(UpstreamError):
            await sentry.deliver("msg_1", body())
        await sentry.deliver("msg_1", body())
    assert len({event_in(envelope)["event_id"] for _, envelope in receiver.got}) == 1
    assert len(receiver.got) == 2


async def test_an_event_that_was_taken_is_not_sent_again_because_a_later_one_was_refused() -> None:
    async def refuses_the_second(receiver: Receiver, request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(status=400 if len(receiver.got) == 2 else 200)

    steps = [msgspec.structs.replace(STEP, at_ms=at_ms) for at_ms in (1, 2, 3)]
    message = sentry_events(steps, lambda _: CASE)
    async with receiving(refuses_the_second) as receiver:
        sentry = sink(receiver.port)
        with pytest.raises(UpstreamError):
            await sentry.deliver("msg_1", message)
        await sentry.deliver("msg_1", message)
    first, second, third = (one["event_id"] for one in msgspec.json.decode(message))
    sent = [event_in(envelope)["event_id"] for _, envelope in receiver.got]
    assert sent == [first, second, second, third]


async def test_an_address_that_is_not_public_is_not_reached_unless_it_is_listed() -> None:
    async with receiving() as receiver:
        with pytest.raises(UpstreamError):
            await sink(receiver.port, allowed=False).deliver("msg_1", body())
    assert receiver.got == []


def test_the_dsn_comes_from_the_environment_and_a_bad_one_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "mnemogate.toml"

    def loaded(written: str, **environment: str) -> Settings:
        file.write_text(written)
        return load_settings(environment={"HOME": str(tmp_path), **environment}, config=file)

    given = {"SENTRY_DSN": "https://k@example.org/1"}
    assert loaded("", **given).sentry_dsn is None
    found = loaded("[after.sentry]", **given)
    assert found.sentry_dsn == Secret("https://k@example.org/1")
    assert "example.org" not in repr(found)
    with pytest.raises(SettingsError, match="SENTRY_DSN is not set"):
        loaded("[after.sentry]")
    # Nobody can write it into the file.
    with pytest.raises(SettingsError, match="sentry_dsn: no such setting"):
        loaded('sentry_dsn = "https://k@example.org/1"', **given)
    with pytest.raises(BadValue, match="no DSN") as bad:
        Sentry(Secret("https://no-key.example"), (), "mnemogate@1")
    assert "no-key" not in str(bad.value)
    with pytest.raises(SettingsError, match="allow"):
        loaded('[after.sentry]\nallow = ["x"]', **given)


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    with pytest.raises(BadValue, match="mnemogate\\[sentry\\]"):
        sink(1)
