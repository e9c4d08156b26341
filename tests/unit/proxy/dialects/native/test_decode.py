"""Native requests into operations, and verdicts into answers: every field, limit and route."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from policy import query
from policy.after.matchers import Grade
from policy.model import CandidateId, ChangeKind, MemoryClass, MemoryId, SourceKind
from policy.verdict import Reason
from proxy.dialects.native.dialect import Native
from proxy.seams.faults import MalformedRequest, MethodNotAllowed, UnknownWrite
from proxy.seams.observations import NEXT, observation_for
from proxy.seams.operation import (
    DeleteWhere,
    EncodingContext,
    GetHistory,
    GetMemory,
    GiveFeedback,
    HttpReply,
    HttpRequest,
    Identify,
    ListEntities,
    ListMemories,
    Operation,
    Proposal,
    Search,
    Write,
    WriteResult,
    WrittenItem,
)

NATIVE = Native()
ID = "00000000-0000-4000-8000-00000000000a"


def request(
    method: str,
    path: str,
    body: object = None,
    *,
    query: tuple[tuple[str, str], ...] = (),
    headers: dict[str, str] | None = None,
) -> HttpRequest:
    data = b"" if body is None else msgspec.json.encode(body)
    return HttpRequest(method=method, path=path, query=query, headers=headers or {}, body=data)


def proposal(body: object, headers: dict[str, str] | None = None) -> Proposal:
    operation = NATIVE.decode(request("POST", "/v1/memories", body, headers=headers))
    assert isinstance(operation, Write)
    (only,) = operation.proposals
    return only


def test_create_carries_every_field_and_names_no_class_by_itself() -> None:
    plain = proposal({"text": "x"})
    assert plain.change is ChangeKind.CREATE
    assert (plain.memory_class, plain.class_named) == (MemoryClass.L3, False)
    full = proposal(
        {
            "text": "x",
            "class": "L1",
            "source": "user_input",
            "target": "policies",
            "user_id": "ada",
            "run_id": "r",
            "metadata": {"b": 1, "a": [True, None]},
            "role": "user",
            "actor": "Ada",
            "derived_from": [ID],
            "expires_at": "2030-01-01",
            "nonce": "n",
            "promotion_token": "t",
            "vector": [0.6, 0.8],
        }
    )
    assert (full.memory_class, full.class_named) == (MemoryClass.L1, True)
    assert full.claimed_source is SourceKind.USER_INPUT
    assert full.scope.user_id == "ada"
    assert full.metadata_json == '{"a":[true,null],"b":1}'
    assert full.derived_from == (ID,)
    assert full.vector == struct.pack("<2f", 0.6, 0.8)
    assert (full.nonce, full.promotion_token, full.target) == ("n", "t", "policies")


def test_nonce_comes_from_header_or_body_and_never_both() -> None:
    assert proposal({"text": "x"}, {"idempotency-key": "k"}).nonce == "k"
    with pytest.raises(MalformedRequest):
        proposal({"text": "x", "nonce": "n"}, {"idempotency-key": "k"})
    for bad in ("", "a b", "x" * 129, "é"):
        with pytest.raises(MalformedRequest):
            proposal({"text": "x"}, {"idempotency-key": bad})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": 1},
        {"text": None},
        {"text": "x", "op": "delete"},
        {"text": "x", "id": ID},
        {"text": "x", "user_id": ""},
        {"text": "x", "user_id": "u" * 257},
        {"text": "x", "class": "L5"},
        {"text": "x", "class": "l1"},
        {"text": "x", "source": "god"},
        {"text": "x", "metadata": []},
        {"text": "x", "metadata": {"a": "y" * 33_000}},
        {"text": "x", "derived_from": ["not-an-id"]},
        {"text": "x", "derived_from": [ID] * 65},
        {"text": "x", "expires_at": "tomorrow"},
        {"text": "x", "expires_at": "2030-13-01"},
        {"text": "x", "expires_at": "2030-02-30"},
        {"text": "x", "expires_at": "2030-02-01T24:00:00Z"},
        {"text": "x", "expires_at": "2030-02-01T10:00:00"},
        {"text": "x", "vector": []},
        {"text": "x", "vector": [0, 0]},
        {"text": "x", "vector": [1, 1]},
        {"text": "x", "vector": [1e308, 1e308]},
        {"text": "x", "vector": ["1"]},
        {"text": "x", "vector": [0.0] * 8_193},
        {"text": "x", "nonce": "n" * 129},
    ],
)
def test_create_that_does_not_fit_is_malformed(body: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest):
        proposal(body)


def test_update_changes_what_it_names() -> None:
    for method in ("PATCH", "PUT"):
        operation = NATIVE.decode(request(method, f"/v1/memories/{ID}", {"metadata": {}}))
        assert isinstance(operation, Write)
        (only,) = operation.proposals
        assert (only.change, only.memory_id, only.text) == (ChangeKind.UPDATE, ID, None)
        assert only.metadata_json == "{}"
    unfit: tuple[object, ...] = ({}, {"text": "x", "id": ID}, {"target": "t"}, "x")
    for bad in unfit:
        with pytest.raises(MalformedRequest):
            NATIVE.decode(request("PATCH", f"/v1/memories/{ID}", bad))


def test_delete_has_no_body_and_takes_its_nonce_from_the_header() -> None:
    sent = request("DELETE", f"/v1/memories/{ID}", headers={"idempotency-key": "k"})
    operation = NATIVE.decode(sent)
    assert isinstance(operation, Write)
    assert operation.proposals[0].change is ChangeKind.DELETE
    assert operation.proposals[0].nonce == "k"
    with pytest.raises(MalformedRequest):
        NATIVE.decode(request("DELETE", f"/v1/memories/{ID}", {}))


def test_batch_gives_each_operation_its_own_nonce() -> None:
    operations = [
        {"op": "create", "text": "x"},
        {"op": "update", "id": ID, "text": "y"},
        {"op": "delete", "id": ID},
    ]
    sent = request(
        "POST", "/v1/memories/batch", {"operations": operations}, headers={"idempotency-key": "k"}
    )
    operation = NATIVE.decode(sent)
    assert isinstance(operation, Write)
    assert [one.nonce for one in operation.proposals] == ["k/0", "k/1", "k/2"]
    assert [one.change.value for one in operation.proposals] == ["create", "update", "delete"]
    for bad in ([], [{"text": "x"}], [{"op": "purge", "id": ID}]):
        with pytest.raises(MalformedRequest):
            NATIVE.decode(request("POST", "/v1/memories/batch", {"operations": bad}))


def test_delete_where_needs_a_filter() -> None:
    operation = NATIVE.decode(request("DELETE", "/v1/memories", query=(("user_id", "ada"),)))
    assert isinstance(operation, DeleteWhere)
    assert operation.where == query.AllOf(
        parts=(query.Test(field=query.Field.USER_ID, compare=query.Compare.EQ, values=("ada",)),)
    )
    with pytest.raises(MalformedRequest):
        NATIVE.decode(request("DELETE", "/v1/memories"))


def test_feedback_names_one_thing_and_says_something_of_it() -> None:
    def decoded(**body: object) -> Operation:
        return NATIVE.decode(request("POST", "/v1/feedback", body))

    assert decoded(memory_id=ID, verdict="good") == GiveFeedback(grade=Grade.GOOD, memory_id=ID)
    assert decoded(reply_id="msg_1", expect="30 days", forbid="re:1[45] days") == GiveFeedback(
        grade=Grade.WRONG, reply_id="msg_1", expect=("30 days",), forbid=("re:1[45] days",)
    )
    for body, why in (
        ({"memory_id": ID}, "a verdict, or what to expect or forbid"),
        ({"verdict": "wrong"}, "one of reply_id, recall_id, memory_id"),
        ({"verdict": "wrong", "memory_id": ID, "recall_id": "a"}, "one of reply_id"),
        ({"verdict": "bad", "memory_id": ID}, "verdict"),
        ({"memory_id": ID, "forbid": "re:(a+)+"}, "must_not, entry 1: a repeat inside a repeat"),
        ({"memory_id": ID, "verdict": "wrong", "note": "x"}, "not known here"),
    ):
        with pytest.raises(MalformedRequest) as refused:
            decoded(**body)
        assert (refused.value.status, why in refused.value.detail) == (422, True), why


def test_reads_are_read() -> None:
    assert isinstance(NATIVE.decode(request("GET", f"/v1/memories/{ID}")), GetMemory)
    assert isinstance(NATIVE.decode(request("GET", f"/v1/memories/{ID}/history")), GetHistory)
    assert isinstance(NATIVE.decode(request("GET", "/v1/entities")), ListEntities)
    assert isinstance(NATIVE.decode(request("HEAD", "/v1/whoami")), Identify)
    listed = NATIVE.decode(request("GET", "/v1/memories", query=(("limit", "5"), ("class", "L3"))))
    assert isinstance(listed, ListMemories)
    assert listed.limit == 5
    found = NATIVE.decode(request("POST", "/v1/search", {"query": "q", "limit": 3}))
    assert isinstance(found, Search)
    assert found.limit == 3


@pytest.mark.parametrize(
    "query",
    [
        (("limit", "0"),),
        (("limit", "1001"),),
        (("limit", "-1"),),
        (("limit", "1"), ("limit", "2")),
        (("offset", "x"),),
        (("class", "L9"),),
        (("colour", "red"),),
    ],
)
def test_listing_that_does_not_fit_is_malformed(query: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(MalformedRequest):
        NATIVE.decode(request("GET", "/v1/memories", query=query))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": "q", "vector": [1.0]},
        {"query": "q", "limit": 0},
        {"query": ""},
        {"query": "q", "filters": {"user_id": None}},
        {"query": "q", "filters": {"class": None}},
        {"query": "q", "filters": {"metadata": {"k": None}}},
    ],
)
def test_search_that_does_not_fit_is_malformed(body: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest):
        NATIVE.decode(request("POST", "/v1/search", body))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/forget"),
        ("DELETE", "/v1/memories/batch/history/all"),
    ],
)
def test_unknown_mutating_route_is_a_write_nobody_knows(method: str, path: str) -> None:
    with pytest.raises(UnknownWrite):
        NATIVE.decode(request(method, path))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/entities", ("GET",)),
        ("PUT", "/v1/memories", ("POST", "GET", "DELETE")),
        ("POST", f"/v1/memories/{ID}", ("GET", "PATCH", "PUT", "DELETE")),
        ("DELETE", f"/v1/memories/{ID}/history", ("GET",)),
        ("POST", "/v1/whoami", ("GET",)),
        ("GET", "/v1/search", ("POST",)),
    ],
)
def test_a_method_that_a_route_does_not_have_is_told_those_that_it_has(
    method: str, path: str, allowed: tuple[str, ...]
) -> None:
    with pytest.raises(MethodNotAllowed) as told:
        NATIVE.decode(request(method, path))
    assert (told.value.status, told.value.allowed) == (405, allowed)


def test_memory_id_is_a_uuid_and_nothing_else() -> None:
    for bad in (ID.upper(), "1", f"{ID}0", "{id}"):
        with pytest.raises(MalformedRequest):
            NATIVE.decode(request("GET", f"/v1/memories/{bad}"))


ANSWERING = EncodingContext(trace_id="ab" * 16, now_ms=0, request_id="r")


@pytest.mark.parametrize(
    ("path", "authorization", "claimed"),
    [
        ("/v1/memories", "Bearer k", True),
        ("/v1/memories", "bearer k", True),
        ("/v1/memories", None, True),
        ("/v1/memories", "Token k", False),
        ("/v1/memories/", "Bearer k", False),
        ("/v1/memories/", "Token k", False),
        ("/v1/unknown", "Bearer k", True),
        ("/v2/memories", "Bearer k", False),
        ("/memories", "Bearer k", False),
    ],
)
def test_claims_by_path_and_scheme(
    path: str,
    authorization: str | None,
    claimed: bool,  # noqa: FBT001 - a column of the table
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    assert NATIVE.claims(request("POST", path, headers=headers)) is claimed


def test_credential_is_what_follows_bearer() -> None:
    assert NATIVE.credential(request("GET", "/v1/whoami")) is None
    sent = request("GET", "/v1/whoami", headers={"authorization": "Bearer  mg_x_y "})
    assert NATIVE.credential(sent) == "mg_x_y"


def item(
    decision: str, reason: Reason | None, change: ChangeKind = ChangeKind.CREATE
) -> WrittenItem:
    return WrittenItem(
        decision=decision,
        change=change,
        memory_id=MemoryId(ID),
        candidate_id=CandidateId("cd" * 16),
        reason=reason,
        step=None if reason is None else 1,
        memory_class=MemoryClass.L2,
        source=SourceKind.UNKNOWN,
        observation=observation_for(decision, reason, MemoryClass.L2),
        version=3,
        leaf_index=9,
    )


def answer(*items: WrittenItem, note: str = "") -> HttpReply:
    sent = request("POST", "/v1/memories")
    operation = Write(proposals=(), note=note)
    return NATIVE.encode(sent, operation, WriteResult(items=items), ANSWERING)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_status_and_its_words(reason: Reason) -> None:
    reply = answer(item("reject", reason))
    body = msgspec.json.decode(reply.body)
    expected = 403
    if reason in (Reason.NONCE_REPLAYED, Reason.NONCE_INCARNATION, Reason.CHARACTER_REFUSED):
        expected = 422
    if reason is Reason.GATE_UNAVAILABLE:
        expected = 503
    assert reply.status == expected == body["status"]
    assert reply.content_type == "application/problem+json"
    assert body["reason"] == reason.value
    assert body["type"].endswith(reason.value)
    assert body["observation"] == f"Not stored ({reason.value}, L2). {NEXT[reason]}"
    assert body["trace_id"] == ANSWERING.trace_id
    assert "text" not in body


def test_other_decisions_have_theirs() -> None:
    assert answer(item("admit", None)).status == 201
    assert answer(item("admit", None, ChangeKind.DELETE)).status == 200
    assert answer(item("hold", Reason.CLASS_FLOOR)).status == 202
    assert answer(item("missing", Reason.TARGET_MISSING)).status == 404
    failed = answer(item("error", Reason.GATE_UNAVAILABLE))
    assert failed.status == 503
    assert dict(failed.headers)["Retry-After"]


def test_batch_is_answered_item_by_item() -> None:
    refused, held = item("reject", Reason.CLASS_FLOOR), item("hold", Reason.CLASS_FLOOR)
    failed = item("error", Reason.GATE_UNAVAILABLE)
    reply = answer(item("admit", None), refused, held, held, failed, note="batch")
    body = msgspec.json.decode(reply.body)
    assert reply.status == 200
    assert [one["status"] for one in body["results"]] == [201, 403, 202, 202, 503]
    assert (body["admitted"], body["held"], body["refused"]) == (1, 2, 2)


def test_replay_changes_a_header_and_not_the_body() -> None:
    first = item("admit", None)
    again = msgspec.structs.replace(first, replayed=True)
    assert answer(first).body == answer(again).body
    assert ("Mnemogate-Replayed", "1") in answer(again).headers
    assert answer(first).headers == ()
