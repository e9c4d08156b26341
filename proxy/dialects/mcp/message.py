"""One JSON-RPC 2.0 message of MCP: bytes to a value, and a value to bytes.

A message that another reader could understand differently is refused: two equal keys, or two that
differ in case alone, an array of messages, `NaN`, a request that is a response as well. Forwarded
messages are built from the value that was read, without unknown members of the envelope, and for
the methods of `ANEW` without unknown members at any depth. The original bytes are forwarded only
where they spell exactly that value.
"""

from __future__ import annotations

import enum
import re
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from proxy.dialects.mcp.known_members import (
    HANDSHAKES,
    STATELESS,
    V2025_11_25,
    V2026_07_28,
    Members,
    check_twins,
    rebuilt,
)
from proxy.dialects.strict_json.strict import JsonValue, decode_object
from proxy.seams.faults import MalformedRequest

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
ID_LEN_MAX: Final = 256
METHOD_LEN_MAX: Final = 256

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# The code of the error that a client gets when the upstream server has ended.
SERVER_GONE: Final = -32000

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CANCELLED: Final = "notifications/cancelled"
CALL: Final = "tools/call"
LIST: Final = "tools/list"
INITIALIZE: Final = "initialize"
# Methods in whose messages only members of the protocol's own types are forwarded.
ANEW: Final = frozenset(
    {INITIALIZE, "server/discover", LIST, "elicitation/create", "sampling/createMessage"}
)

RequestId: TypeAlias = "int | str"
Object: TypeAlias = "dict[str, JsonValue]"


class Era(enum.Enum):
    """Which of MCP's two protocol eras a message belongs to; one connection may mix them."""

    # The handshake era, up to version 2025-11-25: a connection begins with `initialize`.
    HANDSHAKE = "handshake"
    # The stateless era, from version 2026-07-28: each request has version and capabilities in its
    # `_meta`.
    STATELESS = "stateless"


class MessageKind(enum.Enum):
    """The kinds of JSON-RPC message, which differ in the members that a message has."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESULT = "result"
    ERROR = "error"


class NotRelayed(Exception):  # noqa: N818 - names what becomes of the message
    """The error for bytes that cannot be forwarded as a message.

    `request_id` is the id of the request that the refusal answers; None if the id is unknown.
    """

    def __init__(self, code: int, detail: str, request_id: RequestId | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.request_id = request_id


class Message(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One message: `body` is its value, and `raw` is an encoding of exactly that value.

    `dropped` are the names of members that were removed.
    """

    kind: MessageKind
    raw: bytes
    body: Object
    era: Era
    dropped: tuple[str, ...] = ()
    # The id of the request; None for a notification, and for an error that answers no known
    # request.
    request_id: RequestId | None = None
    method: str | None = None

    @cached_property
    def params(self) -> Object:
        """The message's parameters; empty where there are none."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @cached_property
    def result(self) -> Object:
        """The result in the message; empty if the message is not a result."""
        result = self.body.get("result")
        return result if isinstance(result, dict) else {}

    @cached_property
    def meta(self) -> Object:
        """The `_meta` object of the parameters or of the result; empty if there is none."""
        meta = (self.result if self.kind is MessageKind.RESULT else self.params).get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_of_unknown_version(self) -> bool:
        """Whether the message is of the stateless era, in a version that the sidecar lacks."""
        return self.era is Era.STATELESS and self.meta.get(META_VERSION) not in STATELESS

    @property
    def cancels(self) -> RequestId | None:
        """The id of the request that this message cancels; None if it cancels none."""
        if self.method != CANCELLED:
            return None
        return _id(self.params.get("requestId"))

    def one_line(self) -> bytes:
        """The message as one line, without a line break at the end.

        White space between JSON values may be a carriage return. Some servers end a line there, so
        that a message could hide in the parameters of another message.
        """
        if b"\n" in self.raw or b"\r" in self.raw:
            return encode(self.body)
        return self.raw


def parse(raw: bytes | Message, *, bytes_max: int = LINE_BYTES_MAX) -> Message:
    """Read one JSON-RPC message from bytes, which need no line break at their end.

    A message that was parsed before is returned, if it has no more than `bytes_max` bytes.

    Strings may have any code point of UTF-8, because most of them are only forwarded; `calls`
    checks the strings that would be stored.

    Raises:
        NotRelayed: The bytes are not one message, or not the same message to every reader.
    """
    if isinstance(raw, Message):
        if len(raw.raw) > bytes_max:
            raise NotRelayed(PARSE_ERROR, "message: too large", raw.request_id)
        return raw
    raw = raw.strip(b" \t\r\n")
    try:
        body = decode_object(raw, bytes_max=bytes_max, any_text=True)
    except MalformedRequest as error:
        raise NotRelayed(PARSE_ERROR, error.detail, TopLevelId.of(raw)) from None
    if isinstance(body, list):
        # A batch (array of messages) is refused: current versions have none, and its messages
        # would escape the checks.
        raise NotRelayed(INVALID_REQUEST, "batches of messages are not relayed")
    if not isinstance(body, dict):
        raise NotRelayed(INVALID_REQUEST, "a message must be an object")
    return _shaped(raw, body)


def encode(body: JsonValue) -> bytes:
    """Encode a value as one line of JSON, without its line break."""
    return msgspec.json.encode(body)


def error_answer(request_id: RequestId | None, code: int, text: str) -> Message:
    """The answer that refuses a request; its id is None if the request's id is unknown."""
    body: Object = {
        "jsonrpc": "2.0",
        "id": request_id,
        "error": {"code": code, "message": text},
    }
    return made(body, Era.HANDSHAKE)


