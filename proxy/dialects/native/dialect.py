"""Answers the native memory API, `/v1`, which reports every part of a verdict in plain JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from policy.model import ChangeKind, HistoryEntry, Hit, Memory
from policy.verdict import InvariantBroken, Reason
from proxy.dialects.native import decode as native_decode
from proxy.dialects.native.decode import EXPLAIN
from proxy.dialects.native.wire import (
    BatchOut,
    EntitiesOut,
    EntityOut,
    FoundOut,
    HistoryOut,
    ItemOut,
    MemoryOut,
    NotedOut,
    PageOut,
    ScoreOut,
    StepOut,
    WhoOut,
)
from proxy.dialects.openapi import document
from proxy.dialects.problem import PROBLEM_BASE, PROBLEM_TYPE, problem
from proxy.seams.operation import (
    DeleteWhere,
    EncodingContext,
    EntitiesResult,
    FeedbackResult,
    GetResult,
    HistoryResult,
    HttpReply,
    HttpRequest,
    IdentityResult,
    ListMemories,
    ListResult,
    Operation,
    Refusal,
    Result,
    Search,
    SearchResult,
    Write,
    WriteResult,
    WrittenItem,
)

REASON_BASE: Final = "urn:mnemogate:reason:"
_ENCODER: Final = msgspec.json.Encoder()
_UNPROCESSABLE: Final = frozenset(
    {Reason.NONCE_REPLAYED, Reason.NONCE_INCARNATION, Reason.CHARACTER_REFUSED}
)
_TITLES: Final = {
    "hold": "Memory held for a person",
    "reject": "Memory refused",
    "missing": "No such memory",
    "error": "The gate could not decide",
}


class Native:
    """Decodes and answers requests of the native API (`Dialect`).

    Pure; one instance serves every request.
    """

    name = "native"
    segments = frozenset({"v1"})
    decode = staticmethod(native_decode.decode)

    def claims(self, request: HttpRequest) -> bool:
        """Whether a request is for this API: `/v1/...` without a trailing slash.

        It has a Bearer key or no `Authorization` header. Mem0's clients use `/v1/memories/` with
        `Authorization: Token`, so slash and scheme distinguish the two APIs.
        """
        path = request.path
        if path[:4] != "/v1/" or path[-1] == "/":
            return False
        given = request.headers.get("authorization")
        return given is None or f"{given} "[:7].lower() == "bearer "

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `Authorization: Bearer`; None if there is no such header."""
        header = request.headers.get("authorization")
        return None if header is None else header.partition(" ")[2].strip(" ")

    def encode(  # noqa: PLR0911 - one arm per result
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """The HTTP answer: 200 or 201 with the result; for a refused write, problem details."""
        match result:
            case WriteResult():
                return _written(operation, result, answering)
            case SearchResult():
                explains = isinstance(operation, Search) and operation.note == EXPLAIN
                hits = tuple(_found(hit, explains=explains) for hit in result.hits)
                return _ok(FoundOut(results=hits, recall_id=result.recall_id or None))
            case ListResult():
                offset = operation.offset if isinstance(operation, ListMemories) else 0
                memories = tuple(_memory(memory) for memory in result.memories)
                return _ok(PageOut(total=result.total, offset=offset, memories=memories))
            case GetResult(memory=memory):
                found = None if memory is None else _ok(_memory(memory))
                return found or self.refuse(request, _missing(), answering)
            case HistoryResult(entries=()):
                return self.refuse(request, _missing(), answering)
            case HistoryResult():
                steps = tuple(_step(entry) for entry in result.entries)
                return _ok(HistoryOut(id=result.memory_id, history=steps))
            case EntitiesResult():
                return _ok(_entities(result))
            case IdentityResult() | FeedbackResult():
                return _told(request, result)

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """The answer to a failure, as RFC 9457 problem details."""
        del request
        return problem(refusal, answering)


def _ok(body: msgspec.Struct, status: int = 200) -> HttpReply:
    return HttpReply(status=status, body=_ENCODER.encode(body))


def _missing() -> Refusal:
    return Refusal(status=404, title="Not Found", detail="there is no such memory")


# A repeated answer is marked in a header alone, so that its body equals the first answer's body.
_REPLAYED: Final = (("Mnemogate-Replayed", "1"),)


def _written(operation: Operation, result: WriteResult, answering: EncodingContext) -> HttpReply:
    match operation:
        case DeleteWhere() | Write(note=native_decode.BATCH_NOTE):
            return _batch(result, answering)
        case _:
            written, *more = result.items
    if more:
        raise InvariantBroken("one proposal gives one item")
    headers: tuple[tuple[str, str], ...] = _REPLAYED if written.replayed else ()
    item = _item(written, answering.trace_id)
    if item.status == 503:  # noqa: PLR2004
        headers += (("Retry-After", "1"),)
    return HttpReply(
        status=item.status,
        body=_ENCODER.encode(item),
        content_type="application/json" if item.type is None else PROBLEM_TYPE,
        headers=headers,
    )


def _batch(result: WriteResult, answering: EncodingContext) -> HttpReply:
    results = tuple(_item(item, None) for item in result.items)
    admitted = sum(item.decision == "admit" for item in result.items)
    held = sum(item.decision == "hold" for item in result.items)
    body = BatchOut(
        results=results,
        admitted=admitted,
        held=held,
        refused=len(results) - admitted - held,
        trace_id=answering.trace_id,
    )
    replayed = {item.replayed for item in result.items} == {True}
    headers = _REPLAYED if replayed else ()
    return HttpReply(status=200, body=_ENCODER.encode(body), headers=headers)


def _status(item: WrittenItem) -> int:
    match item.decision:
        case "admit":
            return 201 if item.change is ChangeKind.CREATE else 200
        case "hold":
            return 202
        case "missing":
            return 404
        case "reject" if item.reason in _UNPROCESSABLE:
            # The status is not 409, because client libraries retry a 409 by themselves.
            return 422
        case "reject" if item.reason is not Reason.GATE_UNAVAILABLE:
            return 403
        case _:
            return 503


def _item(item: WrittenItem, trace_id: str | None) -> ItemOut:
    status = _status(item)
    if item.decision == "admit":
        return ItemOut(
            decision=item.decision,
            status=status,
            id=item.memory_id,
            memory_class=item.memory_class,
            class_lowered=item.class_lowered,
            source=item.source,
            candidate_id=item.candidate_id,
            trace_id=trace_id,
            observation=item.observation if item.class_lowered else None,
        )
    reason = item.reason.value if item.reason is not None else None
    return ItemOut(
        type=PROBLEM_BASE + "refused" if reason is None else REASON_BASE + reason,
        title=_TITLES.get(item.decision, "Memory refused"),
        status=status,
        detail=item.observation,
        decision=item.decision,
        reason=reason,
        step=item.step,
        memory_class=item.memory_class,
        class_lowered=item.class_lowered,
        candidate_id=item.candidate_id,
        trace_id=trace_id,
        observation=item.observation,
    )


def _moment(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _memory(memory: Memory, score: float | None = None) -> MemoryOut:
    metadata = memory.metadata_json
    return MemoryOut(
        id=memory.memory_id,
        text=memory.text,
        metadata=None if metadata is None else msgspec.Raw(metadata.encode()),
        memory_class=memory.memory_class,
        source=memory.source,
        basis=memory.basis.value,
        origin=memory.origin or UNSET,
        target=memory.target,
        created_at=_moment(memory.created_at_ms),
        updated_at=_moment(memory.updated_at_ms),
        candidate_id=memory.candidate_id,
        user_id=memory.scope.user_id or UNSET,
        agent_id=memory.scope.agent_id or UNSET,
        run_id=memory.scope.run_id or UNSET,
        app_id=memory.scope.app_id or UNSET,
        role=memory.role or UNSET,
        actor=memory.actor or UNSET,
        expires_at=memory.expires_at or UNSET,
        derived_from=memory.derived_from or UNSET,
        score=UNSET if score is None else score,
    )


def _found(hit: Hit, *, explains: bool) -> MemoryOut:
    found = _memory(hit.memory, round(hit.score, 6))
    if not explains or hit.ranking is None:
        return found
    parts = {name: round(getattr(hit.ranking, name), 6) for name in ("cosine", "words", "trust")}
    return replace(found, explained=ScoreOut(capped=hit.ranking.capped, **parts))


def _step(entry: HistoryEntry) -> StepOut:
    return StepOut(
        change=entry.change.value,
        at=_moment(entry.at_ms),
        candidate_id=entry.candidate_id,
        source=entry.source,
        memory_class=entry.memory_class,
        old_text=entry.old_text,
        new_text=entry.new_text,
    )


def _entities(result: EntitiesResult) -> EntitiesOut:
    return EntitiesOut(
        total=result.total,
        entities=tuple(
            EntityOut(
                kind=entity.kind,
                name=entity.name,
                count=entity.count,
                first_at=_moment(entity.first_at_ms),
                last_at=_moment(entity.last_at_ms),
            )
            for entity in result.entities
        ),
    )


def _told(request: HttpRequest, result: IdentityResult | FeedbackResult) -> HttpReply:
    if isinstance(result, FeedbackResult):
        return _ok(_noted(result))
    if request.path == native_decode.OPENAPI:
        body = document("Mnemogate native API", "", native_decode.ROUTES)
        return HttpReply(status=200, body=body)
    return _ok(_who(result))


def _noted(result: FeedbackResult) -> NotedOut:
    return NotedOut(
        id=result.failure_id,
        kind=result.kind.value,
        verdict=result.grade.value,
        incident=result.case_id or None,
    )


def _who(result: IdentityResult) -> WhoOut:
    return WhoOut(
        principal=result.principal.principal_id,
        tenant=result.principal.tenant,
        channel=result.principal.channel.value,
        claims=result.principal.claims.value,
        reads=result.principal.reads.value,
        incarnation=result.incarnation,
    )
