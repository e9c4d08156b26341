"""The adapter through which the driver of guard mode uses Mem0's self-hosted server.

The server merges the metadata of an update, so the merged memory is judged, and not the update.
The server lists at most a thousand memories, without pages. Where it has more, a walk continues
with each user, agent and run, and leaves out the memories that it has read under another id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from policy.model import NAME_LEN_MAX, CandidateId, ChangeKind, ForwardStatus, Tenant
from proxy.backends.http_backend import (
    ANSWERED,
    OK,
    HttpBackend,
    answer_value,
    not_understood,
    state_of,
)
from proxy.backends.kept_request import (
    deletion,
    json_request,
    kept_request,
    merged,
    request_parts,
    strings_of,
    telling_names,
)
from proxy.backends.mem0_server.reads import FoundMemory, Mem0Reads, found_in, listed_in, results_in
from proxy.backends.mem0_server.requests import (
    LEMMAS,
    LISTED_MAX,
    MARK,
    AddBody,
    AddedMessage,
    MemoryIds,
    add_of,
    in_server_order,
    scope_of,
    update_of,
)
from proxy.backends.mem0_server.routes import (
    ADD,
    DELETE,
    DELETE_ENTITY,
    ENTITY_FIELDS,
    MEMORIES,
    SEGMENTS,
    TABLE,
    UPDATE,
    is_known_id,
    known_id,
    memory_id_of,
    route_of,
)
from proxy.dialects.mem0.answers import phrase, refused, unheard
from proxy.dialects.strict_json.strict import JsonValue, as_doubles, convert, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, ItemVerdict, UnsettledItem
from proxy.seams.http_backend import (
    Attempts,
    ListedMemory,
    SendOutcome,
    SentMemory,
    WalkedPage,
)
from proxy.seams.operation import HttpReply, HttpRequest, Refusal

_REFUSED: Final = 422
_MISSING: Final = 404
_ADMIT: Final = "admit"
_HOLD: Final = "hold"
_REFUSALS_MAX: Final = 16
_DONE_WORDS: Final = {
    DELETE.operation: "Memory deleted successfully",
    DELETE_ENTITY.operation: "Entity deleted",
    UPDATE.operation: "Memory updated successfully!",
}
_ALL_DELETED: Final = "All relevant memories deleted"
_KEPT_TEXTS: Final = ("content", "text", "metadata")
"""Members of a stored request whose strings a read shows."""
_NOT_STORED: Final = frozenset({"system"})
_LOOKED_THROUGH: Final = 60
_TOO_MANY: Final = (
    f"the server lists {LISTED_MAX} memories and may have more, so none was deleted; name an "
    "agent_id or a run_id as well, or delete by ids"
)
_LIST_ALL: Final = (("top_k", str(LISTED_MAX)), ("show_expired", "true"))
_ENTITIES: Final = HttpRequest(method="GET", path="/entities")
_NOBODYS: Final = "00000000-0000-0000-0000-000000000000"
_KINDS: Final = {field: kind for kind, field in ENTITY_FIELDS.items()}
# Members of the metadata that the server derives from the text, or from the request.
_DERIVED: Final = frozenset({MARK, "role", LEMMAS})
_TAKEN: Final = frozenset({"id", "memory", "metadata", "role", "expiration_date", *_KINDS})
# A member that no add has: it stores strings of members that no write through the gate creates.
_BESIDE: Final = "beside"


class _KeptMessage(MemoryIds, frozen=True, kw_only=True):
    """The body of an add, as an item stores it for one message."""

    content: str
    role: str
    metadata: dict[str, JsonValue] | None = None
    expiration_date: str | None = None


class _Added(msgspec.Struct, frozen=True, kw_only=True):
    """One result in the answer to an add."""

    id: str


class _AddedAll(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an add."""

    results: tuple[_Added, ...]