def result_answer(request_id: RequestId, result: Object, era: Era) -> Message:
    """Make the answer that carries a result to a request."""
    return made({"jsonrpc": "2.0", "id": request_id, "result": result}, era)


def made(body: Object, era: Era) -> Message:
    """Make a message whose body is this value, and encode the value."""
    method = body.get("method")
    return Message(
        kind=_kind(body),
        raw=encode(body),
        body=body,
        era=era,
        request_id=_id(body.get("id")),
        method=method if isinstance(method, str) else None,
    )


def read_result(message: Message, method: str, era: Era, *, strict: bool = False) -> Message:
    """Check the result of a request of this method; return it without unknown members.

    Unknown members are removed for the methods of `ANEW`, and for all if `strict`, which is meant
    for an unknown protocol version.

    Raises:
        NotRelayed: The result has names that differ in case alone.
    """
    if message.kind is not MessageKind.RESULT:
        return message
    members = _members(era)
    shape = members.results.get(method, "")
    if strict and not shape:
        shape = members.results[CALL]
    result, dropped = message.body["result"], list(message.dropped)
    try:
        if strict or method in ANEW:
            left = rebuilt(result, shape, members, dropped)
        else:
            left = result
            if shape:
                check_twins(message.result, members.shapes[shape], "result")
    except MalformedRequest as error:
        raise NotRelayed(INVALID_REQUEST, error.detail, message.request_id) from None
    if left is result and method not in ANEW:
        return message
    body: Object = {**message.body, "result": left}
    return msgspec.structs.replace(message, raw=encode(body), body=body, dropped=tuple(dropped))


def is_known_version(version: JsonValue) -> bool:
    """Whether an answer to `initialize` names a protocol version whose members are listed here."""
    return version in HANDSHAKES


def _members(era: Era) -> Members:
    return V2026_07_28 if era is Era.STATELESS else V2025_11_25


