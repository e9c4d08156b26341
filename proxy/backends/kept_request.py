"""How the request for one memory is stored in a candidate, and rebuilt for a release.

The strings that a read would show (pieces) become the candidate's text. The rest of the request is
the candidate's metadata, where a number replaces each piece, so that no text is stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from policy.labels.derive import orders_in_names, spell_order
from policy.model import TEXT_LEN_MAX, ChangeKind
from proxy.dialects.mcp.pieces import DEPTH_MAX, PIECES_MAX, arguments_of, literal
from proxy.dialects.mcp.words import ORDINARY_NAME
from proxy.dialects.strict_json.in_text import strings_inside
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, check_encodable, storable
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import Item, UnsettledItem
from proxy.seams.http_backend import SentMemory
from proxy.seams.operation import HttpRequest

_INNER_DEPTH_MAX: Final = 2
# A name too plain to be a sentence: a key, an id, a part of a namespace.
_PLAIN_NAME: Final = re.compile(r"[\w.:@/+=-]{0,128}")
_JSON: Final = (("content-type", "application/json"),)


def kept_request(
    method: str,
    path: str,
    body: JsonValue,
    *,
    texts: tuple[str, ...],
    key: str,
    change: ChangeKind = ChangeKind.CREATE,
    user: str | None = None,
) -> Item:
    """The item that stores a request whose body is for one memory.

    `texts` are the members of the body whose strings a read shows, and become pieces; strings of
    other members stay in the arguments. A memory without any string has its key as its only piece.

    Raises:
        MalformedRequest: There is too much text for one memory.
    """
    pieces: list[str] = []
    shown = body if isinstance(body, dict) else {}
    filed: JsonValue = {
        literal(name): _taken(value, pieces, 0) if name in texts else _verbatim(value)
        for name, value in shown.items()
    }
    for text in tuple(pieces):
        _inner(text, pieces, 0)
    pieces.extend(_names_in(shown, texts))
    # Canonical JSON sorts the names of members, so a directive that they spell in the client's
    # order, in which a server shows them, becomes a piece of its own.
    pieces.extend(orders_in_names({name: shown[name] for name in texts if name in shown}))
    pieces = pieces or [key]
    if len(pieces) > PIECES_MAX or sum(map(len, pieces)) + len(pieces) > TEXT_LEN_MAX:
        raise MalformedRequest("body: too much text for one memory", status=413)
    arguments = canonical_json({"method": method, "path": literal(path), "body": filed})
    return Item(change=change, arguments=arguments, pieces=tuple(pieces), key=key, scope_user=user)


def deletion(method: str, path: str, body: JsonValue, key: str) -> SentMemory:
    """The deletion of one memory, as an item whose only piece is the key."""
    item = kept_request(method, path, body, texts=(), key=key, change=ChangeKind.DELETE)
    return SentMemory(item=msgspec.structs.replace(item, pieces=(key,)))


def merged(item: Item, shown: tuple[str, ...]) -> Item:
    """A write that the server merges with a stored memory; `shown` are the strings after the merge.

    Old strings that stay are shown beside the new ones, so they are judged with them, in the order
    in which a read shows all of them: a directive may begin in an old string.
    """
    own = () if item.pieces == (item.key,) else item.pieces
    stays = tuple(dict.fromkeys(one for one in shown if one not in own))
    in_order = not stays or (*own, *stays) == shown
    return msgspec.structs.replace(
        item, pieces=(*own, *(stays if in_order else shown)) or (item.key,)
    )


def request_again(item: UnsettledItem) -> HttpRequest:
    """The request that `kept_request` stored in an item.

    Raises:
        MalformedRequest: The item was not made by `kept_request`.
    """
    method, path, body = request_parts(item)
    return json_request(method, path, body)


def request_parts(item: Item | UnsettledItem) -> tuple[str, str, dict[str, JsonValue]]:
    """Method, path and body of the request that an item stores.

    Raises:
        MalformedRequest: The item was not made by `kept_request`.
    """
    found = arguments_of(item.arguments, item.pieces)
    method, path, body = found.get("method"), found.get("path"), found.get("body")
    if not isinstance(method, str) or not isinstance(path, str) or not isinstance(body, dict):
        raise MalformedRequest("item: it is no request")
    return method, path, body


def json_request(method: str, path: str, body: JsonValue) -> HttpRequest:
    """A request with a JSON body; its members have the order that they have in the value."""
    return HttpRequest(
        method=method, path=path, headers=dict(_JSON), body=msgspec.json.encode(body)
    )


def strings_of(value: JsonValue) -> tuple[str, ...]:
    """Every string in a JSON value that a reader is shown, in the value's order.

    Names of members are included where they may be sentences. JSON inside a string is not parsed:
    the code that compares strings parses it.
    """
    found: list[str] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            found.extend(name for name in one if not ORDINARY_NAME.fullmatch(name))
            waiting.extend(reversed(one.values()))
    return tuple(text for text in found if text)


def telling_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names among keys and parts of a namespace that could be sentences."""
    return tuple(name for name in names if not _PLAIN_NAME.fullmatch(name))


def tells(names: tuple[str, ...]) -> bool:
    """Whether names of a collection or namespace could steer an agent that is shown them.

    A collection or namespace is created without a verdict, and every later client is shown its
    name. So a name may be neither a sentence nor a directive.
    """
    return bool(telling_names(names)) or spell_order(names)


def _names_in(body: dict[str, JsonValue], texts: tuple[str, ...]) -> tuple[str, ...]:
    """The strings outside of `texts` that could be sentences; a read shows them as well."""
    rest: JsonValue = {name: value for name, value in body.items() if name not in texts}
    return telling_names(strings_of(rest))


def _taken(value: JsonValue, pieces: list[str], depth: int) -> JsonValue:
    """The value with every string replaced by its number among the pieces."""
    if depth > DEPTH_MAX:
        raise MalformedRequest("body: nested too deeply")
    if isinstance(value, str):
        return _piece(value, pieces) if value else value
    if isinstance(value, list):
        return [_taken(one, pieces, depth + 1) for one in value]
    if isinstance(value, dict):
        return {
            literal(name)
            if not name or ORDINARY_NAME.fullmatch(name)
            else _piece(name, pieces): _taken(one, pieces, depth + 1)
            for name, one in value.items()
        }
    return storable(value)


def _piece(text: str, pieces: list[str]) -> str:
    pieces.append(text)
    if len(pieces) > PIECES_MAX:
        raise MalformedRequest("body: too many texts for one memory", status=413)
    return f"#{len(pieces) - 1}"


def _verbatim(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, list):
        return [_verbatim(one) for one in value]
    if isinstance(value, dict):
        return {literal(name): _verbatim(one) for name, one in value.items()}
    return storable(value)


def _inner(text: str, pieces: list[str], depth: int) -> None:
    # A server or its client may parse JSON in a string and show the strings in it, so each of them
    # is a piece of its own.
    if depth >= _INNER_DEPTH_MAX:
        return
    for inner in strings_inside(text):
        check_encodable(inner, "body")
        if inner and not ORDINARY_NAME.fullmatch(inner):
            _piece(inner, pieces)
            _inner(inner, pieces, depth + 1)