class Mem0Server(Mem0Reads, HttpBackend):
    """Translates requests, answers and memories of Mem0's self-hosted server (`HttpBackend`)."""

    name = "mem0_server"
    segments = SEGMENTS
    table = TABLE
    version = "8d5b7865"  # the commit of Mem0's repository that has these routes
    unable: Mapping[str, str] = {
        'quarantine = "tag"': "the lists of this server have no filter that would leave a tag out",
        'quarantine = "remove"': "this server would give a memory that is put back another id",
        'collections = "create"': "this server has no collections",
        "reads": f"this server lists {LISTED_MAX} memories at most, so what is below a floor would "
        "take the places of what is above",
    }

    def refuse(self, request: HttpRequest, refusal: Refusal) -> HttpReply:
        """A failure as `{"detail"}`; for a conversation sent in the background, empty results.

        A client that captures conversations ignores the answers, but stops after many failures.
        """
        quiet = unheard(request, refusal) if route_of(request) is ADD else None
        return _json(OK, quiet) if quiet is not None else refused(refusal, "Bearer")

    def attempts(self) -> Attempts:
        """A read of an id that no memory has, a list of all memories, and a malformed add."""
        return Attempts(
            alive=_get(_NOBODYS),
            read=HttpRequest(method="GET", path=MEMORIES, query=_LIST_ALL),
            write=json_request("POST", MEMORIES, {}),
        )

    # ---- writes and deletions --------------------------------------------------------------------

    def first(self, request: HttpRequest) -> HttpRequest | None:
        """The read of the memory that changes, or of those that are deleted; None for an add."""
        route = route_of(request)
        if route is ADD:
            return None
        if route in (UPDATE, DELETE):
            return _get(memory_id_of(request.path))
        query = (*scope_of(request).items(), *_LIST_ALL)
        return HttpRequest(method="GET", path=MEMORIES, query=query)

    def items(self, request: HttpRequest, known: HttpReply | None) -> tuple[SentMemory, ...]:
        """One entry for each message of an add, or for each memory that is changed or deleted."""
        route = route_of(request)
        if route is ADD:
            return tuple(_added(add_of(request)))
        if known is None or known.status != OK:
            raise MalformedRequest("memory_id: what stands there has to be known first")
        if route in (UPDATE, DELETE):
            there = found_in(known)
            if there is None:
                return ()
            if there.key != memory_id_of(request.path):
                raise MalformedRequest("memory_id: the server answered with another one")
            return (_removed(there.key) if route is DELETE else _updated(request, there),)
        found = listed_in(known)
        if len(found) >= LISTED_MAX:
            raise MalformedRequest(_TOO_MANY, status=413)
        return tuple(_removed(one.key) for one in found if one.key)

    def named(self, request: HttpRequest) -> tuple[SentMemory, ...]:
        """The deletion of the memory in the path; () for any other request."""
        return (_removed(memory_id_of(request.path)),) if route_of(request) is DELETE else ()

    def forward(
        self,
        request: HttpRequest,
        items: tuple[SentMemory, ...],
        admitted: Mapping[int, CandidateId],
    ) -> HttpRequest | None:
        """The request for one memory; an add or update contains its candidate's id as a mark."""
        if not admitted:
            return None
        ((at, candidate_id),) = admitted.items()
        route = route_of(request)
        if route is UPDATE:
            body = update_of(request)
            metadata = body.get("metadata")
            marked = {**(metadata if isinstance(metadata, dict) else {}), MARK: candidate_id}
            return json_request("PUT", request.path, {**body, "metadata": marked})
        if route is not ADD:
            return HttpRequest(method="DELETE", path=f"{MEMORIES}/{known_id(items[at].item.key)}")
        asked = add_of(request)
        kept = convert(_kept_body(asked, _stored(asked)[at]), _KeptMessage)
        return json_request("POST", MEMORIES, _add_body(kept, candidate_id))

    def outcome(
        self, request: HttpRequest, admitted: tuple[SentMemory, ...], reply: HttpReply
    ) -> tuple[SendOutcome, ...]:
        """The outcome that each answer's status proves, with the id of a memory that was added."""
        return tuple(_outcome_of(request, one, reply) for one in admitted)

    def released(self, item: UnsettledItem, blob: bytes) -> HttpRequest:
        """The add of one message, the update or the deletion that the item stores."""
        del blob
        method, path, body = request_parts(item)
        if method == "POST":
            return json_request("POST", MEMORIES, _add_body(convert(body, _KeptMessage), None))
        if method == "PUT":
            return json_request("PUT", path, body)
        return HttpRequest(method=method, path=path)

    def question(self, item: UnsettledItem) -> HttpRequest | None:
        """The read of a changed or deleted memory; for a new memory, the search for its mark.

        The server ranks by the vectors of texts, so a search for the memory's text ranks it first.
        """
        method, path, body = request_parts(item)
        if method != "POST":
            return _get(memory_id_of(path))
        kept = convert(body, _KeptMessage)
        asked: dict[str, JsonValue] = {
            "query": kept.content,
            "filters": {**kept.ids(), MARK: item.candidate_id},
            "top_k": _LOOKED_THROUGH,
            "threshold": 0,
            "show_expired": True,
        }
        return json_request("POST", "/search", asked)

    def told(self, item: UnsettledItem, reply: HttpReply) -> SendOutcome | None:
        """DONE if a memory with the item's mark is found, or a deleted one is missing; else FAILED.

        None for an answer with another status, or with several memories of the mark.
        """
        if reply.status != OK:
            return None
        if item.change is ChangeKind.CREATE:
            found = [one for one in listed_in(reply) if one.mark == item.candidate_id]
            if not found:
                return SendOutcome(state=ForwardStatus.FAILED)
            if len(found) > 1 or not found[0].key:
                return None
            return SendOutcome(state=ForwardStatus.DONE, key=found[0].key)
        there = found_in(reply)
        arrived = there is None
        if item.change is not ChangeKind.DELETE:
            arrived = there is not None and there.mark == item.candidate_id
        return SendOutcome(state=ForwardStatus.DONE if arrived else ForwardStatus.FAILED)

    def answer(
        self, request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
    ) -> HttpReply:
        """An answer of the server's form, built here, because the server's own was not checked.

        For several memories one answer reports the outcome of each.
        Where nothing was stored it is a 422, whose reason phrase contains the reason: a client that
        raises on the status shows nothing else.
        """
        failed = [one for one in replies if one.status not in ANSWERED and one.status != _MISSING]
        if failed:
            return failed[0]
        refusals = [one for one in judged if one.decision != _ADMIT]
        if refusals and not replies:
            return _not_stored(refusals)
        is_missing = [one.status for one in replies] == [_MISSING]
        if is_missing and len(judged) == 1 and route_of(request) in (ADD, UPDATE, DELETE):
            return replies[0]
        return _several(request, judged, replies)

    def removal(self, kept: UnsettledItem) -> HttpRequest:
        """The deletion of the memory by its id."""
        return HttpRequest(method="DELETE", path=f"{MEMORIES}/{known_id(kept.key)}")

    # ---- what an operator's commands ask ---------------------------------------------------------

    def listing(self, tenant: Tenant) -> HttpRequest:
        """The list of as many memories as the server returns, including expired ones."""
        del tenant
        return HttpRequest(method="GET", path=MEMORIES, query=_LIST_ALL)

    def listed(self, request: HttpRequest, reply: HttpReply) -> WalkedPage:
        """The memories of a list, or the one memory of a read by its id.

        Raises:
            MalformedRequest: The answer has another form, or one user, agent or run has more
                memories than the server lists.
        """
        if reply.status != OK:
            raise MalformedRequest(f"answer: {reply.status}, not of the form that this route has")
        if request.path == _ENTITIES.path:
            return WalkedPage(further=_of_entities(reply))
        if request.path != MEMORIES:
            one = answer_value(reply)
            return WalkedPage(memories=() if one is None else (_listed(one),))
        found = results_in(reply)
        named = [name for name, _ in request.query if name in _KINDS]
        if len(found) >= LISTED_MAX:
            if named:
                raise MalformedRequest(f"answer: {LISTED_MAX} memories of one {_KINDS[named[0]]}")
            return WalkedPage(further=(_ENTITIES,))
        before = [*_KINDS][: [*_KINDS].index(named[0])] if named else []
        own = (one for one in found if not _has_one(one, before))
        return WalkedPage(memories=tuple(_listed(one) for one in own))

    def reading(self, kept: UnsettledItem) -> HttpRequest:
        """The read of the memory by the item's key, or by the id in its path if it has no key."""
        return _get(known_id(kept.key) if kept.key else memory_id_of(request_parts(kept)[1]))

    def says_same(self, kept: UnsettledItem, found: Item) -> bool:
        """Whether text and metadata on the server have every part that was judged, and no other.

        The parts that a merge left unchanged were judged with the write, so they are among the kept
        pieces.
        """
        method, _, sent = request_parts(kept)
        there = request_parts(found)[2]
        text = sent.get("content" if method == "POST" else "text")
        # A server may round numbers, so they are compared as doubles.
        metadata, stands = (as_doubles(one.get("metadata")) for one in (sent, there))
        parts = metadata if isinstance(metadata, dict) else {}
        whole = stands if isinstance(stands, dict) else {}
        return (
            text in (None, there["content"])
            and parts.items() <= whole.items()
            and {*found.pieces} <= {*kept.pieces, kept.key}
        )

    def mark_of(self, found: Item) -> str | None:
        """The candidate's id in the metadata with which the gate sent a memory; None if absent."""
        mark = request_parts(found)[2].get(MARK)
        return None if mark is None else str(mark)


