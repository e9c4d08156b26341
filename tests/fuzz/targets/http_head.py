"""Raw bytes through a connection and its server: what our intake lets in keeps its promises."""

from __future__ import annotations

import asyncio

from policy.text.characters import odd_character
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest, segment_of
from proxy.settings.table import Limits
from proxy.transport.connection import HELD_BYTES_MAX, Connection, ConnectionTerms
from proxy.transport.crowd import Crowd
from proxy.transport.head import METHODS, HostRules, head_of
from proxy.transport.request import ReceivedRequest
from tests.fuzz.choices import withholds

WORDS = (
    b"GET ",
    b"POST ",
    b" HTTP/1.1\r\n",
    b" RTSP/1.0\r\n",
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
LIMITS = Limits(
    body_bytes_max=65_536,
    header_seconds=60.0,
    body_seconds=60.0,
    idle_seconds=60.0,
    drain_seconds=1.0,
    connections_max=8,
    requests_max=8,
)
_LOOP = asyncio.new_event_loop()


def check(data: bytes) -> None:
    for request in _LOOP.run_until_complete(_came_of(data)):
        try:
            head = head_of(request)
            _check_head(head)
            RULES.check(head.headers)
        except MalformedRequest as refused:
            withholds(refused.detail)


async def _came_of(data: bytes) -> list[ReceivedRequest]:
    """The requests that a connection finds in what a socket brings, as far as one is answered."""
    came: list[ReceivedRequest] = []

    async def answered(request: ReceivedRequest) -> None:
        came.append(request)

    terms = ConnectionTerms(
        answers=answered,
        limits=LIMITS,
        crowd=Crowd(LIMITS.connections_max),
        window=memoryview(bytearray(HELD_BYTES_MAX)),
    )
    connection = Connection(terms, lambda _peer: True)
    socket = Deaf()
    connection.connection_made(socket)
    while data and not socket.is_closing():
        room = connection.get_buffer(-1)
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        connection.buffer_updated(len(part))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return came


class Deaf(asyncio.Transport):
    """Takes what is said, and says nothing; it ends as soon as it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Answers are in fixed words, which name none of the request's."""
        assert b"aiohttp" not in bytes(data)

    def close(self) -> None:
        self._ended = True

    def abort(self) -> None:
        self._ended = True

    def is_closing(self) -> bool:
        return self._ended

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def _check_head(head: HttpRequest) -> None:
    assert head.method in METHODS
    segments = head.path.split("/")
    assert head.path.startswith("/")
    assert "//" not in head.path
    assert ".." not in segments
    assert "." not in segments
    # An encoded slash divides no segment, and no other control character is in a path.
    texts = (
        segment_of(head.path),
        *head.headers.values(),
        *(text for pair in head.query for text in pair),
    )
    for text in texts:
        assert odd_character(text) == ""
    assert all(name == name.lower() for name in head.headers)
    assert "upgrade" not in head.headers
