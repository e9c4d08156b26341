"""Raw bytes through aiohttp's own parser into our intake: what gets through keeps its promises."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from multidict import CIMultiDict

from policy.text.skeleton import illegal_code_point
from proxy.seams.faults import MalformedRequest
from proxy.transport.connection import HEADER_LINE_BYTES_MAX
from proxy.transport.head import METHODS, HostRules
from tests.fuzz.choices import withholds
from tests.fuzz.heads import taken

if TYPE_CHECKING:
    from proxy.seams.operation import HttpRequest

WORDS = (
    b"GET ",
    b"POST ",
    b" HTTP/1.1\r\n",
    b"\r\n\r\n",
    b"Host: localhost\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\n",
    b"Origin: null\r\n",
    b"Authorization: Bearer ",
    b"%2e%2e",
    b"%2F",
    b"//",
    b"/../",
    b"%00",
    b"%ed%a0%80",
    b"?a=b&c",
)
RULES = HostRules.of((), (), "127.0.0.1")
_LOOP = asyncio.new_event_loop()


def check(data: bytes) -> None:
    for message in _parsed(data):
        try:
            head = taken(message.method, message.path, CIMultiDict(message.headers))
            _check_head(head)
            RULES.check(head.headers)
        except MalformedRequest as refused:
            withholds(refused.detail)


def _parsed(data: bytes) -> list[Any]:
    """The requests that aiohttp finds in a stream; a broken one is its own named error."""
    parser = HttpRequestParser(
        BaseProtocol(_LOOP),
        _LOOP,
        2**16,
        max_line_size=HEADER_LINE_BYTES_MAX,
        max_field_size=HEADER_LINE_BYTES_MAX,
    )
    found: list[Any] = []
    with contextlib.suppress(HttpProcessingError):
        messages, _upgraded, _rest = parser.feed_data(data)
        found = [message for message, _payload in messages]
    return found


def _check_head(head: HttpRequest) -> None:
    assert head.method in METHODS
    segments = head.path.split("/")
    assert head.path.startswith("/")
    assert "//" not in head.path
    assert ".." not in segments
    assert "." not in segments
    texts = (head.path, *head.headers.values(), *(text for pair in head.query for text in pair))
    for text in texts:
        assert illegal_code_point(text) is None
    assert all(name == name.lower() for name in head.headers)
    assert head.headers.get("content-encoding", "identity").lower() == "identity"
    assert "upgrade" not in head.headers