def _added(body: AddBody) -> Iterator[SentMemory]:
    for one in _stored(body):
        kept = _kept_body(body, one)
        user = body.given().get("user_id")
        item = kept_request("POST", MEMORIES, kept, texts=_KEPT_TEXTS, key="", user=user)
        yield SentMemory(item=item)


def _stored(body: AddBody) -> list[AddedMessage]:
    """The messages of an add that the server stores: all but system messages."""
    return [one for one in body.messages if one.role not in _NOT_STORED]


def _kept_body(body: AddBody, message: AddedMessage) -> dict[str, JsonValue]:
    """One message of an add, with the ids, metadata and expiry that all its messages share."""
    found: dict[str, JsonValue] = {"content": message.content, "role": message.role, **body.given()}
    if body.metadata:
        found["metadata"] = body.metadata
    if body.expiration_date is not None:
        found["expiration_date"] = body.expiration_date
    return found


def _add_body(kept: _KeptMessage, mark: CandidateId | None) -> dict[str, JsonValue]:
    metadata = dict(kept.metadata or {})
    if mark is not None:
        metadata[MARK] = mark
    body: dict[str, JsonValue] = {
        "messages": [{"role": kept.role, "content": kept.content}],
        **kept.ids(),
        "infer": False,
    }
    if metadata:
        body["metadata"] = metadata
    if kept.expiration_date is not None:
        body["expiration_date"] = kept.expiration_date
    return body


