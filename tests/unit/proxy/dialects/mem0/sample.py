"""Requests, memories and verdicts for the tests of the Mem0 dialects."""

from __future__ import annotations

import pathlib
from urllib.parse import parse_qsl

import msgspec

import policy
from policy.model import (
    Basis,
    CandidateId,
    ChangeKind,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.ruleset import parse_ruleset
from policy.verdict import Reason
from proxy.dialects.mem0 import Mem0Oss, Mem0Platform
from proxy.seams.observations import observation_for
from proxy.seams.operation import EncodingContext, HttpReply, HttpRequest, WrittenItem

RULESET = parse_ruleset((pathlib.Path(policy.__file__).parent / "default.toml").read_text())
PLATFORM = Mem0Platform(lambda: RULESET.classes["mem0"])
OSS = Mem0Oss(lambda: RULESET.classes["mem0"])
TOKEN = {"authorization": "Token agent-key"}
API_KEY = {"x-api-key": "agent-key"}
ANSWERING = EncodingContext(trace_id="ab" * 16, now_ms=1_700_000_000_000, request_id="r-1")
FIRST_ID = MemoryId("11111111-1111-4111-8111-111111111111")
SECOND_ID = MemoryId("22222222-2222-4222-8222-222222222222")


def request(
    method: str, target: str, body: object = None, headers: dict[str, str] | None = None
) -> HttpRequest:
    path, _, query = target.partition("?")
    data = b"" if body is None else msgspec.json.encode(body)
    return HttpRequest(
        method=method,
        path=path,
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        headers=headers if headers is not None else TOKEN,
        body=body if isinstance(body, bytes) else data,
    )


def memory(
    memory_id: MemoryId = FIRST_ID,
    *,
    text: str = "I am vegetarian",
    scope: Scope | None = None,
    metadata_json: str | None = '{"src":"chat"}',
    expires_at: str | None = None,
) -> Memory:
    return Memory(
        memory_id=memory_id,
        tenant=Tenant("default"),
        principal_id=PrincipalId("agent"),
        text=text,
        metadata_json=metadata_json,
        scope=scope or Scope(user_id="alice", run_id="r1"),
        target="memories",
        memory_class=MemoryClass.L3,
        source=SourceKind.UNKNOWN,
        basis=Basis.UNPROVEN,
        status=MemoryStatus.LIVE,
        version=7,
        created_at_ms=1_700_000_000_123,
        updated_at_ms=1_700_000_060_456,
        candidate_id=CandidateId("0" * 31 + "1"),
        role="user",
        expires_at=expires_at,
    )


def admitted(found: Memory, change: ChangeKind = ChangeKind.CREATE) -> WrittenItem:
    return WrittenItem(
        decision="admit",
        change=change,
        memory_id=found.memory_id,
        candidate_id=found.candidate_id,
        reason=None,
        step=None,
        memory_class=found.memory_class,
        source=found.source,
        observation=observation_for("admit", None, found.memory_class),
        version=found.version,
        memory=None if change is ChangeKind.DELETE else found,
    )


def not_admitted(
    decision: str = "reject",
    reason: Reason = Reason.SOURCE_CLASS_FORBIDDEN,
    change: ChangeKind = ChangeKind.CREATE,
    memory_id: MemoryId | None = None,
) -> WrittenItem:
    return WrittenItem(
        decision=decision,
        change=change,
        memory_id=memory_id,
        candidate_id=CandidateId("c" * 32),
        reason=reason,
        step=1,
        memory_class=MemoryClass.L3,
        source=SourceKind.TOOL_RESULT,
        observation=observation_for(decision, reason, MemoryClass.L3),
    )


def json_of(reply: HttpReply) -> object:
    return msgspec.json.decode(reply.body)


def object_of(reply: HttpReply) -> dict[str, object]:
    return msgspec.json.decode(reply.body, type=dict[str, object])
