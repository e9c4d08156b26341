"""Native requests into operations: every field, every limit, every route."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from policy import query
from policy.after.signals import Grade
from policy.model import ChangeKind, MemoryClass, SourceKind
from proxy.dialects.native.dialect import Native
from proxy.seams.faults import MalformedRequest, MethodNotAllowed, UnknownWrite
from proxy.seams.operation import (
    DeleteWhere,
    GetHistory,
    GetMemory,
    GiveFeedback,
    HttpRequest,
    Identify,
    ListEntities,
    ListMemories,
    Operation,
    Proposal,
    Search,
    Write,
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
    "body", [{}, {"query": "q", "vector": [1.0]}, {"query": "q", "limit": 0}, {"query": ""}]
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