def _updated(request: HttpRequest, there: FoundMemory) -> SentMemory:
    body = update_of(request)
    item = kept_request(
        "PUT", request.path, body, texts=_KEPT_TEXTS, key=there.key, change=ChangeKind.UPDATE
    )
    text, changed = body.get("text"), body.get("metadata")
    metadata = {**there.metadata, **(changed if isinstance(changed, dict) else {})}
    words = strings_of(in_server_order(metadata) or {})
    shown = (text if isinstance(text, str) else there.text, *words, *there.names)
    return SentMemory(item=merged(item, tuple(one for one in shown if one)))


def _removed(memory_id: str) -> SentMemory:
    key = known_id(memory_id)
    return deletion("DELETE", f"{MEMORIES}/{key}", {}, key)


def _get(memory_id: str) -> HttpRequest:
    return HttpRequest(method="GET", path=f"{MEMORIES}/{memory_id}")


def _outcome_of(request: HttpRequest, sent: SentMemory, reply: HttpReply) -> SendOutcome:
    state = state_of(reply.status)
    if sent.item.change is ChangeKind.DELETE and reply.status == _MISSING:
        state = ForwardStatus.DONE
    is_new = route_of(request) is ADD and state is ForwardStatus.DONE
    return SendOutcome(state=state, key=_id_in(reply) if is_new else "")


def _id_in(reply: HttpReply) -> str:
    results = convert(decode_object(reply.body, any_text=True), _AddedAll).results
    if len(results) != 1:
        raise MalformedRequest("answer: not one memory for one message")
    return known_id(results[0].id)


def _several(
    request: HttpRequest, judged: tuple[ItemVerdict, ...], replies: tuple[HttpReply, ...]
) -> HttpReply:
    """The answer to a change of several memories, with refusals; or of a memory that is missing."""
    routed = route_of(request)
    refusals = [one for one in judged if one.decision != _ADMIT]
    beside: dict[str, JsonValue] = {}
    if refusals:
        done = len(judged) - len(refusals)
        message = f"Done for {done} of {len(judged)} memories, see refused"
        beside = {"message": message, "refused": _told(refusals)}
    if routed is ADD:
        admitted = (at for at, one in enumerate(judged) if one.decision == _ADMIT)
        messages = _stored(add_of(request))
        results = [
            _shown_add(messages[at], reply)
            for at, reply in zip(admitted, replies, strict=True)
            if reply.status in ANSWERED
        ]
        return _json(200, {"results": results, **beside})
    if not judged and routed in (UPDATE, DELETE):
        detail = f"Memory with id {memory_id_of(request.path)} not found"
        if routed is UPDATE:
            detail += ". Please provide a valid 'memory_id'"
        return _json(_MISSING, {"detail": detail})
    words = _ALL_DELETED if routed is None else _DONE_WORDS.get(routed.operation, _ALL_DELETED)
    return _json(200, {"message": words, **beside})


