"""Compares the head of an HTTP request with the MCP message in its body, and makes such heads.

From protocol version 2026-07-28 on, headers repeat the method, the tool and some arguments, so that
routers need not read bodies. A header that contradicts the body is an attack: the gate judges the
body, and the upstream server might obey the header.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from proxy.dialects.mcp.message import META_VERSION, Era, Message, MessageKind, NotRelayed
from proxy.dialects.strict_json.strict import JsonValue

HEADER_MISMATCH: Final = -32020
SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
LAST_EVENT: Final = "last-event-id"

_FIRST_STATELESS: Final = "2026-07-28"
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ENCODED: Final = re.compile(r"=\?base64\?([A-Za-z0-9+/]*={0,2})\?=")
_PLAIN: Final = re.compile(r"[\x20-\x7e]*")
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,256}")
# For each method, the member of its params that the HTTP header `Mcp-Name` has to repeat.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_DEPTH_MAX: Final = 32

# JSON-RPC error codes that a response of the stateless era sends with HTTP status 400.
_BAD_REQUEST: Final = frozenset({-32700, -32600, -32602, HEADER_MISMATCH, -32021, -32022})
_NO_METHOD: Final = -32601


def is_session_id(text: str) -> bool:
    """Whether a string may be a session id: 1 to 256 characters of visible ASCII."""
    return _SESSION_ID.fullmatch(text) is not None


def era_of_head(headers: dict[str, str]) -> Era:
    """The protocol era that the headers name; the handshake era if they name no version."""
    version = headers.get(VERSION, "")
    if _DATE.fullmatch(version) and version >= _FIRST_STATELESS:
        return Era.STATELESS
    return Era.HANDSHAKE


def status_of_error(code: object) -> int:
    """The HTTP status of a JSON-RPC error in the stateless era."""
    if code == _NO_METHOD:
        return 404
    return 400 if isinstance(code, int) and code in _BAD_REQUEST else 200


def check_head(headers: dict[str, str], message: Message) -> None:
    """Refuse a head that contradicts its body.

    Raises:
        NotRelayed: Head and body differ; the error's code is `HEADER_MISMATCH`.
    """
    if message.method is None or message.kind is MessageKind.NOTIFICATION:
        return
    said = era_of_head(headers)
    if message.era is not said:
        raise _mismatch(message, "mcp-protocol-version: not the version that the body names")
    if said is Era.HANDSHAKE:
        # A server of the handshake era ignores `Mcp-Method` and `Mcp-Name`, but a router in front
        # of the server might obey these headers.
        if METHOD in headers and headers[METHOD] != message.method:
            raise _mismatch(message, "mcp-method: not the method of the body")
        _check_name(headers, message, required=False)
        return
    if headers.get(VERSION) != message.meta.get(META_VERSION):
        raise _mismatch(message, "mcp-protocol-version: not the version that the body names")
    if headers.get(METHOD) != message.method:
        raise _mismatch(message, "mcp-method: not the method of the body")
    _check_name(headers, message, required=True)
    _check_params(headers, message)


def headers_for(message: Message, given: dict[str, str]) -> dict[str, str]:
    """The headers that repeat parts of a message's body; none in the handshake era.

    `given` are the headers of the client's request: a client's header that repeats an argument is
    included if the message still contains that argument's value.
    """
    if message.era is not Era.STATELESS or message.method is None:
        return {}
    made = {METHOD: encode_value(message.method)}
    version = message.meta.get(META_VERSION)
    if isinstance(version, str):
        made[VERSION] = version
    name = message.params.get(_NAMED.get(message.method, ""))
    if isinstance(name, str):
        made[NAME] = encode_value(name)
    elif NAME in given and decode_value(given[NAME]) in _names(message):
        made[NAME] = given[NAME]
    if message.method == "tools/call":
        held = _scalars(message.params.get("arguments"))
        made |= {
            header: value
            for header, value in given.items()
            if header.startswith(PARAM_PREFIX) and decode_value(value) in held
        }
    return made


def encode_value(text: str) -> str:
    """Encode a text as the value of a header: in base64, unless the text is safe as it is."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def decode_value(value: str) -> str | None:
    """The text that a header's value encodes; None if base64 in the value is invalid."""
    found = _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        raw = base64.b64decode(found[1], validate=True)
        text = raw.decode("utf-8", "strict")
    except (binascii.Error, UnicodeDecodeError):
        return None
    # Only the canonical base64 of a text is accepted: a router that compares spellings would treat
    # another spelling differently.
    return text if base64.b64encode(raw).decode() == found[1] else None


def _check_name(headers: dict[str, str], message: Message, *, required: bool) -> None:
    key = _NAMED.get(message.method or "")
    given = headers.get(NAME)
    if given is None:
        if required and key is not None and message.params.get(key) is not None:
            raise _mismatch(message, "mcp-name: is needed with this method")
        return
    wanted = _names(message) if key is None else (message.params.get(key),)
    if decode_value(given) not in wanted:
        raise _mismatch(message, "mcp-name: not the name in the body")


def _check_params(headers: dict[str, str], message: Message) -> None:
    named = [header for header in headers if header.startswith(PARAM_PREFIX)]
    if not named:
        return
    called = message.method == "tools/call"
    held = _scalars(message.params.get("arguments") if called else None)
    for header in named:
        if decode_value(headers[header]) not in held:
            raise _mismatch(message, "mcp-param: not a value in the body's arguments")


def _names(message: Message) -> tuple[JsonValue, ...]:
    return tuple(value for key in ("name", "uri") if (value := message.params.get(key)) is not None)


def _scalars(arguments: JsonValue) -> set[str | None]:
    """Each scalar among the arguments, spelled as in a header; arrays are left out."""
    found: set[str | None] = set()
    level: list[JsonValue] = [arguments]
    for _depth in range(_DEPTH_MAX):
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, bool):
                found.add("true" if value else "false")
            elif isinstance(value, str):
                found.add(value)
            elif isinstance(value, int | float):
                found.add(str(int(value)) if float(value).is_integer() else repr(value))
        level = below
    return found


def _mismatch(message: Message, detail: str) -> NotRelayed:
    return NotRelayed(HEADER_MISMATCH, detail, message.request_id)
