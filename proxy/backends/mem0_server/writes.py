"""Writes and deletions: one item for each memory, and the request for each admitted one.

The server merges the metadata of an update. So what is judged is the memory as it will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from policy.model import CandidateId, ChangeKind, Forwarded
from proxy.backends.http_outcome import state_of
from proxy.backends.kept_request import json_request, kept_request, request_parts, strings_of
from proxy.backends.mem0_server.reads import FoundMemory, found_in, listed_in
from proxy.backends.mem0_server.requests import (
    LISTED_MAX,
    MARK,
    AddBody,
    AddedMessage,
    add_of,
    in_server_order,
    scope_of,
    update_of,
)
from proxy.backends.mem0_server.routes import (
    ADD,
    DELETE,
    MEMORIES,
    UPDATE,
    known_id,
    memory_id_of,
    route_of,
)
from proxy.dialects.strict_json.strict import JsonValue, convert, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, Unsettled
from proxy.seams.http_backend import Outcome, Sending
from proxy.seams.operation import HttpReply, HttpRequest

_OK: Final = 200
_MISSING: Final = 404
KEPT_TEXTS: Final = ("content", "text", "metadata")
"""Members of a kept request that a read shows."""
_NOT_STORED: Final = frozenset({"system"})
_LOOKED_THROUGH: Final = 60
_TOO_MANY: Final = (
    f"the server lists {LISTED_MAX} memories and may have more, so none was deleted; name an "
    "agent_id or a run_id as well, or delete by ids"
)


class _KeptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an add, as an item keeps it for one message."""

    content: str
    role: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    metadata: dict[str, JsonValue] | None = None
    expiration_date: str | None = None

    def scope(self) -> dict[str, JsonValue]:
        found = {"user_id": self.user_id, "agent_id": self.agent_id, "run_id": self.run_id}
        return {name: text for name, text in found.items() if text is not None}


class _Added(msgspec.Struct, frozen=True, kw_only=True):
    """One result in the answer to an add."""

    id: str


