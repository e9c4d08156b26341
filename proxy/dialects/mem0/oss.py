"""Decodes and answers the REST API of the self-hosted Mem0 server.

It differs from Mem0's server: metadata in an update replaces the old metadata (Mem0's server merges
keys), a listing needs an id, and routes for configuration are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from policy.ruleset import ClassMap
from proxy.dialects.mem0 import reads, writes
from proxy.dialects.mem0.answers import (
    added_extras,
    captured,
    counted,
    expect,
    item_shape,
    landed,
    none_landed,
    refused,
    unheard,
    written,
)
from proxy.dialects.mem0.calls import (
    PREFIX,
    Mem0Call,
    Note,
    call_of,
    local_path,
    note_of,
    route_of,
    scheme_and_key,
)
from proxy.dialects.mem0.shapes import (
    Shape,
    entity_item,
    only,
    oss_history,
    oss_item,
    recalled_as,
    reply,
)
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    PAGE_LEN_MAX,
    EncodingContext,
    EntitiesResult,
    GetResult,
    HistoryResult,
    HttpReply,
    HttpRequest,
    ListEntities,
    ListResult,
    Operation,
    Refusal,
    Result,
    SearchResult,
    WrittenItem,
)

SEARCH_LIMIT_DEFAULT: Final = 20
NEEDS_ID: Final = "At least one identifier (user_id, agent_id, run_id) is required."
NOT_FOUND: Final = "Memory not found"
ADMIN_ONLY: Final = "this route configures or empties the store: an operator's act, not an agent's"

_MEMORY: Final = frozenset({"memories", "search", "entities"})
# These routes of the self-hosted server are refused: they manage accounts, change the configuration
# (which could exchange the vector store), or delete everything.
_ADMIN: Final = frozenset(
    {"api-keys", "auth", "configure", "generate-instructions", "requests", "reset"}
)


class Mem0Oss:
    """Decodes and answers the routes of `server/main.py` in Mem0's repository (`Dialect`)."""

    name = "mem0_oss"
    segments = _MEMORY | _ADMIN | {PREFIX[1:]}

    def __init__(self, classes: Callable[[], ClassMap]) -> None:
        self._decoders: Mapping[tuple[str, str], Callable[[Mem0Call], Operation]] = {
            ("POST", "memories"): lambda call: writes.add(
                call, classes(), "add", needs_id=NEEDS_ID
            ),
            ("POST", "search"): lambda call: reads.search(
                call, "search", limit_default=SEARCH_LIMIT_DEFAULT, free_keys=True
            ),
            ("GET", "memories"): lambda call: reads.list_memories(
                call, "list", limit_default=PAGE_LEN_MAX, free_keys=True
            ),
            ("DELETE", "memories"): lambda call: writes.delete_where(call, needs_id=NEEDS_ID),
            ("GET", "memories/*"): reads.get,
            ("PUT", "memories/*"): lambda call: writes.update(call, classes()),
            ("DELETE", "memories/*"): writes.delete,
            ("GET", "memories/*/history"): reads.history,
            ("GET", "entities"): lambda _: ListEntities(note=Note(route="entities").text()),
            ("DELETE", "entities/*/*"): _delete_entity,
        }

    def claims(self, request: HttpRequest) -> bool:
        """Whether a request is for this API: a route without version, and no scheme `Token`.

        Requests without a credential belong to this API too: a refusal must have the form that the
        client knows, and a Unix socket with a bound uid needs no credential.
        """
        path = local_path(request)
        first = path[1:].split("/", 1)[0]
        if first not in _MEMORY | _ADMIN or path.endswith("/"):
            return False
        return request.path.startswith(f"{PREFIX}/") or scheme_and_key(request)[0] != "token"

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `X-API-Key`, or else in `Authorization: Bearer`."""
        return request.key("x-api-key")

    def decode(self, request: HttpRequest) -> Operation:
        """The operation that a request asks for (`Dialect.decode`)."""
        call = call_of(request)
        if call.parts[0] in _ADMIN:
            raise MalformedRequest(ADMIN_ONLY, status=403)
        return self._decoders[route_of(call, self._decoders)](call)

    def encode(
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """The answer to an operation, in the form of Mem0's self-hosted server."""
        del request
        note = note_of(operation.note)
        if note.route in _WRITTEN:
            return _encode_written(note, written(result), answering)
        return _encode_read(note, result)

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """A refusal with the body `{"detail": ...}`, as FastAPI gives it.

        For a conversation that the agent sent in the background, an answer 200 without results.
        """
        del answering
        if request.method == "POST" and local_path(request) == "/memories":
            quiet = unheard(request, refusal)
            if quiet is not None:
                return reply(quiet)
        return refused(refusal, "Bearer")


_WRITTEN: Final = frozenset({"add", "update", "delete", "delete.where"})


def _delete_entity(call: Mem0Call) -> Operation:
    return writes.delete_entity(call, call.parts[1], call.parts[2])


def _encode_written(
    note: Note, items: tuple[WrittenItem, ...], answering: EncodingContext
) -> HttpReply:
    refusals = captured(items) if note.conversation else None
    if refusals is not None:
        results = [_added(item) for item in landed(items)]
        return reply({"results": results, **refusals, **added_extras(note)})
    refusal = none_landed(items, answering, NOT_FOUND)
    if refusal is not None:
        return refusal
    match note.route:
        case "add":
            return reply({"results": [_added(item) for item in items], **added_extras(note)})
        case "update":
            return reply({"message": "Memory updated successfully!"})
        case "delete":
            return reply({"message": "Memory deleted successfully"})
        case _:
            answer = counted(items, "deleted")
            if not answer["results"]:
                answer = {"message": "All relevant memories deleted"}
            return reply(answer)


def _added(item: WrittenItem) -> Shape:
    shape = item_shape(item)
    if item.memory is not None:
        shape |= {"actor_id": item.memory.actor, "role": item.memory.role}
    return shape


def _encode_read(note: Note, result: Result) -> HttpReply:
    match result:
        case SearchResult():
            hits = [only(oss_item(hit.memory, score=hit.score), note.fields) for hit in result.hits]
            return reply({"results": hits, **recalled_as(result)})
        case ListResult():
            items = [only(oss_item(memory), note.fields) for memory in result.memories]
            return reply({"results": items})
        case GetResult():
            found = result.memory
            return reply(None if found is None else oss_item(found, score=None))
        case HistoryResult():
            rows = result.entries
            return reply([oss_history(result.memory_id, e, rows[0].at_ms) for e in rows])
        case _:
            return reply([entity_item(e) for e in expect(result, EntitiesResult).entities])
