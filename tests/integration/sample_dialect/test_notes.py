"""Requests for notes into operations, and results into answers."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import ChangeKind, MemoryClass
from policy.verdict import Reason
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    GetMemory,
    GetResult,
    ListMemories,
    ListResult,
    Refusal,
    Search,
    Write,
    WriteResult,
    WrittenItem,
)
from tests.integration.sample_dialect.notes import Notes
from tests.unit.proxy.dialects.mem0.sample import (
    ANSWERING,
    FIRST_ID,
    admitted,
    memory,
    not_admitted,
    request,
)

NOTES = Notes()
ONE = f"/notes/{FIRST_ID}"


def _one(written: WrittenItem) -> tuple[int, bytes]:
    asked = request("POST", "/notes", {"text": "Tea at four."})
    result = WriteResult(items=(written,))
    reply = NOTES.encode(asked, NOTES.decode(asked), result, ANSWERING)
    return reply.status, reply.body


def test_a_note_becomes_one_proposal_and_a_standing_one_says_that_it_steers() -> None:
    operation = NOTES.decode(request("POST", "/notes", {"text": "Tea at four.", "about": "ada"}))
    assert isinstance(operation, Write)
    (proposal,) = operation.proposals
    assert (proposal.text, proposal.scope.user_id) == ("Tea at four.", "ada")
    assert (proposal.memory_class, proposal.class_named) == (MemoryClass.L3, False)
    operation = NOTES.decode(request("POST", "/notes", {"text": "Tea.", "standing": True}))
    assert isinstance(operation, Write)
    (proposal,) = operation.proposals
    assert (proposal.memory_class, proposal.class_named) == (MemoryClass.L1, True)


def test_reads_and_deletes_are_told_apart_by_method_and_path() -> None:
    assert NOTES.decode(request("GET", "/notes")) == ListMemories(limit=1_000)
    assert NOTES.decode(request("GET", "/notes?find=tea")) == Search(query="tea")
    assert NOTES.decode(request("GET", ONE)) == GetMemory(memory_id=FIRST_ID)
    operation = NOTES.decode(request("DELETE", ONE))
    assert isinstance(operation, Write)
    (proposal,) = operation.proposals
    assert (proposal.change, proposal.memory_id) == (ChangeKind.DELETE, FIRST_ID)


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/notes", {"text": ""}, 422),
        ("POST", "/notes", {"text": "Tea.", "colour": "red"}, 422),
        ("POST", "/notes", b'{"text": "Tea.", "text": "Rum."}', 422),
        ("POST", "/notes?about=ada", {"text": "Tea."}, 422),
        ("GET", "/notes?find=tea&find=rum", None, 422),
        ("GET", "/notes?sort=age", None, 422),
        ("GET", "/notes/tea", None, 404),
        ("GET", f"{ONE}?find=tea", None, 404),
    ],
)
def test_what_is_not_in_this_language_is_told_so(
    method: str, target: str, body: object, status: int
) -> None:
    with pytest.raises(MalformedRequest) as refused:
        NOTES.decode(request(method, target, body))
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/notes/import"), ("PUT", ONE), ("DELETE", "/notes"), ("POST", ONE)],
)
def test_a_change_that_it_does_not_know_is_an_unknown_write(method: str, target: str) -> None:
    with pytest.raises(UnknownWrite):
        NOTES.decode(request(method, target))


@pytest.mark.parametrize(
    ("decision", "reason", "status"),
    [
        ("reject", Reason.SOURCE_CLASS_FORBIDDEN, 403),
        ("hold", Reason.CLASS_FLOOR, 403),
        ("error", Reason.GATE_UNAVAILABLE, 503),
        ("missing", Reason.TARGET_MISSING, 404),
    ],
)
def test_a_refused_note_is_told_in_its_own_shape(
    decision: str, reason: Reason, status: int
) -> None:
    answered, body = _one(not_admitted(decision, reason))
    assert answered == status
    assert msgspec.json.decode(body)["refused"]["code"] == reason.value
    failed = NOTES.refuse(
        request("GET", "/notes"), Refusal(status=401, title="Unauthorized", detail="d"), ANSWERING
    )
    assert msgspec.json.decode(failed.body) == {"refused": {"code": "unauthorized", "says": "d"}}


def test_what_is_stored_and_what_is_gone_are_told_by_id() -> None:
    assert _one(admitted(memory())) == (201, b'{"note":"%s"}' % FIRST_ID.encode())
    assert _one(admitted(memory(), ChangeKind.DELETE))[0] == 200


def test_notes_are_shown_as_they_are_stored() -> None:
    asked, shown = request("GET", ONE), memory()
    got = NOTES.encode(asked, NOTES.decode(asked), GetResult(memory=shown), ANSWERING)
    expected = {"note": FIRST_ID, "text": shown.text, "about": shown.scope.user_id}
    assert (got.status, msgspec.json.decode(got.body)) == (200, expected)
    got = NOTES.encode(asked, NOTES.decode(asked), GetResult(memory=None), ANSWERING)
    assert got.status == 404
    asked = request("GET", "/notes")
    listed = ListResult(total=1, memories=(shown,))
    all_of_them = NOTES.encode(asked, NOTES.decode(asked), listed, ANSWERING)
    assert msgspec.json.decode(all_of_them.body) == {"notes": [expected]}
