"""The native dialect: what it claims, what it reads, and how it says each verdict."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import CandidateId, ChangeKind, MemoryClass, MemoryId, SourceKind
from policy.verdict import Reason
from proxy.dialects.native.dialect import Native
from proxy.seams.observations import NEXT, observation_for
from proxy.seams.operation import (
    EncodingContext,
    HttpReply,
    HttpRequest,
    Write,
    WriteResult,
    WrittenItem,
)

NATIVE = Native()
ID = "00000000-0000-4000-8000-00000000000a"
ANSWERING = EncodingContext(trace_id="ab" * 16, now_ms=0, request_id="r")


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
    if reason in (Reason.NONCE_REPLAYED, Reason.NONCE_INCARNATION):
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