def _shaped(raw: bytes, came: Object) -> Message:
    request_id = _id(came.get("id"))
    dropped: list[str] = []
    try:
        body = _envelope(came, dropped)
        _check(body, request_id)
        body = _with_params(body, dropped)
    except MalformedRequest as error:
        raise NotRelayed(INVALID_REQUEST, error.detail, request_id) from None
    method = body.get("method")
    if method != CALL and isinstance(method, str) and _bare(method) == CALL:
        # The name resembles `tools/call`: a server that ignores case or invisible characters would
        # carry out the call, which no one has judged.
        raise NotRelayed(INVALID_REQUEST, "method: reads like tools/call, and is not", request_id)
    anew = method == CALL or method in ANEW
    if anew or body is not came or _escapes_a_name(raw):
        raw = encode(body)
    return Message(
        kind=_kind(body),
        raw=raw,
        body=body,
        era=_era(body),
        dropped=tuple(dropped),
        request_id=request_id,
        method=method if isinstance(method, str) else None,
    )


def _bare(method: str) -> str:
    """A method's name in lower case, without spaces and invisible characters."""
    return "".join(one for one in method.casefold() if one.isprintable() and not one.isspace())


_ENVELOPE: Final = ("jsonrpc", "id", "method", "params", "result", "error")
_OF_KIND: Final = {
    MessageKind.REQUEST: frozenset({"jsonrpc", "id", "method", "params"}),
    MessageKind.NOTIFICATION: frozenset({"jsonrpc", "method", "params"}),
    MessageKind.RESULT: frozenset({"jsonrpc", "id", "result"}),
    MessageKind.ERROR: frozenset({"jsonrpc", "id", "error"}),
}
_OF_ERROR: Final = frozenset({"code", "message", "data"})


def _envelope(came: Object, dropped: list[str]) -> Object:
    """The message with only the members that its kind has; the same object if it has no others."""
    check_twins(came, _ENVELOPE, "message")
    if came.get("jsonrpc") != "2.0":
        raise MalformedRequest("jsonrpc: must be 2.0")
    named = [name for name in ("method", "result", "error") if name in came]
    if len(named) != 1:
        raise MalformedRequest("exactly one of method, result and error is needed")
    body = _only(came, _OF_KIND[_kind(came)], dropped)
    error = body.get("error")
    if isinstance(error, dict):
        check_twins(error, _OF_ERROR, "error")
        if type(error.get("code")) is not int or not isinstance(error.get("message"), str):
            raise MalformedRequest("error: needs a code and a message")
        left = _only(error, _OF_ERROR, dropped)
        if left is not error:
            return {**body, "error": left}
    return body


def _only(given: Object, known: frozenset[str], dropped: list[str]) -> Object:
    strange = [name for name in given if name not in known]
    if not strange:
        return given
    dropped += strange
    return {name: value for name, value in given.items() if name in known}


def _check(body: Object, request_id: RequestId | None) -> None:
    kind, given = _kind(body), body.get("id")
    if "id" in body and request_id is None and not (kind is MessageKind.ERROR and given is None):
        raise NotRelayed(INVALID_REQUEST, "id: must be a short string or a whole number")
    method = body.get("method")
    if "method" in body and not (isinstance(method, str) and 0 < len(method) <= METHOD_LEN_MAX):
        raise MalformedRequest("method: must be a short string")
    if not isinstance(body.get("params"), dict | None):
        raise MalformedRequest("params: must be an object")
    for name in ("result", "error"):
        if name in body and not isinstance(body[name], dict):
            raise MalformedRequest(f"{name}: must be an object")
    if kind is MessageKind.RESULT and request_id is None:
        raise MalformedRequest("a result needs an id")


def _with_params(body: Object, dropped: list[str]) -> Object:
    method, params = body.get("method"), body.get("params")
    if not isinstance(method, str) or not isinstance(params, dict):
        return body
    members = _members(_era(body))
    if method not in members.params:
        members = V2025_11_25 if members is V2026_07_28 else V2026_07_28
    shape = members.params.get(method, "")
    if not shape:
        check_twins(params, (), "params")
        return body
    if method == CALL or method in ANEW:
        left = rebuilt(params, shape, members, dropped)
    else:
        check_twins(params, members.shapes[shape], "params")
        left = params
    return body if left is params else {**body, "params": left}


# JSON of which no name has escapes: what is between strings, strings without escapes, and strings
# with escapes that no colon follows.
_NAMED_PLAINLY: Final = re.compile(
    rb'(?:[^"]++|"[^"\\]*+(?:"|(?:\\.[^"\\]*+)++"(?![ \t\r\n]*+:)))*+'
)


