"""Decodes and answers Mem0's platform API as `MemoryClient` 0.1, 1.0 and 2.x use it.

An add is answered after the verdict, so the answer's status is `SUCCEEDED`, or `PENDING` if all of
the add waits for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from policy.after.matchers import Grade
from policy.query import Compare, Field, Test
from policy.ruleset import ClassMap
from proxy.dialects.mem0 import reads, writes
from proxy.dialects.mem0.answers import (
    added_extras,
    counted,
    expect,
    item_shape,
    landed,
    none_landed,
    refused,
    waiting,
    written,
)
from proxy.dialects.mem0.bodies import IGNORED_EVERYWHERE, IGNORED_READ, ExportBody, FeedbackBody
from proxy.dialects.mem0.calls import (
    PREFIX,
    Mem0Call,
    Note,
    body_of,
    call_of,
    integer,
    local_path,
    note_of,
    refuse_others,
    route_of,
    scheme_and_key,
    shape_of,
)
from proxy.dialects.mem0.references import (
    event_id,
    export_id,
    read_event_id,
    read_export_id,
)
from proxy.dialects.mem0.shapes import (
    Shape,
    entity_item,
    only,
    platform_history,
    platform_item,
    recalled_as,
    reply,
)
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    PAGE_LEN_MAX,
    EncodingContext,
    EntitiesResult,
    FeedbackResult,
    GetResult,
    GiveFeedback,
    HistoryResult,
    HttpReply,
    HttpRequest,
    Identify,
    IdentityResult,
    ListEntities,
    ListMemories,
    ListResult,
    Operation,
    Refusal,
    Result,
    SearchResult,
    WrittenItem,
)

NOT_FOUND: Final = "Memory not found!"
SEARCH_LIMIT_DEFAULT: Final = 10

_VERSIONS: Final = ("/v1/", "/v2/", "/v3/")
_IGNORED_EXPORT: Final = IGNORED_READ | {"schema", "export_instructions", "show_expired"}
# A mapping of Mem0's grades of feedback to the store's. No grade changes a memory's rank, because
# feedback with an agent's key is only a claim.
_GRADES: Final = {
    "POSITIVE": Grade.GOOD,
    "NEGATIVE": Grade.IRRELEVANT,
    "VERY_NEGATIVE": Grade.WRONG,
}
_IGNORED_FEEDBACK: Final = IGNORED_EVERYWHERE | {"feedback_reason"}


class Mem0Platform:
    """Decodes and answers the routes of `https://api.mem0.ai` (`Dialect`)."""

    name = "mem0"
    segments = frozenset({"v1", "v2", "v3", PREFIX[1:]})

    def __init__(self, classes: Callable[[], ClassMap]) -> None:
        self._decoders: Mapping[tuple[str, str], Callable[[Mem0Call], Operation]] = {
            ("GET", "v1/ping"): lambda _: Identify(note=Note(route="ping").text()),
            ("POST", "v3/memories/add"): lambda call: writes.add(call, classes(), "add.v3"),
            ("POST", "v1/memories"): lambda call: writes.add(call, classes(), "add.v1"),
            ("POST", "v3/memories/search"): lambda call: _search(call, "search.v3"),
            ("POST", "v2/memories/search"): lambda call: _search(call, "search"),
            ("POST", "v1/memories/search"): lambda call: _search(call, "search"),
            ("POST", "v3/memories"): lambda call: reads.list_memories(call, "pages"),
            ("POST", "v2/memories"): lambda call: reads.list_memories(call, "pages"),
            ("GET", "v1/memories"): _list_v1,
            ("DELETE", "v1/memories"): writes.delete_where,
            ("GET", "v1/memories/*"): reads.get,
            ("PUT", "v1/memories/*"): lambda call: writes.update(call, classes()),
            ("DELETE", "v1/memories/*"): writes.delete,
            ("GET", "v1/memories/*/history"): reads.history,
            ("PUT", "v1/batch"): lambda call: writes.batch(call, classes()),
            ("DELETE", "v1/batch"): lambda call: writes.batch(call, classes()),
            ("GET", "v1/entities"): lambda _: ListEntities(note=Note(route="entities").text()),
            # The route of the npm client's deprecated method `deleteUser`.
            ("DELETE", "v1/entities/*/*"): _delete_entity,
            ("DELETE", "v2/entities/*/*"): _delete_entity,
            ("POST", "v1/exports"): _export,
            ("POST", "v1/exports/get"): _exported,
            ("GET", "v1/event/*"): _event,
            ("POST", "v1/feedback"): _feedback,
            ("POST", "v1/summary"): _summary,
        }

    def claims(self, request: HttpRequest) -> bool:
        """Whether a request is for this API: a versioned path that ends in a slash.

        It also has `Authorization: Token`, or is below `/mem0`. `/v1/memories` without the slash,
        or with another scheme, is a path of the native API.
        """
        path = local_path(request)
        if not path.startswith(_VERSIONS) or not path.endswith("/"):
            return False
        return request.path.startswith(f"{PREFIX}/") or scheme_and_key(request)[0] == "token"

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `Authorization: Token`; None if there is none."""
        scheme, key = scheme_and_key(request)
        return key if scheme == "token" and key else None

    def decode(self, request: HttpRequest) -> Operation:
        """The operation that a request asks for (`Dialect.decode`)."""
        call = call_of(request)
        return self._decoders[route_of(call, self._decoders)](call)

    def encode(
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """The answer to an operation, in the form of the request's route and version."""
        note = note_of(operation.note)
        if note.route in _WRITTEN:
            return _encode_written(note, result, answering)
        return _encode_read(request, note, result)

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """A refusal `{"detail": ...}`, which `MemoryClient` makes the message of its exception."""
        del request, answering
        return refused(refusal, "Token")


def _summary(_call: Mem0Call) -> Operation:
    raise MalformedRequest(
        "summaries need a model, and this store runs none; search instead", status=403
    )


def _search(call: Mem0Call, route: str) -> Operation:
    return reads.search(call, route, limit_default=SEARCH_LIMIT_DEFAULT)


def _list_v1(call: Mem0Call) -> Operation:
    """The listing of the 0.1 client, answered with an object if it names a page, else an array."""
    return reads.list_memories(call, "pages" if "page" in call.query else "list")


def _feedback(call: Mem0Call) -> Operation:
    body = body_of(call, FeedbackBody, _IGNORED_FEEDBACK)
    return GiveFeedback(
        grade=_GRADES[body.feedback],
        memory_id=body.memory_id,
        note=Note(route="feedback", reference=body.feedback).text(),
    )


def _delete_entity(call: Mem0Call) -> Operation:
    return writes.delete_entity(call, call.parts[2], call.parts[3])


def _export(call: Mem0Call) -> Operation:
    """The operation of an export, which stores nothing.

    The export's id, in the answer, contains the conditions of the export.
    """
    body = body_of(call, ExportBody, _IGNORED_EXPORT)
    reads.where_of(body, body.filters)
    reference = export_id(_conditions(body))
    return Identify(note=Note(route="export", reference=reference).text())


def _exported(call: Mem0Call) -> Operation:
    """The operation that reads the memories which an export's conditions select now."""
    body = body_of(call, ExportBody, _IGNORED_EXPORT)
    conditions = body
    if body.memory_export_id is not None:
        conditions = shape_of(read_export_id(body.memory_export_id), ExportBody)
    page_size = integer(body.page_size, "page_size", default=PAGE_LEN_MAX, most=PAGE_LEN_MAX)
    page = integer(body.page, "page", default=1, most=reads.PAGE_MAX)
    return ListMemories(
        where=reads.where_of(conditions, conditions.filters),
        offset=(page - 1) * page_size,
        limit=page_size,
        note=Note(route="exported", page=page, page_size=page_size).text(),
    )


def _conditions(body: ExportBody) -> dict[str, Any]:
    found = {key: getattr(body, key) for key in ("user_id", "agent_id", "run_id", "app_id")}
    return {
        key: value for key, value in {**found, "filters": body.filters}.items() if value is not None
    }


def _event(call: Mem0Call) -> Operation:
    """The operation that lists an event's memories, as far as the caller may read them now."""
    refuse_others(call.query, ())
    # An event's id is base64 of up to 32 memory ids, so it may be longer than other names.
    reference = call.parts[2]
    event = read_event_id(reference)
    where = Test(field=Field.MEMORY_ID, compare=Compare.IN, values=event.memory_ids)
    note = Note(route="event", reference=reference).text()
    if not event.memory_ids:
        return Identify(note=note)
    return ListMemories(where=where, limit=len(event.memory_ids), note=note)


_WRITTEN: Final = frozenset(
    {"add.v3", "add.v1", "update", "delete", "batch.update", "batch.delete", "delete.where"}
)


_ADDS: Final = frozenset({"add.v3", "add.v1"})
PENDING: Final = "PENDING"
"""Mem0's own word for an add that is not done."""


def _encode_written(note: Note, result: Result, answering: EncodingContext) -> HttpReply:
    items = written(result)
    waits = waiting(items) if note.route in _ADDS else None
    if waits is not None:
        return reply(_written_shape(note, items) | {"message": waits, "status": PENDING})
    refusal = none_landed(items, answering, NOT_FOUND)
    if refusal is not None:
        return refusal
    return reply(_written_shape(note, items))


def _written_shape(note: Note, items: tuple[WrittenItem, ...]) -> Shape:
    done = landed(items)
    shape: Shape
    match note.route:
        case "add.v1":
            attributes: Shape = {"structured_attributes": {}}
            results = [item_shape(item) | attributes for item in items]
            shape = {"results": results, "relations": [], **added_extras(note)}
        case "add.v3":
            shape = _added(note, items, done)
        case "update":
            memory = done[0].memory
            shape = {"message": "Memory updated successfully!"}
            shape = shape if memory is None else platform_item(memory)
        case "delete":
            shape = {"message": "Memory deleted successfully!"}
        case "batch.update":
            shape = counted(items, "updated")
        case "batch.delete":
            shape = counted(items, "deleted")
        case _:
            shape = counted(items, "deleted") | {"event_id": event_id("DELETE", ())}
    return shape


def _added(note: Note, items: tuple[WrittenItem, ...], done: list[WrittenItem]) -> Shape:
    stored = f"Stored {len(done)} of {len(items)} memories"
    ids = (item.memory_id for item in done if item.memory_id is not None)
    return {
        "message": stored if len(done) == len(items) else f"{stored}, see results",
        "status": "SUCCEEDED",
        "event_id": event_id("ADD", ids),
        **added_extras(note),
        "results": [item_shape(item) for item in items],
    }


def _encode_read(request: HttpRequest, note: Note, result: Result) -> HttpReply:
    answer: object
    match result:
        case SearchResult():
            answer = _found(note, result)
        case ListResult():
            answer = _listed(request, note, result)
        case GetResult(memory=memory) if memory is not None:
            answer = platform_item(memory)
        case GetResult() | HistoryResult(entries=()):
            return reply({"detail": NOT_FOUND, "error": NOT_FOUND}, 404)
        case HistoryResult():
            answer = [platform_history(result.memory_id, entry) for entry in result.entries]
        case EntitiesResult():
            answer = _entities(result)
        case FeedbackResult():
            said = note.reference
            answer = {"id": result.failure_id, "feedback": said, "feedback_reason": None}
        case _:
            return _identified(note, expect(result, IdentityResult))
    return reply(answer)


def _found(note: Note, found: SearchResult) -> object:
    run_key = "run_id" if note.route == "search.v3" else "session_id"
    hits = [
        only(
            platform_item(hit.memory, run_key=run_key) | {"score": hit.score},
            note.fields,
        )
        for hit in found.hits
    ]
    return {"results": hits, **recalled_as(found)} if note.route == "search.v3" else hits


def _listed(request: HttpRequest, note: Note, listed: ListResult) -> object:
    items = [only(platform_item(memory), note.fields) for memory in listed.memories]
    seen = (note.page - 1) * note.page_size + len(items)
    if note.route == "list":
        return items
    if note.route == "event":
        return _finished(note, [item | {"event": "ADD"} for item in items])
    if note.route == "exported":
        return {
            "memories": [memory.text for memory in listed.memories],
            "count": listed.total,
            "complete": note.page == 1 and seen == listed.total,
            "results": items,
        }
    more = seen < listed.total and bool(items)
    return {
        "count": listed.total,
        "next": _page_url(request, note, note.page + 1) if more else None,
        "previous": _page_url(request, note, note.page - 1) if note.page > 1 else None,
        "results": items,
    }


def _page_url(request: HttpRequest, note: Note, page: int) -> str:
    # The page's URL is a path without a host, because the answer must not repeat the client's own
    # Host header.
    return f"{request.path}?page={page}&page_size={note.page_size}"


def _finished(note: Note, results: list[Shape]) -> Shape:
    event = read_event_id(note.reference)
    # An `ADD` event without memories belongs to an add that waits for a person, because every other
    # add's event contains memories.
    waits = event.kind == "ADD" and not event.memory_ids
    status = PENDING if waits else "SUCCEEDED"
    return {
        "id": note.reference,
        "event_type": event.kind,
        "status": status,
        "results": results,
    }


def _entities(found: EntitiesResult) -> Shape:
    counts = {
        f"total_{kind}s": sum(entity.kind == kind for entity in found.entities)
        for kind in ("user", "agent", "app", "run")
    }
    items = [entity_item(entity) for entity in found.entities]
    return {"count": len(items), "next": None, "previous": None, "results": items, **counts}


def _identified(note: Note, identity: IdentityResult) -> HttpReply:
    if note.route == "event":
        return reply(_finished(note, []))
    if note.route == "export":
        message = "Memory export is ready."
        return reply({"message": message, "id": note.reference}, 201)
    return reply(
        {
            "status": "ok",
            "org_id": identity.principal.tenant,
            "project_id": identity.principal.principal_id,
            "user_email": None,
        }
    )
