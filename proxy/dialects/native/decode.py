"""Decodes native requests into operations. Pure; raises `MalformedRequest` or `UnknownWrite`."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET

from policy.after.matchers import Grade, Matcher, check_matcher
from policy.model import METADATA_LEN_MAX, NONCE_LEN_MAX, ChangeKind, MemoryClass, MemoryId, Scope
from policy.query import AllOf, Compare, Field, Filter, Test
from proxy.dialects.described import NoQuery, RouteRow, query_as
from proxy.dialects.expiry import expiry
from proxy.dialects.native.wire import (
    UUID_PATTERN,
    AnyDocument,
    Batch,
    BatchOut,
    Change,
    Create,
    Delete,
    EntitiesOut,
    Feedback,
    FiledUnder,
    Filters,
    FoundOut,
    HistoryOut,
    ItemOut,
    MemoryOut,
    NotedOut,
    OffsetQuery,
    PageOut,
    PageQuery,
    SearchBody,
    Update,
    WhoOut,
)
from proxy.dialects.strict_json.strict import (
    canonical_json,
    convert,
    decode_as,
    decode_object,
)
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

ROOT: Final = "/v1"
MEMORIES: Final = f"{ROOT}/memories"
OPENAPI: Final = f"{ROOT}/openapi.json"
BATCH_NOTE: Final = "batch"
_UUID: Final = re.compile(UUID_PATTERN)
_NONCE: Final = re.compile(r"[\x21-\x7e]{1,%d}" % NONCE_LEN_MAX)  # noqa: UP031 - braces in a regex
_INDEX_LEN_MAX: Final = 8
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_CLASS: Final = MemoryClass.L3


class NativeRoute(RouteRow, frozen=True, kw_only=True):
    """One route; `reads` decodes a request with the id in its path into an operation."""

    reads: Callable[[HttpRequest, str], Operation]


def decode(request: HttpRequest) -> Operation:
    """The operation that a native request asks for.

    Raises:
        MalformedRequest: The request is not a valid one; 404 for a read of an unknown route.
        MethodNotAllowed: The route does not have this method (405).
        UnknownWrite: The request would change something on an unknown route.
    """
    method = "GET" if request.method == "HEAD" else request.method
    allowed: list[str] = []
    for route in ROUTES:
        argument = route.match(request.path)
        if argument is None:
            continue
        if route.method != method:
            allowed.append(route.method)
            continue
        if request.query and route.takes is NoQuery:
            query_as(request.query, NoQuery)
        return route.reads(request, argument)
    if allowed:
        raise MethodNotAllowed(tuple(dict.fromkeys(allowed)))
    if method in _READS:
        raise MalformedRequest("there is nothing here", status=404)
    raise UnknownWrite


def _create_one(request: HttpRequest, _argument: str) -> Operation:
    body = decode_as(request.body, Create, each_judged=True)
    return Write(proposals=(_create(body, _nonce(request, body.nonce)),))


def _update_one(request: HttpRequest, argument: str) -> Operation:
    memory_id = _memory_id(argument)
    # The memory's id is in the path; an id in the body could contradict it.
    sent = decode_object(request.body, each_judged=True)
    if not isinstance(sent, dict) or "id" in sent:
        raise MalformedRequest("body: an object without an id")
    body = convert({**sent, "id": memory_id}, Update)
    return Write(proposals=(_update(body, _nonce(request, body.nonce)),))


def _delete_one(request: HttpRequest, argument: str) -> Operation:
    memory_id = _memory_id(argument)
    if request.body:
        raise MalformedRequest("body: a delete has none")
    nonce = _nonce(request, None)
    return Write(proposals=(_delete(Delete(id=memory_id), nonce),))


def _get(_request: HttpRequest, argument: str) -> Operation:
    return GetMemory(memory_id=_memory_id(argument))


def _history(_request: HttpRequest, argument: str) -> Operation:
    return GetHistory(memory_id=_memory_id(argument))


def _entities(request: HttpRequest, _argument: str) -> Operation:
    return ListEntities(offset=query_as(request.query, OffsetQuery).offset, by_offset=True)


def _feedback(request: HttpRequest, _argument: str) -> Operation:
    body = decode_as(request.body, Feedback)
    if sum(one is not None for one in (body.reply_id, body.recall_id, body.memory_id)) != 1:
        raise MalformedRequest("body: one of reply_id, recall_id, memory_id")
    expect, forbid = _entries(body.expect), _entries(body.forbid)
    if body.verdict is None and not expect and not forbid:
        raise MalformedRequest("body: a verdict, or what to expect or forbid")
    if expect or forbid:
        try:
            check_matcher(Matcher(must=expect, must_not=forbid))
        except ValueError as error:
            raise MalformedRequest(f"body: {error}") from None
    return GiveFeedback(
        grade=body.verdict or Grade.WRONG,
        reply_id=body.reply_id,
        recall_id=body.recall_id,
        memory_id=body.memory_id,
        expect=expect,
        forbid=forbid,
    )


def _entries(given: str | None) -> tuple[str, ...]:
    return () if given is None else (given,)


def _identify(_request: HttpRequest, _argument: str) -> Operation:
    return Identify()


def _memory_id(text: str) -> MemoryId:
    if _UUID.fullmatch(text) is None:
        raise MalformedRequest("id: not a lower-case UUID")
    return MemoryId(text)


def _nonce(request: HttpRequest, in_body: str | None) -> str | None:
    in_header = request.headers.get("idempotency-key")
    if in_header is None:
        return in_body
    if in_body is not None:
        raise MalformedRequest("nonce: give it in the body or in Idempotency-Key, not in both")
    if _NONCE.fullmatch(in_header) is None:
        raise MalformedRequest("Idempotency-Key: 1 to 128 printable ASCII characters, no spaces")
    return in_header


def _batch(request: HttpRequest, _argument: str) -> Operation:
    batch = decode_as(request.body, Batch, each_judged=True)
    key = _nonce(request, None)
    if key is not None and len(key) > NONCE_LEN_MAX - _INDEX_LEN_MAX:
        raise MalformedRequest("Idempotency-Key: at most 120 characters for a batch")
    proposals: list[Proposal] = []
    for index, change in enumerate(batch.operations):
        if key is not None and change.nonce is not None:
            raise MalformedRequest("nonce: give one per operation or Idempotency-Key, not both")
        # A nonce can be spent only once, so each operation of a batch gets its own.
        nonce = change.nonce if key is None else f"{key}/{index}"
        match change:
            case Create():
                proposals.append(_create(change, nonce))
            case Update():
                proposals.append(_update(change, nonce))
            case Delete():
                proposals.append(_delete(change, nonce))
    return Write(proposals=tuple(proposals), note=BATCH_NOTE)


def _create(body: Create, nonce: str | None) -> Proposal:
    scope = Scope(
        user_id=body.user_id, agent_id=body.agent_id, run_id=body.run_id, app_id=body.app_id
    )
    return _proposal(ChangeKind.CREATE, body, body.text, nonce, scope=scope)


def _update(body: Update, nonce: str | None) -> Proposal:
    if body.text is None and body.metadata is None and body.memory_class is None:
        raise MalformedRequest("body: an update changes text, metadata or class")
    return _proposal(ChangeKind.UPDATE, body, body.text, nonce, memory_id=MemoryId(body.id))


def _proposal(
    change: ChangeKind,
    body: Change,
    text: str | None,
    nonce: str | None,
    *,
    scope: Scope = Scope(),  # noqa: B008 - frozen
    memory_id: MemoryId | None = None,
) -> Proposal:
    return Proposal(
        change=change,
        memory_id=memory_id,
        text=text,
        metadata_json=None if body.metadata is None else _metadata(body.metadata),
        scope=scope,
        target=body.target,
        memory_class=body.memory_class or _DEFAULT_CLASS,
        class_named=body.memory_class is not None,
        claimed_source=body.source,
        role=body.role,
        actor=body.actor,
        derived_from=tuple(map(MemoryId, body.derived_from)),
        expires_at=None if body.expires_at is None else expiry(body.expires_at, "expires_at"),
        nonce=nonce,
        promotion_token=body.promotion_token,
        vector=None if body.vector is None else _vector(body.vector),
    )


def _delete(body: Delete, nonce: str | None) -> Proposal:
    return Proposal(
        change=ChangeKind.DELETE, memory_id=MemoryId(body.id), target=body.target, nonce=nonce
    )


def _metadata(given: dict[str, Any]) -> str:
    text = canonical_json(given)
    if len(text) > METADATA_LEN_MAX:
        raise MalformedRequest("metadata: too large")
    return text


def _vector(given: list[float]) -> bytes:
    try:
        packed = struct.pack(f"<{len(given)}f", *given)
    except OverflowError:  # the number is beyond the range of float32
        raise MalformedRequest("vector: a number is out of range") from None
    length = math.sqrt(math.fsum(number * number for number in given))
    if not math.isfinite(length) or abs(length - 1.0) > 1e-3:  # noqa: PLR2004 - float32 rounding
        raise MalformedRequest("vector: must have unit norm")
    return packed


EXPLAIN: Final = "explain"
"""The note of a search whose results are sent with the parts of their scores."""


def _search(request: HttpRequest, _argument: str) -> Operation:
    body = decode_as(request.body, SearchBody)
    if (body.query is None) == (body.vector is None):
        raise MalformedRequest("search: give a query or a vector, and only one")
    return Search(
        query=body.query,
        vector=None if body.vector is None else _vector(body.vector),
        where=_where(body.filters),
        limit=body.limit,
        threshold=body.threshold,
        note=EXPLAIN if body.explain else "",
    )


def _where(filters: FiledUnder) -> Filter:
    named = {
        Field.USER_ID: filters.user_id,
        Field.AGENT_ID: filters.agent_id,
        Field.RUN_ID: filters.run_id,
        Field.APP_ID: filters.app_id,
        Field.TARGET: filters.target,
        Field.MEMORY_CLASS: filters.memory_class and filters.memory_class.value,
        Field.SOURCE: filters.source and filters.source.value,
    }
    tests = [
        Test(field=field, compare=Compare.EQ, values=(value,))
        for field, value in named.items()
        if value is not UNSET
    ]
    if isinstance(filters, Filters):
        tests.extend(
            Test(field=Field.METADATA, compare=Compare.EQ, key=key, values=(value,))
            for key, value in filters.metadata.items()
        )
    return AllOf(parts=tuple(tests))


def _list(request: HttpRequest, _argument: str) -> Operation:
    asked = query_as(request.query, PageQuery)
    return ListMemories(where=_where(asked), offset=asked.offset, limit=asked.limit, by_offset=True)


def _delete_where(request: HttpRequest, _argument: str) -> Operation:
    if request.body:
        raise MalformedRequest("body: a delete has none")
    asked = query_as(request.query, FiledUnder)
    if not request.query:
        raise MalformedRequest("query: say which; deleting everything has no short form")
    return DeleteWhere(where=_where(asked), nonce=_nonce(request, None))


_ONE: Final = f"{MEMORIES}/{{id}}"
_VERDICTS: Final = (202, 403, 422, 503)
ROUTES: Final = (
    NativeRoute(
        method="POST",
        template=MEMORIES,
        summary="Write one memory.",
        asks=Create,
        answers=ItemOut,
        status=201,
        refuses=ItemOut,
        refused=_VERDICTS,
        reads=_create_one,
    ),
    NativeRoute(
        method="POST",
        template=f"{MEMORIES}/batch",
        summary="Create, update and delete, each judged by itself, in order.",
        asks=Batch,
        answers=BatchOut,
        reads=_batch,
    ),
    NativeRoute(
        method="GET",
        template=MEMORIES,
        summary="One page of memories, newest first.",
        takes=PageQuery,
        answers=PageOut,
        reads=_list,
    ),
    NativeRoute(
        method="DELETE",
        template=MEMORIES,
        summary="Delete all that fit the query, each judged by itself.",
        takes=FiledUnder,
        answers=BatchOut,
        reads=_delete_where,
    ),
    NativeRoute(method="GET", template=_ONE, summary="One memory.", answers=MemoryOut, reads=_get),
    *(
        NativeRoute(
            method=method,
            template=_ONE,
            summary="Change a memory; what is left out stays.",
            asks=Update,
            in_path=("id",),
            answers=ItemOut,
            refuses=ItemOut,
            refused=(202, 403, 404, 422, 503),
            reads=_update_one,
        )
        for method in ("PATCH", "PUT")
    ),
    NativeRoute(
        method="DELETE",
        template=_ONE,
        summary="Delete a memory.",
        answers=ItemOut,
        refuses=ItemOut,
        refused=(202, 403, 404, 422, 503),
        reads=_delete_one,
    ),
    NativeRoute(
        method="GET",
        template=f"{_ONE}/history",
        summary="The committed steps of a memory, oldest first.",
        answers=HistoryOut,
        reads=_history,
    ),
    NativeRoute(
        method="POST",
        template=f"{ROOT}/search",
        summary="The memories nearest to a question or a vector, best first.",
        asks=SearchBody,
        answers=FoundOut,
        reads=_search,
    ),
    NativeRoute(
        method="GET",
        template=f"{ROOT}/entities",
        summary="The ids that memories are filed under.",
        takes=OffsetQuery,
        answers=EntitiesOut,
        reads=_entities,
    ),
    NativeRoute(
        method="POST",
        template=f"{ROOT}/feedback",
        summary="Say that an answer was wrong, or how fitting a memory was.",
        asks=Feedback,
        answers=NotedOut,
        reads=_feedback,
    ),
    NativeRoute(
        method="GET",
        template=f"{ROOT}/whoami",
        summary="Who the sidecar takes the caller for, and the store's incarnation.",
        answers=WhoOut,
        reads=_identify,
    ),
    # This route shares an operation with `whoami`, because a caller with a valid credential may
    # read the description of the API.
    NativeRoute(
        method="GET",
        template=OPENAPI,
        summary="This document.",
        answers=AnyDocument,
        reads=_identify,
    ),
)