class _AddedAll(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an add."""

    results: tuple[_Added, ...]


def first(request: HttpRequest) -> HttpRequest | None:
    """What has to be known: the memory in the path, or those under the ids of a deletion."""
    route = route_of(request)
    if route is ADD:
        return None
    if route in (UPDATE, DELETE):
        return _get(memory_id_of(request.path))
    query = tuple(scope_of(request).items())
    more = (("top_k", str(LISTED_MAX)), ("show_expired", "true"))
    return HttpRequest(method="GET", path=MEMORIES, query=query + more)


def sendings_of(request: HttpRequest, known: HttpReply | None) -> tuple[Sending, ...]:
    """One entry for each memory that the request would write or delete.

    Raises:
        MalformedRequest: The request cannot be read, or concerns more than can be listed.
    """
    route = route_of(request)
    if route is ADD:
        return _added(request)
    if known is None or known.status != _OK:
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


def named(request: HttpRequest) -> tuple[Sending, ...]:
    """The deletion of the memory in the path; () where ids of others choose, and for a write."""
    return (_removed(memory_id_of(request.path)),) if route_of(request) is DELETE else ()


def forwarded(
    request: HttpRequest, items: tuple[Sending, ...], admitted: Mapping[int, CandidateId]
) -> HttpRequest | None:
    """The request for the one admitted memory, which has its candidate's id as its mark."""
    if not admitted:
        return None
    ((at, candidate_id),) = admitted.items()
    route, item = route_of(request), items[at].item
    if route is UPDATE:
        body = update_of(request)
        metadata = body.get("metadata")
        marked: JsonValue = {**(metadata if isinstance(metadata, dict) else {}), MARK: candidate_id}
        return json_request("PUT", request.path, {**body, "metadata": marked})
    if route is not ADD:
        return HttpRequest(method="DELETE", path=f"{MEMORIES}/{known_id(item.key)}")
    asked = add_of(request)
    kept = _kept_body(asked, _stored(asked)[at])
    return json_request("POST", MEMORIES, _add_body(convert(kept, _KeptMessage), candidate_id))


def outcome_of(request: HttpRequest, sent: Sending, reply: HttpReply) -> Outcome:
    """Done or failed by the server's word, with the id that it gave to a new memory."""
    if sent.item.change is ChangeKind.DELETE:
        gone = reply.status == _MISSING
        return Outcome(state=Forwarded.DONE if gone else state_of(reply.status))
    state = state_of(reply.status)
    if route_of(request) is not ADD or state is not Forwarded.DONE:
        return Outcome(state=state)
    return Outcome(state=state, key=_id_in(reply))


def added(request: HttpRequest, at: int, reply: HttpReply) -> JsonValue:
    """What the server says of one message that it stored: its words, but the id alone is its own.

    Raises:
        MalformedRequest: The answer gives no id.
    """
    message = _stored(add_of(request))[at]
    text, role = message.content, message.role
    return {"id": _id_in(reply), "memory": text, "event": "ADD", "actor_id": None, "role": role}


def released(item: Unsettled) -> HttpRequest:
    """The client's request for one item that was kept.

    Raises:
        MalformedRequest: It was not kept by this adapter.
    """
    method, path, body = request_parts(item)
    if method == "POST":
        return json_request("POST", MEMORIES, _add_body(convert(body, _KeptMessage), None))
    if method == "PUT":
        return json_request("PUT", path, body)
    return HttpRequest(method=method, path=path)


def question(item: Unsettled) -> HttpRequest:
    """The read of the memory; for a new one a search for its mark.

    The server compares the vectors of texts, so its own text finds it first.
    """
    method, path, body = request_parts(item)
    if method != "POST":
        return _get(memory_id_of(path))
    kept = convert(body, _KeptMessage)
    asked: dict[str, JsonValue] = {
        "query": kept.content,
        "filters": {**kept.scope(), MARK: item.candidate_id},
        "top_k": _LOOKED_THROUGH,
        "threshold": 0,
        "show_expired": True,
    }
    return json_request("POST", "/search", asked)


def told(item: Unsettled, reply: HttpReply) -> Outcome | None:
    """The outcome that the mark of a memory shows; for a deletion, that its absence shows.

    None where the server did not say.
    """
    if reply.status != _OK:
        return None
    if item.change is ChangeKind.CREATE:
        found = [one for one in listed_in(reply) if one.mark == item.candidate_id]
        if not found:
            return Outcome(state=Forwarded.FAILED)
        if len(found) > 1 or not found[0].key:
            return None
        return Outcome(state=Forwarded.DONE, key=found[0].key)
    there = found_in(reply)
    if item.change is ChangeKind.DELETE:
        return Outcome(state=Forwarded.DONE if there is None else Forwarded.FAILED)
    arrived = there is not None and there.mark == item.candidate_id
    return Outcome(state=Forwarded.DONE if arrived else Forwarded.FAILED)


def _id_in(reply: HttpReply) -> str:
    results = convert(decode_object(reply.body, any_text=True), _AddedAll).results
    if len(results) != 1:
        raise MalformedRequest("answer: not one memory for one message")
    return known_id(results[0].id)


def _added(request: HttpRequest) -> tuple[Sending, ...]:
    sendings: list[Sending] = []
    asked = add_of(request)
    for one in _stored(asked):
        body = _kept_body(asked, one)
        kept = kept_request("POST", MEMORIES, body, texts=KEPT_TEXTS, key="")
        item = Item(change=ChangeKind.CREATE, arguments=kept.arguments, pieces=kept.pieces)
        sendings.append(Sending(item=item))
    return tuple(sendings)


def _stored(body: AddBody) -> list[AddedMessage]:
    """The messages that the server stores."""
    return [one for one in body.messages if one.role not in _NOT_STORED]


def _kept_body(body: AddBody, message: AddedMessage) -> dict[str, JsonValue]:
    """One message of an add with what it shares with the others."""
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
        **kept.scope(),
        "infer": False,
    }
    if metadata:
        body["metadata"] = metadata
    if kept.expiration_date is not None:
        body["expiration_date"] = kept.expiration_date
    return body


def _updated(request: HttpRequest, there: FoundMemory) -> Sending:
    body = update_of(request)
    kept = kept_request("PUT", request.path, body, texts=KEPT_TEXTS, key=there.key)
    own = () if kept.pieces == (there.key,) else kept.pieces
    # What stays of the old memory is shown beside the new parts, so it is judged with them, and in
    # the order in which a read shows all of it: an order may begin in what stays.
    text = body.get("text")
    changed = body.get("metadata")
    metadata = {**there.metadata, **(changed if isinstance(changed, dict) else {})}
    words = strings_of(in_server_order(metadata) or {})
    merged = (text if isinstance(text, str) else there.text, *words, *there.names)
    shown = tuple(one for one in merged if one)
    stays = tuple(dict.fromkeys(one for one in shown if one not in own))
    in_order = not stays or (*own, *stays) == shown
    pieces = (*own, *(stays if in_order else shown)) or (there.key,)
    item = Item(change=ChangeKind.UPDATE, arguments=kept.arguments, pieces=pieces, key=there.key)
    return Sending(item=item)


def _removed(memory_id: str) -> Sending:
    key = known_id(memory_id)
    kept = kept_request("DELETE", f"{MEMORIES}/{key}", {}, texts=(), key=key)
    # The key as the only piece says that all of the memory goes.
    item = Item(change=ChangeKind.DELETE, arguments=kept.arguments, pieces=(key,), key=key)
    return Sending(item=item)


def _get(memory_id: str) -> HttpRequest:
    return HttpRequest(method="GET", path=f"{MEMORIES}/{memory_id}")
