"""Native requests into operations. Pure; raises `MalformedRequest` or `UnknownWrite`."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Final

from policy.model import METADATA_LEN_MAX, NONCE_LEN_MAX, ChangeKind, MemoryClass, MemoryId, Scope
from policy.query import AllOf, Compare, Field, Filter, Test
from proxy.dialects.expiry import expiry
from proxy.dialects.native.wire import (
    UUID_PATTERN,
    Batch,
    Change,
    Create,
    Delete,
    Filters,
    SearchBody,
    Update,
)
from proxy.dialects.strict_json.strict import (
    JsonValue,
    canonical_json,
    convert,
    decode_as,
    decode_object,
)
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    PAGE_LEN_MAX,
    DeleteWhere,
    GetHistory,
    GetMemory,
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
BATCH_NOTE: Final = "batch"
_UUID: Final = re.compile(UUID_PATTERN)
_ID_PATH: Final = re.compile(rf"{MEMORIES}/([^/]+)(/history)?")
_NONCE: Final = re.compile(r"[\x21-\x7e]{1,%d}" % NONCE_LEN_MAX)  # noqa: UP031 - braces in a regex
_INDEX_LEN_MAX: Final = 8
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_CLASS: Final = MemoryClass.L3
_SCOPES: Final = {
    "user_id": Field.USER_ID,
    "agent_id": Field.AGENT_ID,
    "run_id": Field.RUN_ID,
    "app_id": Field.APP_ID,
    "target": Field.TARGET,
    "class": Field.MEMORY_CLASS,
    "source": Field.SOURCE,
}


def decode(request: HttpRequest) -> Operation:  # noqa: PLR0911 - the route table
    """The operation a native request asks for.

    Raises:
        MalformedRequest: It is not one; 404 for a read of a route that is not there.
        UnknownWrite: A mutating route that is not there.
    """
    method = "GET" if request.method == "HEAD" else request.method
    match (method, request.path):
        case ("POST", "/v1/memories"):
            body = decode_as(request.body, Create)
            return Write(proposals=(_create(body, _nonce(request, body.nonce)),))
        case ("POST", "/v1/memories/batch"):
            return _batch(request)
        case ("POST", "/v1/search"):
            return _search(request)
        case ("DELETE", "/v1/memories"):
            return _delete_where(request)
        case ("GET", "/v1/memories"):
            return _list(request)
        case ("GET", "/v1/entities"):
            given = _query(request, frozenset({"offset"}))
            offset = _number(given.get("offset", "0"), "offset", 0, 10**9)
            return ListEntities(offset=offset, by_offset=True)
        case ("GET", "/v1/whoami"):
            _no_query(request)
            return Identify()
        case _:
            return _by_id(method, request)


def _by_id(method: str, request: HttpRequest) -> Operation:
    found = _ID_PATH.fullmatch(request.path)
    if found is None:
        raise _unknown(method)
    told = found[2] is not None
    memory_id = _memory_id(found[1])
    _no_query(request)
    match (method, told):
        case ("GET", False):
            return GetMemory(memory_id=memory_id)
        case ("GET", True):
            return GetHistory(memory_id=memory_id)
        case ("PATCH" | "PUT", False):
            # The id is in the path; one in the body would be a second opinion.
            sent = decode_object(request.body)
            if not isinstance(sent, dict) or "id" in sent:
                raise MalformedRequest("body: an object without an id")
            body = convert({**sent, "id": memory_id}, Update)
            return Write(proposals=(_update(body, _nonce(request, body.nonce)),))
        case ("DELETE", False):
            if request.body:
                raise MalformedRequest("body: a delete has none")
            nonce = _nonce(request, None)
            return Write(proposals=(_delete(Delete(id=memory_id), nonce),))
        case _:
            raise _unknown(method)


def _unknown(method: str) -> Exception:
    if method in _READS:
        return MalformedRequest("there is nothing here", status=404)
    return UnknownWrite()


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


def _batch(request: HttpRequest) -> Write:
    batch = decode_as(request.body, Batch)
    key = _nonce(request, None)
    if key is not None and len(key) > NONCE_LEN_MAX - _INDEX_LEN_MAX:
        raise MalformedRequest("Idempotency-Key: at most 120 characters for a batch")
    proposals: list[Proposal] = []
    for index, change in enumerate(batch.operations):
        if key is not None and change.nonce is not None:
            raise MalformedRequest("nonce: give one per operation or Idempotency-Key, not both")
        # One nonce cannot be spent twice: each operation of the batch gets its own.
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
        metadata_json=_metadata(body.metadata),
        scope=scope,
        target=body.target,
        memory_class=body.memory_class or _DEFAULT_CLASS,
        class_named=body.memory_class is not None,
        claimed_source=body.source,
        role=body.role,
        actor=body.actor,
        derived_from=tuple(MemoryId(parent) for parent in body.derived_from),
        expires_at=None if body.expires_at is None else expiry(body.expires_at, "expires_at"),
        nonce=nonce,
        promotion_token=body.promotion_token,
        vector=_vector(body.vector),
    )


def _delete(body: Delete, nonce: str | None) -> Proposal:
    return Proposal(
        change=ChangeKind.DELETE, memory_id=MemoryId(body.id), target=body.target, nonce=nonce
    )


def _metadata(given: dict[str, Any] | None) -> str | None:
    if given is None:
        return None
    text = canonical_json(given)
    if len(text) > METADATA_LEN_MAX:
        raise MalformedRequest("metadata: too large")
    return text


def _vector(given: list[float] | None) -> bytes | None:
    if given is None:
        return None
    try:
        packed = struct.pack(f"<{len(given)}f", *given)
    except OverflowError:  # a double beyond float32
        raise MalformedRequest("vector: a number is out of range") from None
    length = math.sqrt(math.fsum(number * number for number in given))
    if not math.isfinite(length) or abs(length - 1.0) > 1e-3:  # noqa: PLR2004 - float32 rounding
        raise MalformedRequest("vector: must have unit norm")
    return packed


def _search(request: HttpRequest) -> Search:
    body = decode_as(request.body, SearchBody)
    if (body.query is None) == (body.vector is None):
        raise MalformedRequest("search: give a query or a vector, and only one")
    return Search(
        query=body.query,
        vector=_vector(body.vector),
        where=_where(body.filters),
        limit=body.limit,
        threshold=body.threshold,
    )


def _where(filters: Filters) -> Filter:
    named = {
        Field.USER_ID: filters.user_id,
        Field.AGENT_ID: filters.agent_id,
        Field.RUN_ID: filters.run_id,
        Field.APP_ID: filters.app_id,
        Field.TARGET: filters.target,
        Field.MEMORY_CLASS: filters.memory_class.value if filters.memory_class else None,
        Field.SOURCE: filters.source.value if filters.source else None,
    }
    tests = [
        Test(field=field, compare=Compare.EQ, values=(value,))
        for field, value in named.items()
        if value is not None
    ]
    tests.extend(
        Test(field=Field.METADATA, compare=Compare.EQ, key=key, values=(value,))
        for key, value in filters.metadata.items()
    )
    return AllOf(parts=tuple(tests))


def _query(request: HttpRequest, allowed: frozenset[str]) -> dict[str, JsonValue]:
    """Query parameters, each known and given once."""
    given: dict[str, JsonValue] = {}
    for key, value in request.query:
        if key not in allowed:
            raise MalformedRequest("query: a parameter is not known here")
        if key in given:
            raise MalformedRequest(f"query: {key} is given twice")
        given[key] = value
    return given


def _no_query(request: HttpRequest) -> None:
    _query(request, frozenset())


def _list(request: HttpRequest) -> ListMemories:
    given = _query(request, frozenset({*_SCOPES, "offset", "limit"}))
    offset = _number(given.pop("offset", "0"), "offset", 0, 10**9)
    limit = _number(given.pop("limit", "100"), "limit", 1, PAGE_LEN_MAX)
    return ListMemories(
        where=_where(convert(given, Filters)), offset=offset, limit=limit, by_offset=True
    )


def _number(text: JsonValue, name: str, low: int, high: int) -> int:
    if not isinstance(text, str) or re.fullmatch(r"[0-9]{1,10}", text) is None:
        raise MalformedRequest(f"{name}: a whole number")
    number = int(text)
    if not low <= number <= high:
        raise MalformedRequest(f"{name}: from {low} to {high}")
    return number


def _delete_where(request: HttpRequest) -> DeleteWhere:
    if request.body:
        raise MalformedRequest("body: a delete has none")
    given = _query(request, frozenset(_SCOPES))
    if not given:
        raise MalformedRequest("query: say which; deleting everything has no short form")
    return DeleteWhere(where=_where(convert(given, Filters)), nonce=_nonce(request, None))
