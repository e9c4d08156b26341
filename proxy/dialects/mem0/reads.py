"""Decodes Mem0's reads (search, list, export), each into an operation with one filter."""

from __future__ import annotations

from typing import Any, Final

from policy.query import AllOf, Compare, Field, Filter, Test
from proxy.dialects.mem0.bodies import IGNORED_READ, Ids, ListBody, SearchBody
from proxy.dialects.mem0.calls import Mem0Call, Note, body_of, integer, refuse_others, shape_of
from proxy.dialects.mem0.filters import (
    ENTITY_FIELDS,
    NOTHING,
    equals,
    instant_ms,
    names_an_entity,
    read_filter,
)
from proxy.dialects.strict_json.strict import decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    PAGE_LEN_MAX,
    SEARCH_LIMIT_MAX,
    GetHistory,
    GetMemory,
    ListMemories,
    Search,
)

NEEDS_ID: Final = "One of the filters: app_id, user_id, agent_id, run_id is required!"
PAGE_LEN_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000_000


def get(call: Mem0Call) -> GetMemory:
    """The operation that reads one memory, also one that has expired."""
    return GetMemory(memory_id=call.memory_id, expired=True, note=Note(route="get").text())


def history(call: Mem0Call) -> GetHistory:
    """The operation that reads the history of one memory."""
    return GetHistory(memory_id=call.memory_id, note=Note(route="history").text())


def search(call: Mem0Call, route: str, *, limit_default: int, free_keys: bool = False) -> Search:
    """The operation that searches for a query, under a filter that names at least one id.

    Raises:
        MalformedRequest: The filter names no id (400) or cannot be read, or the query is empty.
    """
    body = body_of(call, SearchBody, IGNORED_READ)
    if not body.query.strip():
        raise MalformedRequest("query: must not be empty")
    where = where_of(body, body.filters, body.metadata, body.categories, free_keys=free_keys)
    asked = body.top_k if body.top_k is not None else body.limit
    # Mem0 compares a threshold with max(0, cosine), so that 0 or less excludes nothing.
    threshold = body.threshold if body.threshold is not None and body.threshold > 0 else -1.0
    return Search(
        query=body.query,
        where=where,
        limit=integer(asked, "top_k", default=limit_default, most=SEARCH_LIMIT_MAX),
        threshold=threshold,
        note=Note(route=route, fields=tuple(body.fields or ())).text(),
        expired=body.show_expired is True,
    )


def list_memories(
    call: Mem0Call, route: str, *, limit_default: int = PAGE_LEN_DEFAULT, free_keys: bool = False
) -> ListMemories:
    """The operation that lists one page, under a filter that names at least one id.

    The conditions are in the body of a POST, else in the query.

    Raises:
        MalformedRequest: The filter names no id (400) or cannot be read, or the page is no valid
            one.
    """
    given = decode_object(call.body) if call.method == "POST" and call.body else {}
    if not isinstance(given, dict):
        raise MalformedRequest("body: must be a JSON object")
    allowed = {"page", "page_size"} if call.method == "POST" else set(ListBody.__struct_fields__)
    refuse_others(call.query, allowed | IGNORED_READ)
    queried = {key: found for key, found in call.query.items() if key in allowed}
    body = shape_of({**given, **queried}, ListBody, IGNORED_READ)
    where = where_of(body, body.filters, body.metadata, body.categories, free_keys=free_keys)
    limits = (
        Test(field=Field.CREATED_AT_MS, compare=compare, values=(instant_ms(text, where_from),))
        for compare, text, where_from in (
            (Compare.GTE, body.start_date, "start_date"),
            (Compare.LTE, body.end_date, "end_date"),
        )
        if text is not None
    )
    size = next((n for n in (body.page_size, body.limit, body.top_k) if n is not None), None)
    page_size = integer(size, "page_size", default=limit_default, most=PAGE_LEN_MAX)
    page = integer(body.page, "page", default=1, most=1_000_000)
    return ListMemories(
        where=AllOf(parts=(where, *limits)),
        offset=(page - 1) * page_size,
        limit=page_size,
        note=Note(
            route=route, fields=tuple(body.fields or ()), page=page, page_size=page_size
        ).text(),
        expired=body.show_expired in (True, "true", "True"),  # a query has it as text
    )


def where_of(
    ids: Ids,
    filters: dict[str, Any] | None,
    metadata: dict[str, Any] | None = None,
    categories: list[str] | None = None,
    *,
    free_keys: bool = False,
) -> Filter:
    """All conditions of a read, joined by AND.

    Raises:
        MalformedRequest: The conditions name no id (400), because a forgotten filter would show an
            agent the memories of all users of its tenant.
    """
    parts: list[Filter] = [
        equals(field, found)
        for key, field in ENTITY_FIELDS.items()
        if (found := getattr(ids, key)) is not None
    ]
    if filters:
        parts.append(read_filter(filters, free_keys=free_keys))
    if metadata:
        parts.append(read_filter({"metadata": metadata}))
    if categories:
        parts.append(NOTHING)
    if not any(names_an_entity(part) for part in parts):
        raise MalformedRequest(NEEDS_ID, status=400)
    return parts[0] if len(parts) == 1 else AllOf(parts=tuple(parts))
