"""The bodies and queries of clients' requests, interpreted as the server does, or refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from policy.model import NAME_LEN_MAX
from proxy.backends.mem0_server.routes import DELETE_ENTITY, ENTITY_FIELDS, entity_of, route_of
from proxy.dialects.strict_json.strict import (
    JsonValue,
    convert,
    decode_as,
)
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import OWN_FIELD
from proxy.seams.operation import DOTS, HttpRequest

MARK: Final = OWN_FIELD
"""The member of a memory's metadata that contains its candidate's id. No client may set it."""
LEMMAS: Final = "text_lemmatized"
"""The member in which the server stores the lemmas of the text. No client may set it."""
LISTED_MAX: Final = 1_000
"""The most memories that the server lists at once."""
SHOWN_DEFAULT: Final = 20
MESSAGES_MAX: Final = 256
_SEARCHED_MAX: Final = 2_000
_FILTERS_MAX: Final = 1_024
_JOINING: Final = frozenset({"AND", "OR", "NOT"})
_COMPARING: Final = frozenset({"eq", "ne", "gt", "gte", "lt", "lte", "contains", "icontains"})
_AMONG: Final = frozenset({"in", "nin"})
_BAD: Final = 400
_INFER: Final = (
    "infer: send false, so that each message is stored as it is; what the server's own model would "
    "make of them is judged by nobody here"
)
_NEEDS_ID: Final = "At least one identifier (user_id, agent_id, run_id) is required."

Metadata = dict[str, JsonValue]


class AddedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of an add. The server accepts any role; the listed ones cannot be sentences."""

    role: Literal["user", "assistant", "system", "tool", "function", "developer"]
    content: str


class MemoryIds(msgspec.Struct, frozen=True, kw_only=True):
    """The ids under which a memory is filed."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def ids(self) -> dict[str, str]:
        """A mapping of field names to the ids that are given, untrimmed."""
        found = {"user_id": self.user_id, "agent_id": self.agent_id, "run_id": self.run_id}
        return {name: text for name, text in found.items() if text is not None}

    def given(self) -> dict[str, str]:
        """A mapping of field names to the ids that are given, trimmed as the server does.

        Raises:
            MalformedRequest: An id is blank or too long, or has a space in it.
        """
        found = {name: text.strip() for name, text in self.ids().items()}
        for name, text in found.items():
            odd = not text or text in DOTS or any(one.isspace() for one in text)
            if odd or len(text) > NAME_LEN_MAX:
                why = f"{name}: blank, dots, with a space in it, or above {NAME_LEN_MAX} characters"
                raise MalformedRequest(why, status=_BAD)
        return found


class AddBody(MemoryIds, frozen=True, kw_only=True):
    """The body of `POST /memories`, without unknown members, which the server ignores too."""

    messages: Annotated[tuple[AddedMessage, ...], Meta(max_length=MESSAGES_MAX)]
    metadata: Metadata | None = None
    expiration_date: str | None = None
    infer: bool | None = None
    memory_type: str | None = None
    prompt: str | None = None


class UpdateBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `PUT /memories/{id}`; a member that is missing leaves its part unchanged."""

    text: str | UnsetType | None = UNSET
    metadata: Metadata | UnsetType | None = UNSET
    expiration_date: str | UnsetType | None = UNSET


class SearchAsked(MemoryIds, frozen=True, kw_only=True):
    """The body of `POST /search`."""

    query: str
    filters: dict[str, JsonValue] | None = None
    top_k: Annotated[int, Meta(ge=1, le=_SEARCHED_MAX)] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    explain: bool | None = None
    show_expired: bool | None = None


class ListQuery(MemoryIds, frozen=True, kw_only=True):
    """The query of `GET /memories`."""

    top_k: Annotated[int, Meta(ge=1, le=LISTED_MAX)] | None = None
    show_expired: bool | None = None


def add_of(request: HttpRequest) -> AddBody:
    """The body of an add.

    Raises:
        MalformedRequest: The body has another form, or asks the server's model to write memories.
    """
    _check_no_query(request)
    body = decode_as(request.body, AddBody, each_judged=True)
    if not body.given():
        raise MalformedRequest(_NEEDS_ID, status=_BAD)
    # A procedural memory is written by the server's model even if `infer` is false.
    if body.infer is not False or body.memory_type is not None or body.prompt is not None:
        raise MalformedRequest(_INFER)
    if any(not one.content.strip() for one in body.messages):
        raise MalformedRequest("messages: one has no text")
    _check_metadata(body.metadata)
    return msgspec.structs.replace(body, metadata=in_server_order(body.metadata))


def update_of(request: HttpRequest) -> dict[str, JsonValue]:
    """The members that an update gives, as they are forwarded.

    Raises:
        MalformedRequest: The body has another form, or gives no member.
    """
    _check_no_query(request)
    body = decode_as(request.body, UpdateBody, each_judged=True)
    if isinstance(body.metadata, dict):
        _check_metadata(body.metadata)
    if isinstance(body.text, str) and not body.text.strip():
        raise MalformedRequest("text: blank")
    found: dict[str, JsonValue] = msgspec.to_builtins(body)
    if isinstance(body.metadata, dict):
        found["metadata"] = in_server_order(body.metadata)
    # A null means the same as a missing member, except that it removes an expiration date.
    left = {name: one for name, one in found.items() if one is not None or name not in _NULLABLE}
    if not left:
        raise MalformedRequest("text, metadata, expiration_date: one must be there", status=_BAD)
    return left


