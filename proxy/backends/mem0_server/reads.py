"""Reads: as they are forwarded, the memories in their answers, and answers without some of them.

Every answer is encoded again, in the server's own way and without the mark of the gate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from proxy.backends.http_backend import (
    ServerReads,
    ServerRoutes,
    answer_value,
    not_understood,
)
from proxy.backends.kept_request import json_request, strings_of, telling_names
from proxy.backends.mem0_server.requests import (
    LEMMAS,
    LISTED_MAX,
    MARK,
    SHOWN_DEFAULT,
    list_of,
    search_of,
)
from proxy.backends.mem0_server.routes import (
    ENTITIES,
    ENTITY_FIELDS,
    GET,
    HISTORY,
    LIST_ALL,
    MEMORIES,
    SEARCH,
    is_known_id,
    memory_id_of,
    route_of,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import ReadPage, RoutedRequest, ShownMemory
from proxy.seams.operation import HttpReply, HttpRequest

_Picks = Callable[[Iterable[datetime]], datetime]


_SEARCHED_MAX: Final = 4_000
_TEXTS: Final = frozenset({"id", "memory", "metadata"})


class FoundMemory(NamedTuple):
    """A memory in an answer of the server, decoded."""

    key: str  # "" for an id of another form, which no memory of this server has
    text: str
    metadata: dict[str, JsonValue]  # without the mark
    mark: JsonValue
    # Strings of the other members (ids, role, dates) that could be sentences.
    names: tuple[str, ...]
    # Strings that the server itself put into the metadata.
    made_there: tuple[str, ...] = ()

    def shown(self, place: int) -> ShownMemory:
        """The memory as an entry for the driver; `place` is its index in the answer."""
        strings = tuple(one for one in (self.text, *strings_of(self.metadata), *self.names) if one)
        return ShownMemory(
            key=self.key,
            strings=strings,
            place=place,
            is_marked=self.mark is not None,
            is_withheld=not self.key,
            made_there=self.made_there,
        )


def found_in(reply: HttpReply) -> FoundMemory | None:
    """The memory in the answer to a read of one memory; None if the answer is `null`.

    Raises:
        MalformedRequest: The answer has another form.
    """
    value = answer_value(reply)
    return None if value is None else _found(value)


def listed_in(reply: HttpReply) -> list[FoundMemory]:
    """The memories in the answer to a search or a list.

    Raises:
        MalformedRequest: The answer has another form.
    """
    return [_found(one) for one in results_in(reply)]


class Mem0Reads(ServerRoutes, ServerReads):
    """Forwards and filters the reads of Mem0's server; no answer contains the gate's mark."""

    def classify(self, request: HttpRequest) -> RoutedRequest | None:
        """The row of the route table; `LIST_ALL` for a list without a user, agent or run."""
        return route_of(request)

    def page(self, request: HttpRequest) -> ReadPage | None:
        """The number of memories that a search or a list asks for; None for other reads."""
        route = route_of(request)
        if route in (GET, HISTORY, ENTITIES):
            return None
        if route is SEARCH:
            top_k = search_of(request)["top_k"]
            return ReadPage(
                offset=0, limit=top_k if isinstance(top_k, int) else 0, most=_SEARCHED_MAX
            )
        asked = list_of(request).top_k
        if asked is None and route is LIST_ALL:
            return None
        return ReadPage(offset=0, limit=SHOWN_DEFAULT if asked is None else asked, most=LISTED_MAX)

    def asking(self, request: HttpRequest, count: int | None = None) -> HttpRequest:
        """The read, checked and encoded again; a read of entities is forwarded as a list."""
        route = route_of(request)
        if route is SEARCH:
            more = {} if count is None else {"top_k": count}
            return json_request("POST", request.path, {**search_of(request), **more})
        if route in (GET, HISTORY):
            memory_id_of(request.path)
            if request.query:
                raise MalformedRequest("query: this route takes none")
            return HttpRequest(method="GET", path=request.path)
        if route is ENTITIES:
            return HttpRequest(method="GET", path=MEMORIES, query=(("top_k", str(LISTED_MAX)),))
        page = self.page(request)
        most = LISTED_MAX if page is None or page.limit is None else page.limit
        found = list_of(request)
        query = (*found.given().items(), ("top_k", str(most if count is None else count)))
        if found.show_expired is not None:
            query += (("show_expired", "true" if found.show_expired else "false"),)
        return HttpRequest(method="GET", path=MEMORIES, query=query)

    def shown(self, request: HttpRequest, reply: HttpReply) -> tuple[ShownMemory, ...]:
        """Every memory in an answer; for a history, one entry for each change of the memory."""
        route = route_of(request)
        if route is GET:
            found = found_in(reply)
            return () if found is None else (found.shown(0),)
        if route is HISTORY:
            key = memory_id_of(request.path)
            return tuple(_change(one, key, at) for at, one in enumerate(_changes(reply)))
        everything = listed_in(reply)
        if len(everything) >= LISTED_MAX and self.page(request) is None:
            # The server may have more memories, and the length of a cut list would reveal how many
            # of the listed ones are hidden.
            raise MalformedRequest("answer: longer than the server lists at once")
        return tuple(one.shown(at) for at, one in enumerate(everything))

    def without(self, request: HttpRequest, reply: HttpReply, places: frozenset[int]) -> HttpReply:
        """The answer without these memories; `null` in place of a single one."""
        route = route_of(request)
        if route is GET:
            value = None if places else answer_value(reply)
            return _written(reply, _unmarked(value), is_same=not places and _is_clean(value))
        if route is HISTORY:
            left = [one for at, one in enumerate(_changes(reply)) if at not in places]
            return _written(reply, left, is_same=not places)
        results = results_in(reply)
        kept = [one for at, one in enumerate(results) if at not in places]
        if route is ENTITIES:
            return _written(reply, _entities(kept), is_same=False)
        # Members beside the memories are not checked, so they are not forwarded.
        is_alone = answer_value(reply) == {"results": results}
        is_same = is_alone and not places and all(_is_clean(one) for one in results)
        return _written(reply, {"results": [_unmarked(one) for one in kept]}, is_same=is_same)


def results_in(reply: HttpReply) -> list[JsonValue]:
    """The memories in the answer to a search or a list, undecoded.

    Raises:
        MalformedRequest: The answer has another form.
    """
    value = answer_value(reply)
    found = value.get("results") if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise not_understood()
    return found


def _changes(reply: HttpReply) -> list[JsonValue]:
    found = answer_value(reply)
    if not isinstance(found, list):
        raise not_understood()
    return found


def _found(value: JsonValue) -> FoundMemory:
    members = value if isinstance(value, dict) else {}
    key, text, metadata = (members.get(name) for name in ("id", "memory", "metadata"))
    said = metadata if isinstance(metadata, dict) else {}
    lemmas, role = said.get(LEMMAS), said.get("role")
    made = (lemmas, None if telling_names(strings_of(role)) else role)
    rest: JsonValue = {name: one for name, one in members.items() if name not in _TEXTS}
    readable = isinstance(text, str | None) and isinstance(metadata, dict | None)
    return FoundMemory(
        key=key if readable and isinstance(key, str) and is_known_id(key) else "",
        text=text if isinstance(text, str) else "",
        metadata={name: one for name, one in said.items() if name != MARK},
        mark=said.get(MARK),
        names=telling_names(strings_of(rest)),
        made_there=tuple(one for one in made if isinstance(one, str)),
    )


def _change(value: JsonValue, key: str, place: int) -> ShownMemory:
    """One change in a history, with the old text and the new one.

    The server stores every text that a memory ever had, including texts that were purged here, and
    texts from before the memory was adopted, which were not judged.
    """
    members = value if isinstance(value, dict) else {}
    rest: JsonValue = {
        name: one for name, one in members.items() if name not in {"old_memory", "new_memory"}
    }
    texts = tuple(
        one for one in (members.get("old_memory"), members.get("new_memory")) if one is not None
    )
    strings = (*strings_of([*texts]), *telling_names(strings_of(rest)))
    is_its_own = members.get("memory_id") == key
    return ShownMemory(
        key=key, strings=strings, place=place, is_past=True, is_withheld=not is_its_own
    )


def _is_clean(value: JsonValue) -> bool:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return not isinstance(metadata, dict) or MARK not in metadata


def _unmarked(value: JsonValue) -> JsonValue:
    """A memory without the gate's mark, as the server would show it; empty metadata is null."""
    if not isinstance(value, dict) or _is_clean(value):
        return value
    metadata = value["metadata"]
    found = metadata if isinstance(metadata, dict) else {}
    left: JsonValue = {name: one for name, one in found.items() if name != MARK}
    return {**value, "metadata": left or None}


