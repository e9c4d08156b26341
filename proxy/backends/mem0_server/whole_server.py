"""A walk over all memories of the server, for an operator's commands.

The server lists a thousand memories at once, and knows no pages. Where it has more, the walk
continues with each user, agent and run, and leaves out what it found under another id.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.model import ChangeKind
from proxy.backends.kept_request import (
    json_request,
    kept_request,
    request_parts,
    strings_of,
    telling_names,
)
from proxy.backends.mem0_server.reads import results_in, value_of
from proxy.backends.mem0_server.requests import LEMMAS, LISTED_MAX, MARK
from proxy.backends.mem0_server.routes import (
    ENTITY_FIELDS,
    MEMORIES,
    is_known_id,
    known_id,
    memory_id_of,
)
from proxy.backends.mem0_server.writes import KEPT_TEXTS
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.backend_listing import Attempts, ListedMemory, WalkedPage
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, Unsettled
from proxy.seams.operation import HttpReply, HttpRequest

_OK: Final = 200
_ENTITIES: Final = "/entities"
_NOBODYS: Final = "00000000-0000-0000-0000-000000000000"
_KINDS: Final = {field: kind for kind, field in ENTITY_FIELDS.items()}
# The server makes them of the text, or of the request.
_DERIVED: Final = frozenset({MARK, "role", LEMMAS})
_TAKEN: Final = frozenset({"id", "memory", "metadata", "role", "expiration_date", *_KINDS})
# No member of an add: words of members that no write through the gate makes.
_BESIDE: Final = "beside"


def everything() -> HttpRequest:
    """The list of as many memories as the server gives, those that expired among them."""
    query = (("top_k", str(LISTED_MAX)), ("show_expired", "true"))
    return HttpRequest(method="GET", path=MEMORIES, query=query)


def attempts() -> Attempts:
    """A read of a memory that nobody has, a list of everything, and an add without its members."""
    return Attempts(
        alive=HttpRequest(method="GET", path=f"{MEMORIES}/{_NOBODYS}"),
        read=everything(),
        write=json_request("POST", MEMORIES, {}),
    )


def reading(kept: Unsettled) -> HttpRequest:
    """The read of one memory by the id under which the gate knows it."""
    _, path, _ = request_parts(kept)
    memory_id = known_id(kept.key) if kept.key else memory_id_of(path)
    return HttpRequest(method="GET", path=f"{MEMORIES}/{memory_id}")


def listed(request: HttpRequest, reply: HttpReply) -> WalkedPage:
    """What the answer to a read of the walk shows, or to that of one memory.

    Raises:
        MalformedRequest: It has another form, or one user, agent or run has more memories than the
            server lists.
    """
    if reply.status != _OK:
        raise MalformedRequest(f"answer: {reply.status}, not of the form that this route has")
    if request.path == _ENTITIES:
        return WalkedPage(further=_of_entities(reply))
    if request.path != MEMORIES:
        one = value_of(reply)
        return WalkedPage(memories=() if one is None else (_listed(one),))
    found = results_in(reply)
    named = [name for name, _ in request.query if name in _KINDS]
    if len(found) >= LISTED_MAX:
        if named:
            raise MalformedRequest(f"answer: {LISTED_MAX} memories of one {_KINDS[named[0]]}")
        return WalkedPage(further=(HttpRequest(method="GET", path=_ENTITIES),))
    before = [*_KINDS][: [*_KINDS].index(named[0])] if named else []
    own = (one for one in found if not _has_one(one, before))
    return WalkedPage(memories=tuple(_listed(one) for one in own))


def says_same(kept: Unsettled, found: Item) -> bool:
    """Whether the memory on the server has every part that was judged, and no other text.

    What a merge left standing was judged with the write, so it is among the kept pieces.
    """
    method, _, sent = request_parts(kept)
    _, _, there = request_parts(found)
    text = sent.get("content" if method == "POST" else "text")
    metadata, stands = sent.get("metadata"), there.get("metadata")
    parts = metadata if isinstance(metadata, dict) else {}
    whole = stands if isinstance(stands, dict) else {}
    return (
        text in (None, there["content"])
        and parts.items() <= whole.items()
        and {*found.pieces} <= {*kept.pieces, kept.key}
    )


def mark_of(found: Item) -> str | None:
    """The gate's mark of a listed memory; None where it has none."""
    mark = request_parts(found)[2].get(MARK)
    return None if mark is None else str(mark)


def _has_one(value: JsonValue, fields: list[str]) -> bool:
    return isinstance(value, dict) and any(value.get(field) for field in fields)


def _of_entities(reply: HttpReply) -> tuple[HttpRequest, ...]:
    found = value_of(reply)
    reads: list[HttpRequest] = []
    for one in found if isinstance(found, list) else ():
        kind, name = (one.get("type"), one.get("id")) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or kind not in ENTITY_FIELDS or not isinstance(name, str):
            raise MalformedRequest("answer: not of the form that this route has")
        query = ((ENTITY_FIELDS[kind], name), ("top_k", str(LISTED_MAX)), ("show_expired", "true"))
        reads.append(HttpRequest(method="GET", path=MEMORIES, query=query))
    return tuple(reads)


def _listed(value: JsonValue) -> ListedMemory:
    """One memory of an answer, as the add that would have made it is kept; beside it its mark."""
    said = value if isinstance(value, dict) else {}
    known, text, metadata = (said.get(name) for name in ("id", "memory", "metadata"))
    key = known if isinstance(known, str) else msgspec.json.encode(known).decode()
    stands = metadata if isinstance(metadata, dict) else {}
    role = said.get("role") or stands.get("role") or "user"
    body: dict[str, JsonValue] = {"content": text, "role": role}
    scope = {field: said.get(field) for field in (*_KINDS, "expiration_date")}
    body |= {name: one for name, one in scope.items() if one is not None}
    body["metadata"] = {name: one for name, one in stands.items() if name not in _DERIVED}
    # A read shows words in any member, so all of them are judged.
    rest: JsonValue = {name: one for name, one in said.items() if name not in _TAKEN}
    beside = telling_names(strings_of(rest))
    if beside:
        body[_BESIDE] = [*beside]
    if MARK in stands:
        body[MARK] = stands[MARK]
    if not isinstance(text, str) or not isinstance(known, str) or not is_known_id(known):
        return ListedMemory(key=key, item=None)
    try:
        kept = kept_request("POST", MEMORIES, body, texts=KEPT_TEXTS, key=key)
    except MalformedRequest:
        return ListedMemory(key=key, item=None)
    item = Item(change=ChangeKind.CREATE, arguments=kept.arguments, pieces=kept.pieces, key=key)
    return ListedMemory(key=key, item=item)