def _escapes_a_name(raw: bytes) -> bool:
    """Whether a member's name has escapes: some readers compare names without decoding escapes."""
    return b"\\" in raw and _NAMED_PLAINLY.fullmatch(raw) is None


def _kind(body: Object) -> MessageKind:
    if "method" in body:
        return MessageKind.REQUEST if "id" in body else MessageKind.NOTIFICATION
    return MessageKind.RESULT if "result" in body else MessageKind.ERROR


def _era(body: Object) -> Era:
    """The era of a message: a request names it in `_meta`, a result by its `resultType`."""
    params, result = body.get("params"), body.get("result")
    if isinstance(params, dict):
        meta = params.get("_meta")
        if isinstance(meta, dict) and META_VERSION in meta:
            return Era.STATELESS
    if isinstance(result, dict) and "resultType" in result:
        return Era.STATELESS
    return Era.HANDSHAKE


def _id(given: JsonValue) -> RequestId | None:
    """The id if it is valid, else None. 1 and "1" are two ids; `true`, 1.5 and null are invalid."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int) or (isinstance(given, str) and len(given) <= ID_LEN_MAX):
        return given
    return None


_TOKEN: Final = re.compile(rb'[\\"{}\[\],:]')
_INT: Final = re.compile(rb"-?(?:0|[1-9][0-9]{0,19})\Z")
_TOKENS_MAX: Final = 200_000
_HELD_BYTES_MAX: Final = 2 * ID_LEN_MAX


class TopLevelId:
    """Finds the top-level `"id"` of a message that is too long or too malformed to be decoded.

    The message is fed in chunks, and only a bounded number of its tokens is read. The id is used
    only to refuse the request.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._tokens = 0
        self._held = bytearray()  # the number or string that is being read at depth 1
        self._key: bytes | None = None
        self._found: list[bytes] = []

    @classmethod
    def of(cls, raw: bytes) -> RequestId | None:
        """The id in the bytes of a whole message; None if that has no valid id, or several ids."""
        finder = cls()
        finder.feed(raw)
        return finder.found()

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the message."""
        at = 0
        while at < len(piece) and self._tokens <= _TOKENS_MAX:
            if self._escaped:
                self._escaped = False
                self._hold(piece[at : at + 1])
                at += 1
                continue
            token = _TOKEN.search(piece, at)
            end = len(piece) if token is None else token.start()
            self._hold(piece[at:end])
            if token is None:
                return
            self._tokens += 1
            self._see(token[0])
            at = end + 1

    def found(self) -> RequestId | None:
        """The id, if exactly one valid id was seen; else None."""
        if len(self._found) != 1 or self._tokens > _TOKENS_MAX:
            return None
        raw = self._found[0]
        if _INT.match(raw):
            return _id(int(raw))
        try:
            return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else None
        except (msgspec.DecodeError, UnicodeError):
            return None

    def _hold(self, piece: bytes) -> None:
        if self._depth == 1 and len(self._held) <= _HELD_BYTES_MAX:
            self._held += piece[: _HELD_BYTES_MAX + 1 - len(self._held)]

    def _see(self, token: bytes) -> None:
        if self._in_string:
            self._hold(token)
            if token == b"\\":
                self._escaped = True
            elif token == b'"':
                self._in_string = False
        elif token == b'"':
            self._hold(token)
            self._in_string = True
        elif token in b"{[":
            self._depth += 1
            self._held.clear()
        elif token in b"}]":
            self._end_value()
            self._depth -= 1
        elif token == b",":
            self._end_value()
        elif token == b":" and self._depth == 1:
            self._key = bytes(self._held).strip()
            self._held.clear()

    def _end_value(self) -> None:
        if self._depth == 1:
            if self._key == b'"id"' and len(self._held) <= _HELD_BYTES_MAX:
                self._found.append(bytes(self._held).strip())
            self._key = None
        self._held.clear()