def _shown_add(message: AddedMessage, reply: HttpReply) -> JsonValue:
    """The result for one stored message, in the server's form; only the id is taken from `reply`.

    Raises:
        MalformedRequest: The answer has no id.
    """
    text, role = message.content, message.role
    return {"id": _id_in(reply), "memory": text, "event": "ADD", "actor_id": None, "role": role}


def _not_stored(refusals: list[ItemVerdict]) -> HttpReply:
    held = all(one.decision == _HOLD for one in refusals)
    shown = refusals[0]
    why = shown.decision if shown.reason is None else shown.reason.value
    head = f"memory write {'held for review' if held else 'rejected'}: {why}"
    body: dict[str, JsonValue] = {
        "detail": f"{head}. {shown.observation}",
        "error": "memory_write_held" if held else "memory_write_rejected",
        "refused": _told(refusals),
    }
    tail = "not stored yet" if held else "nothing stored"
    answer = _json(_REFUSED, body)
    return msgspec.structs.replace(answer, phrase=phrase(f"{head}; {tail}; do not retry"))


def _told(refusals: list[ItemVerdict]) -> list[JsonValue]:
    return [
        {
            "decision": one.decision,
            "reason": None if one.reason is None else one.reason.value,
            "observation": one.observation,
            "candidate_id": one.candidate_id,
        }
        for one in refusals[:_REFUSALS_MAX]
    ]


def _json(status: int, value: object) -> HttpReply:
    return HttpReply(status=status, body=msgspec.json.encode(value))


def _has_one(value: JsonValue, fields: list[str]) -> bool:
    return isinstance(value, dict) and any(value.get(field) for field in fields)


def _of_entities(reply: HttpReply) -> tuple[HttpRequest, ...]:
    found = answer_value(reply)
    reads: list[HttpRequest] = []
    for one in found if isinstance(found, list) else ():
        kind, name = (one.get("type"), one.get("id")) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or kind not in ENTITY_FIELDS or not isinstance(name, str):
            raise not_understood()
        query = ((ENTITY_FIELDS[kind], name), *_LIST_ALL)
        reads.append(HttpRequest(method="GET", path=MEMORIES, query=query))
    return tuple(reads)


def _listed(value: JsonValue) -> ListedMemory:
    """One memory of an answer, in the form that an add of it would be stored in, with its mark."""
    said = value if isinstance(value, dict) else {}
    known, text, metadata = (said.get(name) for name in ("id", "memory", "metadata"))
    key = known if isinstance(known, str) else msgspec.json.encode(known).decode()
    stands = metadata if isinstance(metadata, dict) else {}
    role = said.get("role") or stands.get("role") or "user"
    body: dict[str, JsonValue] = {"content": text, "role": role}
    scope = {field: said.get(field) for field in (*_KINDS, "expiration_date")}
    body |= {name: one for name, one in scope.items() if one is not None}
    body["metadata"] = {name: one for name, one in stands.items() if name not in _DERIVED}
    # A read shows the strings of every member, so all of them are judged.
    rest: JsonValue = {name: one for name, one in said.items() if name not in _TAKEN}
    beside = telling_names(strings_of(rest))
    if beside:
        body[_BESIDE] = [*beside]
    if MARK in stands:
        body[MARK] = stands[MARK]
    if not isinstance(text, str) or not isinstance(known, str) or not is_known_id(known):
        return ListedMemory(key=key, item=None)
    given = scope["user_id"]
    user = given if isinstance(given, str) and 0 < len(given) <= NAME_LEN_MAX else None
    try:
        item = kept_request("POST", MEMORIES, body, texts=_KEPT_TEXTS, key=key, user=user)
        return ListedMemory(key=key, item=item)
    except MalformedRequest:
        return ListedMemory(key=key, item=None)
