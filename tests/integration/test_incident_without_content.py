"""The whole life of incidents: who is told of them is told no word of what they are about."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy.model import Channel, Tenant
from proxy.compose.app import Composition
from proxy.reporting.ocsf import finding_of
from storage.audit import IncidentLeaf, decode_leaf
from telemetry.logs import configure
from tests.conformance.canary import new_canary
from tests.integration.model_bench import Bench, asking, call, fronted
from tests.integration.otlp_receiver import attributes, otlp_receiver
from tests.integration.running import AGENT_KEY, BY, Running, running
from tests.integration.test_model_coupling import answered
from tests.integration.test_review_webhook import Receiver, receiving, soon


def tables(base: Path, receiver: Receiver, why: str) -> str:
    secret = base / "incident-secret"
    secret.write_text("whsec_" + base64.b64encode(b"0123456789abcdef" * 2).decode())
    secret.chmod(0o600)
    judged = json.dumps({"fails": True, "why": why})
    return f"""
[[judge]]
name = "sure"
command = ["/bin/echo", '{judged}']
deterministic = true
[after]
keep_queries = true
[after.webhook]
url = "http://127.0.0.1:{receiver.port}/hook"
allow = ["127.0.0.1/32"]
secret_file = "{secret}"
[after.sentry]
allow = ["127.0.0.1/32"]
"""


def steps_told(receiver: Receiver) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    for _, body in receiver.got:
        event = msgspec.json.decode(body)
        assert event["type"] == "dev.mnemogate.incident.v1"
        assert event["data"]["count"] == len(event["data"]["incidents"])
        told += event["data"]["incidents"]
    return told


async def blamed(front: Running, asked: dict[str, object]) -> str:
    return str((await front.operate("POST", "/blame", asked))["ending"])


async def incidents_of(bench: Bench, canary: str) -> None:
    """A person's, about a model's reply; and an operator's, by words and by a judge."""
    front = bench.front
    person = await front.key("ada", channel=Channel.USER)
    assert (await front.write(AGENT_KEY, {"text": f"The office is in {canary}."}))[0] == 201
    question = {"query": f"Is the office in {canary}?"}
    _, found = await front.call("POST", "/v1/search", AGENT_KEY, question)
    assert canary in str(found), "control: it is shown"
    body = asking("chat", f"Where? {call('fetch', url=canary)}", tools=("fetch",))
    assert (await bench.ask("chat", body)).status == 200
    result = json.dumps({"results": found["results"]})
    reply = (await bench.ask("chat", answered("chat", body, "call_0000", result))).raw
    (reply_id,) = re.findall(rb'"id": ?"(chatcmpl[^"]*)"', reply)
    said = {"reply_id": reply_id.decode(), "verdict": "wrong", "forbid": canary, "expect": canary}
    status, noted = await front.call("POST", "/v1/feedback", person, said)
    assert (status, bool(noted["incident"])) == (200, True), noted
    # Cases are worked off in their order, so when this one ended the person's has too.
    recall_id = front.sidecar.store.recalls.recalls(Tenant("default"))[0].recall_id
    assert await blamed(front, {"recall_id": recall_id, "forbid": [canary]}) == "not_reproduced"
    assert (await front.write(AGENT_KEY, {"text": f"It is still in {canary}."}))[0] == 201
    _, found = await front.call("POST", "/v1/search", AGENT_KEY, question)
    assert "still" in str(found)
    recall_id = front.sidecar.store.recalls.recalls(Tenant("default"))[0].recall_id
    assert await blamed(front, {"recall_id": recall_id, "judge": "sure"}) == "not_memory_caused"
    incidents = (await front.operate("GET", "/incidents"))["wrong_answers"]
    states = {one["state"] for one in incidents}
    assert states == {"healed", "not_reproduced", "not_memory_caused"}
    assert canary not in str(incidents)


@contextmanager
def logged() -> Generator[io.StringIO]:
    """The lines that a process would print, at the level that says most; then all as it was."""
    root, own = logging.getLogger(), logging.getLogger("mnemogate")
    before = (root.handlers[:], root.level, own.level, logging.raiseExceptions)
    lines = io.StringIO()
    configure(lines, "debug")
    try:
        yield lines
    finally:
        root.handlers[0].close()
        root.handlers[:], level, own_level, logging.raiseExceptions = before
        root.setLevel(level)
        own.setLevel(own_level)


async def test_no_word_of_an_incident_leaves_by_log_leaf_span_or_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = new_canary()
    with otlp_receiver() as received, logged() as lines:
        async with receiving() as receiver, receiving() as sentry:
            monkeypatch.setenv("SENTRY_DSN", f"http://{'0' * 32}@127.0.0.1:{sentry.port}/1")
            beside = tables(tmp_path, receiver, canary)
            flags = {"otel_endpoint": received.url}
            composed = Composition(wait=soon)
            async with fronted(tmp_path, composed, flags=flags, beside=beside) as bench:
                await incidents_of(bench, canary)
                leaves = bench.front.sidecar.store.audit.leaves(0, 10_000)
            steps = [one for one in map(decode_leaf, leaves) if isinstance(one, IncidentLeaf)]
            # What came within a minute of the first message is told at the next start.
            async with running(tmp_path, composed, tables=beside), receiver.came:
                await receiver.came.wait_for(lambda: len(steps_told(receiver)) >= len(steps))
                async with sentry.came:
                    await sentry.came.wait_for(lambda: len(sentry.got) >= len(steps))
    told = steps_told(receiver)
    assert [(one["incident_id"], one["state"]) for one in told] == [
        (one.case_id, one.step.value) for one in steps
    ]
    assert {one["state"] for one in told} >= {"opened", "convicted", "healed", "not_memory_caused"}
    assert {one["by"] for one in told} >= {"ada", BY, "mnemogate:blame"}
    spans = [one.name for one in received.spans]
    assert spans.count("mnemogate.incident") == 3
    assert "mnemogate.ask" in spans
    # Each names the traces of the requests that stored what was convicted, if anything was.
    shown = [attributes(one.attributes) for one in received.spans]
    named = [one["mnemogate.incident.traces"] for one in shown if "mnemogate.incident.id" in one]
    begun = {one.trace_id.hex() for one in received.spans if "create_memory" in one.name}
    assert sorted(map(bool, named)) == [False, False, True]
    assert {trace for one in named for trace in str(one).split()} <= begun
    said = lines.getvalue()
    assert said.count('"event":"incident"') == len(steps)
    sent = [one.SerializeToString() for one in received.requests]
    bodies = [body for _, body in receiver.got]
    findings = [msgspec.json.encode(finding_of(one)) for one in steps]
    events = [body for _, body in sentry.got]
    assert all(b'"fingerprint":["' in one for one in events)
    every = (leaves, sent, bodies, said, findings, events)
    assert [str(one) for one in every if canary in str(one)] == []
