"""A memory API of notes: a whole dialect, and as small as one can be."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import NAME_LEN_MAX, TEXT_LEN_MAX, ChangeKind, MemoryClass, MemoryId, Scope
from policy.verdict import InvariantBroken, Reason
from proxy.dialects.strict_json.strict import check_text, decode_as
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    EncodingContext,
    GetMemory,
    HttpReply,
    HttpRequest,
    ListMemories,
    Operation,
    Proposal,
    Refusal,
    Result,
    Search,
    Write,
    WriteResult,
    WrittenItem,
    memories_of,
)

ROOT: Final = "/notes"
_ID: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STATUS: Final[dict[Reason | None, int]] = {
    Reason.GATE_UNAVAILABLE: 503,
    Reason.TARGET_MISSING: 404,
}


class NewNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a new note. A standing one is meant to steer the agent."""

    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]
    about: Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)] | None = None
    standing: bool = False


class Notes:
    """Pure; one instance serves every request."""

    name = "notes"
    segments = frozenset({"notes"})

    def claims(self, request: HttpRequest) -> bool:
        """`/notes` and everything below it, whatever the credential."""
        return request.path == ROOT or request.path.startswith(f"{ROOT}/")

    def credential(self, request: HttpRequest) -> str | None:
        """The key in `Notes-Key`."""
        return request.headers.get("notes-key")

    def decode(self, request: HttpRequest) -> Operation:
        """The operation asked for; see `Dialect.decode`."""
        below = request.path.removeprefix(ROOT)
        memory_id = MemoryId(below[1:]) if _ID.fullmatch(below) else None
        if request.query and request.method not in _SAFE:
            raise MalformedRequest("query: a change has none")
        match request.method:
            case "POST" if not below:
                return Write(proposals=(_create(decode_as(request.body, NewNote)),))
            case "DELETE" if memory_id is not None and not request.body:
                change = Proposal(change=ChangeKind.DELETE, memory_id=memory_id)
                return Write(proposals=(change,))
            case "GET" if not below:
                return _reading(request.query)
            case "GET" if memory_id is not None and not request.query:
                return GetMemory(memory_id=memory_id)
            case method if method in _SAFE:
                raise MalformedRequest("there is no such note", status=404)
            case _:
                raise UnknownWrite

    def encode(
        self, request: HttpRequest, operation: Operation, result: Result, answering: EncodingContext
    ) -> HttpReply:
        """The notes asked for; of a change, what became of it."""
        if isinstance(result, WriteResult):
            return _written(result.items)
        notes = [
            {"note": memory.memory_id, "text": memory.text, "about": memory.scope.user_id}
            for memory in memories_of(result)
        ]
        if not isinstance(operation, GetMemory):
            return _reply(200, {"notes": notes})
        missing = Refusal(status=404, title="Not Found", detail="there is no such note")
        return _reply(200, notes[0]) if notes else self.refuse(request, missing, answering)

    def refuse(
        self, request: HttpRequest, refusal: Refusal, answering: EncodingContext
    ) -> HttpReply:
        """A failure in the shape in which a refused note is told as well."""
        del request, answering
        code = refusal.title.lower().replace(" ", "_")
        return _reply(refusal.status, {"refused": {"code": code, "says": refusal.detail}})


def _create(note: NewNote) -> Proposal:
    return Proposal(
        change=ChangeKind.CREATE,
        text=note.text,
        scope=Scope(user_id=note.about),
        memory_class=MemoryClass.L1 if note.standing else MemoryClass.L3,
        class_named=note.standing,
    )


def _reading(query: tuple[tuple[str, str], ...]) -> Operation:
    match query:
        case ():
            return ListMemories(limit=1_000)
        case (("find", text),) if text:
            check_text(text, "find")
            return Search(query=text)
        case _:
            raise MalformedRequest("query: `find` alone, with a text")


def _written(items: tuple[WrittenItem, ...]) -> HttpReply:
    if len(items) != 1:
        raise InvariantBroken("one proposal gives one item")
    [item] = items
    if item.decision == "admit":
        status = 201 if item.change is ChangeKind.CREATE else 200
        return _reply(status, {"note": item.memory_id})
    code = item.decision if item.reason is None else item.reason.value
    # Held is refused as well: this client knows nothing between stored and not stored.
    refused = {"refused": {"code": code, "says": item.observation}}
    return _reply(_STATUS.get(item.reason, 403), refused)


def _reply(status: int, body: object) -> HttpReply:
    return HttpReply(status=status, body=msgspec.json.encode(body))
