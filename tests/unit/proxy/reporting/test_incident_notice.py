"""An incident as an event: its steps from the log, and the whole of one on export."""

from __future__ import annotations

from typing import Any

import msgspec

from policy.after.case_steps import CaseMode, CaseSignal, CaseStep
from policy.model import PrincipalId
from proxy.reporting.incident_notice import incident_event, incident_of, incidents_event
from storage.audit import IncidentLeaf, OperatorLeaf, encode_leaf

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