def _entities(memories: list[JsonValue]) -> list[JsonValue]:
    """The answer of `GET /entities` for these memories alone, in the server's order."""
    entities: dict[tuple[str, str], list[dict[str, JsonValue]]] = {}
    for one in memories:
        members = one if isinstance(one, dict) else {}
        for kind, field in ENTITY_FIELDS.items():
            name = members.get(field)
            if isinstance(name, str) and name:
                entities.setdefault((kind, name), []).append(members)
    return [
        {
            "id": name,
            "type": kind,
            "total_memories": len(found),
            "created_at": _utc(min, [one.get("created_at") for one in found]),
            "updated_at": _utc(
                max, [one.get("updated_at") or one.get("created_at") for one in found]
            ),
        }
        for (kind, name), found in sorted(entities.items())
    ]


def _utc(pick: _Picks, times: list[JsonValue]) -> str | None:
    """The earliest or latest of some times, as the server writes it; None if no time is valid."""
    found: list[datetime] = []
    for one in times:
        try:
            found.append(datetime.fromisoformat(one if isinstance(one, str) else ""))
        except ValueError:
            continue
    aware = [one if one.tzinfo else one.replace(tzinfo=UTC) for one in found]
    return pick(aware).astimezone(UTC).isoformat().replace("+00:00", "Z") if aware else None


def _written(reply: HttpReply, value: JsonValue, *, is_same: bool) -> HttpReply:
    if is_same:
        return reply
    # The server encodes its answers in this way, so only the parts that are left out differ.
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return msgspec.structs.replace(reply, body=body)
