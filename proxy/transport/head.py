"""Checks a request that aiohttp parsed, and makes the `HttpRequest` that all later code uses.

A request that two parsers could interpret differently (a path decoded twice, a repeated header, an
encoded body) is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from multidict import CIMultiDictProxy

from proxy.dialects.strict_json.strict import check_text
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import SLASH, HttpRequest
from proxy.transport.request import ReceivedRequest
from proxy.transport.stop import Stop

TARGET_LEN_MAX: Final = 4_096
HEADER_BYTES_MAX: Final = 8_190
HEADERS_MAX: Final = 64
QUERY_FIELDS_MAX: Final = 64
_NAMES_KEPT_MAX: Final = 256
_NAME_KEPT_LEN_MAX: Final = 64
_HOSTS_KEPT_MAX: Final = 64
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
# Headers that must not be repeated: one parser could take the first value, another the last.
_SINGLE: Final = frozenset(
    {
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "mem0-user-id",
        "origin",
        "transfer-encoding",
        "x-api-key",
        "x-request-id",
    }
)
# Headers that are read. One of another name is left out if its text is not allowed.
READ_HEADERS: Final = re.compile(
    "|".join(_SINGLE - {"cookie", "x-request-id"})
    + "|api-key|connection|last-event-id|mcp-.*|mnemogate-.*|sec-fetch-site"
    + "|x-chroma-token|x-goog-api-key"
)
# A path of this form needs no decoding: it has only letters, digits, "_" and "-".
_PLAIN_TARGET: Final = re.compile(r"(?:/[A-Za-z0-9_-]{1,64}){1,8}/?")
_ENCODED_SLASH: Final = re.compile("%2f", re.IGNORECASE)
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class HostRules(msgspec.Struct, frozen=True, kw_only=True):
    """The host names that a request may be addressed to, and the origins that may send one.

    A web page in a victim's browser can send requests to a loopback port, or make its own host name
    resolve to loopback (DNS rebinding). In such a request `Host` or `Origin` names the page's host.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    # Whether this listener serves pages whose forms are sent back to this listener.
    own_pages: bool = False

    @classmethod
    def of(cls, hosts: tuple[str, ...], origins: tuple[str, ...], listen: str) -> HostRules:
        """The rules that allow loopback, the configured names, and the listener's own address."""
        own = f"[{listen}]" if ":" in listen else listen
        named = {host.lower() for host in (*hosts, own)}
        return cls(
            hosts=LOOPBACK_HOSTS | named,
            origins=frozenset(origin.lower().rstrip("/") for origin in origins),
        )

    def check(self, headers: dict[str, str]) -> None:
        """Refuse a request for a host name, or from an origin, that is not allowed.

        Raises:
            MalformedRequest: 421 for a foreign `Host`, 403 for a foreign `Origin`.
        """
        if _name_in(headers.get("host", "")) not in self.hosts:
            raise MalformedRequest("host: not a name of this service", status=421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            # A page of this listener sends its forms to the host that it came from.
            own = headers["host"].lower()
            if self.own_pages and origin.lower() in {f"http://{own}", f"https://{own}"}:
                return
            raise MalformedRequest("origin: pages may not send requests here", status=403)


@lru_cache(maxsize=_HOSTS_KEPT_MAX)
def _name_in(host: str) -> str | None:
    """The name in a `Host` header, in lower case; None if the header is not well formed."""
    found = _HOST.fullmatch(host)
    return None if found is None else found[1].lower()


def head_of(request: ReceivedRequest) -> HttpRequest:
    """The checked method, path, query and headers of a request, whose body was not read yet.

    Raises:
        MalformedRequest: One of these parts, or the framing, is ambiguous or not allowed.
    """
    if not request.framed:
        raise MalformedRequest(
            "framing: no transfer coding but `chunked`, on 1.1 alone", status=400
        )
    if request.method not in METHODS:
        raise MalformedRequest("method: not served here", status=405)
    sent = request.headers
    texts = (*sent, *sent.values())
    joined = "".join(texts)
    if len(texts) > 2 * HEADERS_MAX or (
        len(joined) > HEADER_BYTES_MAX and max(map(len, texts)) > HEADER_BYTES_MAX
    ):
        raise MalformedRequest("headers: too many, or one is too large", status=431)
    path, query = _target(request.raw_path)
    headers = _headers(sent, plain=joined.isascii() and joined.isprintable())
    return HttpRequest(method=request.method, path=path, query=query, headers=headers)


def ask_for_body(
    request: ReceivedRequest, head: HttpRequest, bytes_max: int, continue_: Callable[[], None]
) -> None:
    """Begin to accept a body of at most `bytes_max` bytes.

    `continue_` is called to send `100 Continue` where the request expects it, which one of HTTP/1.0
    cannot (RFC 9110, 10.1.1); call this only after headers and credential were checked.

    Raises:
        MalformedRequest: 413: the declared length is above `bytes_max`.
    """
    if request.length is not None and request.length > bytes_max:
        raise MalformedRequest("body: too large", status=413)
    if request.http_11 and "expect" in head.headers:
        continue_()
    request.body_bytes_max = bytes_max
    request.connection.open_body()


async def body_of(request: ReceivedRequest, bytes_max: int, seconds: float) -> bytes:
    """Read the whole body after `ask_for_body`, within a size and a time; return it.

    Raises:
        MalformedRequest: 400, 413 or 408; the connection is closed after the answer.
    """
    if not request.whole:
        await _arriving(request, seconds)
    received = request.body()
    if len(received) > bytes_max:
        raise MalformedRequest("body: too large", status=413)
    check_behind(request)
    return received


async def _arriving(request: ReceivedRequest, seconds: float) -> None:
    try:
        async with Stop(seconds):
            await request.arrival()
    except TimeoutError:
        raise MalformedRequest("body: took too long to arrive", status=408) from None
    if request.connection.broken:
        raise MalformedRequest("body: framed badly, or at too great length", status=400)
    if not request.whole and request.size <= request.body_bytes_max:
        raise MalformedRequest("body: did not arrive whole", status=400)


def check_behind(request: ReceivedRequest) -> None:
    """Refuse a request whose following bytes cannot be another request.

    Raises:
        MalformedRequest: The following bytes cannot begin a request (`Connects.garbled`); the
            connection is closed after the answer.
    """
    if request.connection.garbled:
        raise MalformedRequest("framing: what came behind it is no request", status=400)


class _Lowered(dict[str, str]):
    """Names of headers in lower case; the first ones that are met are kept."""

    def __missing__(self, name: str) -> str:
        lowered = name.lower()
        if len(self) < _NAMES_KEPT_MAX and len(name) <= _NAME_KEPT_LEN_MAX:
            self[name] = lowered
        return lowered


_LOWERED: Final = _Lowered()


def _headers(sent: CIMultiDictProxy[str], *, plain: bool) -> dict[str, str]:
    """The headers by their names in lower case; `plain`: all are printable ASCII."""
    headers: dict[str, str] = {}
    for name, value in sent.items():
        key = _LOWERED[name]
        stripped = value.strip(" \t") if " " in value or "\t" in value else value
        if not (plain or (stripped.isascii() and stripped.isprintable())):
            try:
                check_text(stripped, key)
            except MalformedRequest:
                if READ_HEADERS.fullmatch(key):
                    raise
                continue
        if key not in headers:
            headers[key] = stripped
        elif key in _SINGLE:
            raise MalformedRequest("a header that may be sent once was sent twice", status=400)
        else:
            headers[key] += f", {stripped}"
    if "expect" in headers and headers["expect"].lower() != "100-continue":
        raise MalformedRequest("expect: only 100-continue is known", status=417)
    if "upgrade" in headers:
        if headers["upgrade"].lower() == "websocket":
            # A request for a WebSocket is refused with status 426, on which clients of model APIs
            # continue over plain HTTP.
            raise MalformedRequest("upgrade: no WebSocket is served here, use HTTP", status=426)
        raise MalformedRequest("upgrade: no other protocol is spoken here", status=400)
    return headers


def _target(raw: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The request's path and query, percent-decoded once."""
    if _PLAIN_TARGET.fullmatch(raw) is not None:
        return raw, ()
    if len(raw) > TARGET_LEN_MAX:
        raise MalformedRequest("path: too long", status=414)
    # A target in absolute form ("POST http://other/x") may name another host than the `Host`
    # header.
    if not raw.startswith("/") or not raw.isascii() or "#" in raw:
        raise MalformedRequest("path: must be in origin form", status=400)
    raw_path, _, raw_query = raw.partition("?")
    if "\\" in raw_path:
        raise MalformedRequest("path: a backslash is not allowed", status=400)
    # An encoded slash belongs to an id, and no route may be reached by it, so it is not decoded.
    path = SLASH.join(map(_decoded, _ENCODED_SLASH.split(raw_path)))
    segments = path.split("/")
    if "//" in path or ".." in segments or "." in segments:
        raise MalformedRequest("path: must not hold empty or dot segments", status=400)
    try:
        pairs = parse_qsl(
            raw_query,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=QUERY_FIELDS_MAX,
        )
    except (ValueError, UnicodeDecodeError):
        raise MalformedRequest("query: not readable", status=400) from None
    for key, value in pairs:
        check_text(key, "query")
        check_text(value, "query")
    return path, tuple(pairs)


def _decoded(raw_path: str) -> str:
    try:
        path = unquote_to_bytes(raw_path).decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise MalformedRequest("path: not UTF-8", status=400) from None
    check_text(path, "path")
    if any(character < " " or character == "\x85" for character in path):
        raise MalformedRequest("path: holds a control character", status=400)
    return path


LINE_BYTES_MAX: Final = 4_096
"""The most bytes of a chunk's first line: its size and extensions."""
# The form of chunk extensions that HTTP parsers agree on; any other is refused.
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb"0*([0-9a-fA-F]{1,15})(?:;" + _TOKEN + rb"(?:=" + _TOKEN + rb")?)*")
_TRAILER: Final = re.compile(_TOKEN + rb":[^\0\r]*")


class Unframed(Exception):  # noqa: N818 - what they are
    """The bytes are no valid chunked body."""


class _Expects(Enum):
    SIZE = "the size of a chunk"
    DATA = "what is in it"
    BREAK = "the line break behind it"
    END = "the empty line at the end"
    NOTHING = "the body has ended"


class Chunks(msgspec.Struct, eq=False):
    """The framing of one chunked body, parsed as the bytes arrive.

    Trailers are dropped: no front reads them.
    """

    _expects: _Expects = _Expects.SIZE
    _left: int = 0
    _line: bytes = b""

    @property
    def ended(self) -> bool:
        """Whether the end of the body was read."""
        return self._expects is _Expects.NOTHING

    def through(self, data: bytes) -> tuple[int, bytes]:
        """Parse the next bytes; return how many of them are the body's, and the content in these.

        Raises:
            Unframed: The bytes are no valid chunked body.
        """
        at = 0
        content: list[bytes] = []
        while at < len(data) and not self.ended:
            if self._expects is _Expects.DATA:
                step = min(self._left, len(data) - at)
                content.append(data[at : at + step])
                self._left -= step
                at += step
                if not self._left:
                    self._expects = _Expects.BREAK
                continue
            end = data.find(b"\n", at)
            self._line += data[at:] if end < 0 else data[at:end]
            at = len(data) if end < 0 else end + 1
            most = 1 if self._expects is _Expects.BREAK else LINE_BYTES_MAX
            if len(self._line) > most:
                raise Unframed
            if end >= 0:
                line, self._line = self._line, b""
                self._take(line)
        return at, b"".join(content)

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\r"):
            raise Unframed
        line = line[:-1]
        if self._expects is _Expects.BREAK:
            self._expects = _Expects.SIZE
        elif self._expects is _Expects.SIZE:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise Unframed
            self._left = int(found[1], 16)
            self._expects = _Expects.DATA if self._left else _Expects.END
        elif not line:
            self._expects = _Expects.NOTHING
        elif _TRAILER.fullmatch(line) is None:
            raise Unframed
