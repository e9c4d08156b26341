"""Incidents as events and as Detection Findings: their steps, and no field for content."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from policy.after.closure import CaseMode, CaseSignal, CaseStep
from policy.model import PrincipalId
from proxy.cli.export import _told
from proxy.cli.incident import _finding
from proxy.reporting.incident_notice import incident_event, incident_of, incidents_event
from proxy.reporting.ocsf import finding_of
from storage.audit import IncidentLeaf, OperatorLeaf, encode_leaf
from storage.features.cases import Case

STEP = IncidentLeaf(
    case_id="0123456789abcdef",
    at_ms=1_790_000_000_003,
    step=CaseStep.NEEDS_PERSON,
    signal=CaseSignal.PERSON,
    mode=CaseMode.RETRIEVAL,
    suspects=10,
    asks=12,
    culprits=101,
    by=PrincipalId("mnemogate:blame"),
    why="blast",
)


def test_only_leaves_of_incidents_are_picked() -> None:
    opened = msgspec.structs.replace(STEP, step=CaseStep.OPENED, mode=None, why=None)
    for one in (STEP, opened):
        assert incident_of(encode_leaf(one)) == one
    other = OperatorLeaf(at_ms=5, action="key.add", subject="k1", by=PrincipalId("op"))
    assert incident_of(encode_leaf(other)) is None
    assert incident_of(b"") is None


def test_an_event_has_the_steps_and_an_export_has_the_whole_in_the_same_place() -> None:
    event: dict[str, Any] = msgspec.json.decode(incidents_event("msg_1", (STEP,), source="urn:x"))
    (told,) = event["data"]["incidents"]
    assert told == {
        "incident_id": "0123456789abcdef",
        "state": "needs_person",
        "signal": "person",
        "mode": "retrieval",
        "why": "blast",
        "at_ms": 1_790_000_000_003,
        "suspects": 10,
        "asks": 12,
        "culprit_count": 101,
        "by": "mnemogate:blame",
    }
    assert event["time"] == "2026-09-21T14:13:20.003Z"
    assert "subject" not in event
    whole = incident_event("01", "healed", b'{"incident_id":"01"}', source="urn:x", at_ms=1)
    exported: dict[str, Any] = msgspec.json.decode(whole)
    assert exported.keys() - event.keys() == {"subject"}
    assert exported["data"] == {"count": 1, "incidents": [{"incident_id": "01"}]}
    assert exported["type"] == event["type"] == "dev.mnemogate.incident.v1"


# pyright: reportPrivateUsage=false


def told(leaf: IncidentLeaf) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(finding_of(leaf)))
    return decoded


def test_a_step_is_a_finding_with_the_numbers_of_the_schema() -> None:
    assert told(STEP) == {
        "activity_id": 2,
        "category_uid": 2,
        "class_uid": 2004,
        "type_uid": 200402,
        "severity_id": 4,
        "status_id": 2,
        "time": 1_790_000_000_003,
        "metadata": {
            "uid": "0123456789abcdef-needs_person",
            "version": "1.5.0",
            "product": {"name": "Mnemogate", "vendor_name": "Mnemogate"},
        },
        "finding_info": {
            "uid": "0123456789abcdef",
            "title": "A stored memory may have made an answer wrong",
            "types": ["person"],
            "attacks": [{"technique": {"uid": "AML.T0080", "name": "AI Agent Context Poisoning"}}],
        },
        "unmapped": {
            "state": "needs_person",
            "mode": "retrieval",
            "why": "blast",
            "suspects": 10,
            "asks": 12,
            "culprits": 101,
            "by": "mnemogate:blame",
        },
    }


@pytest.mark.parametrize("step", CaseStep)
def test_each_step_creates_updates_or_closes(step: CaseStep) -> None:
    found = told(msgspec.structs.replace(STEP, step=step, why=None))
    activity = {CaseStep.OPENED: 1, CaseStep.REPRODUCED: 2, CaseStep.CONVICTED: 2}.get(step, 3)
    activity = 2 if step is CaseStep.NEEDS_PERSON else activity
    assert (found["activity_id"], found["type_uid"]) == (activity, 200400 + activity)
    assert found["metadata"]["uid"].endswith(step.value)


def test_an_export_of_the_log_has_findings_only_where_it_was_asked_for() -> None:
    assert _told(7, STEP, None, ocsf=True) == finding_of(STEP)
    plain = _told(7, STEP, None, ocsf=False)
    assert isinstance(plain, dict)
    assert plain["event.dataset"] == "mnemogate.incident"
    other = OperatorLeaf(at_ms=5, action="key.add", subject="k1", by=PrincipalId("op"))
    assert isinstance(_told(7, other, None, ocsf=True), dict)


def test_a_whole_incident_names_its_memories_by_their_ids() -> None:
    named = {
        "memory": "m-1",
        "candidate_id": "c",
        "relation": "culprit",
        "act": "quarantine",
        "memory_class": "L3",
        "source": "tool_result",
        "basis": "unproven",
        "leaf_index": 4,
        "server": "web",
        "tool": "fetch",
        "call_id": "t1",
    }
    case = msgspec.convert(
        {
            "incident_id": "0123456789abcdef",
            "tenant": "default",
            "signal": "operator",
            "state": "healed",
            "why": "",
            "opened_at_ms": 5,
            "at_ms": 9,
            "by": "operator",
            "reply_id": "",
            "recall_id": "",
            "anchor_id": "",
            "mode": "retrieval",
            "suspects": 1,
            "asks": 1,
            "rounds": 2,
            "controls": {},
            "culprits": [named],
            "listed": [],
            "listed_count": 0,
        },
        Case,
    )
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_finding(case)))
    assert found["resources"] == [
        {"uid": "m-1", "type": "memory", "labels": ["relation:culprit", "act:quarantine"]}
    ]
    assert (found["finding_info"]["created_time"], found["time"]) == (5, 9)
    assert (found["type_uid"], found["status_id"], found["severity_id"]) == (200403, 4, 3)