_NULLABLE: Final = frozenset({"text", "metadata"})


def search_of(request: HttpRequest) -> dict[str, JsonValue]:
    """The body of a search, with every id moved into the filters, as the server itself does.

    Raises:
        MalformedRequest: The body has another form, or an unknown filter.
    """
    _check_no_query(request)
    body = decode_as(request.body, SearchAsked)
    if not body.query.strip():
        raise MalformedRequest("query: blank", status=_BAD)
    ids: dict[str, JsonValue] = {name: text for name, text in body.ids().items() if text}
    filters = {**(body.filters or {}), **ids}
    _check_filters(filters)
    found: dict[str, JsonValue] = {
        "query": body.query,
        "filters": filters,
        "top_k": SHOWN_DEFAULT if body.top_k is None else body.top_k,
        "threshold": body.threshold,
        "explain": body.explain,
        "show_expired": body.show_expired,
    }
    return {name: one for name, one in found.items() if one is not None}


def list_of(request: HttpRequest) -> ListQuery:
    """The query of a list, without unknown parameters, which the server ignores too.

    Raises:
        MalformedRequest: A parameter is given twice, or has another form.
    """
    given: dict[str, JsonValue] = {}
    for name, text in request.query:
        if name not in ListQuery.__struct_fields__:
            continue
        if name in given:
            raise MalformedRequest(f"query: {name} is given twice")
        given[name] = _parsed(name, text)
    # The server treats an empty id as a missing one.
    return convert({name: one for name, one in given.items() if one != ""}, ListQuery)


def scope_of(request: HttpRequest) -> dict[str, str]:
    """The ids (user, agent, run) whose memories a request deletes.

    Raises:
        MalformedRequest: The request names no id, or has an unknown parameter.
    """
    if route_of(request) is DELETE_ENTITY:
        _check_no_query(request)
        field, entity_id = entity_of(request.path)
        return MemoryIds(**{field: entity_id}).given()
    if any(name not in ENTITY_FIELDS.values() for name, _ in request.query):
        # The server ignores an unknown parameter, and would delete more than the client meant.
        raise MalformedRequest("query: a parameter is not known here")
    found = list_of(request).given()
    if not found:
        raise MalformedRequest("At least one identifier is required.", status=_BAD)
    return found


def in_server_order(metadata: Metadata | None) -> Metadata | None:
    """Metadata as a read shows it: PostgreSQL's `jsonb` sorts names by length, then by bytes."""
    if metadata is None:
        return None
    names = sorted(metadata, key=lambda name: (len(name.encode()), name.encode()))
    return {name: _ordered(metadata[name]) for name in names}


def _ordered(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    return in_server_order(value) if isinstance(value, dict) else value


def _parsed(name: str, text: str) -> JsonValue:
    if name == "top_k":
        return int(text) if text.isascii() and text.isdigit() and len(text) < len("12345") else text
    if name == "show_expired":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    return text


def _check_no_query(request: HttpRequest) -> None:
    if request.query:
        raise MalformedRequest("query: this route takes none")


def _check_metadata(metadata: Metadata | None) -> None:
    """Refuse metadata with members of the gate or of the server.

    Raises:
        MalformedRequest: The metadata has the gate's mark, the server's lemmas, or an invalid date
            of creation, which would make every list with the memory fail.
    """
    found = metadata or {}
    if MARK in found:
        raise MalformedRequest(f"metadata: {MARK} is the gate's own")
    if LEMMAS in found:
        raise MalformedRequest(f"metadata: {LEMMAS} is the server's own")
    created = found.get("created_at")
    if created is None and "created_at" not in found:
        return
    try:
        datetime.fromisoformat(created if isinstance(created, str) else "")
    except ValueError:
        raise MalformedRequest("metadata: created_at is a date, ISO 8601") from None


def _check_filters(filters: JsonValue) -> None:
    """Refuse filters of which this adapter does not understand every condition.

    Raises:
        MalformedRequest: A condition is unknown, or is about the gate's mark.
    """
    left, seen = [filters], 0
    while left:
        found = left.pop()
        seen += 1
        if not isinstance(found, dict) or seen > _FILTERS_MAX:
            raise MalformedRequest("filters: not of the form that is known here", status=_BAD)
        for name, value in found.items():
            if name in _JOINING:
                left.extend(value if isinstance(value, list) else [value])
            elif name == MARK or name.startswith("$"):
                raise MalformedRequest("filters: a name is not a client's", status=_BAD)
            elif not _is_condition(value):
                raise MalformedRequest("filters: a condition is not known here", status=_BAD)


def _is_condition(value: JsonValue) -> bool:
    if not isinstance(value, dict):
        return _is_plain(value) or _is_list(value)
    return bool(value) and all(
        (name in _COMPARING and _is_plain(one)) or (name in _AMONG and _is_list(one))
        for name, one in value.items()
    )


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, list) and all(_is_plain(one) for one in value)


def _is_plain(value: JsonValue) -> bool:
    return isinstance(value, str | int | float)
