"""The connections of a listener: what they take, whom they cut off, and who is first."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

import msgspec
import pytest

from proxy.seams.faults import Busy
from proxy.settings.table import Limits, SettingsError
from proxy.transport.auth import Peer
from proxy.transport.connection import (
    AIOHTTP_BELOW,
    AIOHTTP_FROM,
    HEAD_BYTES_MAX,
    HELD_BYTES_MAX,
    READ_BYTES_MAX,
    Connection,
    ConnectionTerms,
    check_aiohttp,
    may_begin,
)
from proxy.transport.crowd import BURST, Crowd, RequestTurn, Turns
from proxy.transport.request import ReceivedRequest

LIMITS = Limits(
    body_bytes_max=1_024,
    header_seconds=60.0,
    body_seconds=0.02,
    idle_seconds=60.0,
    drain_seconds=1.0,
    connections_max=8,
    requests_max=8,
)
WAIT_S = 5.0
CANARY = b"violet-canary-7731"


class Transport(asyncio.Transport):
    """Notes what is written to it, and that it was aborted or paused."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()
        self.closed = asyncio.Event()
        self.written = b""
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted.set()

    def close(self) -> None:
        self.closed.set()

    def is_closing(self) -> bool:
        return self.closed.is_set() or self.aborted.is_set()

    def is_reading(self) -> bool:
        return not self.paused

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        del name
        return default


class Listening:
    """What a listener is to its connections: notes each request, and answers none before `let`."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.came: list[ReceivedRequest] = []
        self.let = asyncio.Event()
        self.terms = ConnectionTerms(
            answers=self.answer,
            limits=limits,
            crowd=Crowd(LIMITS.connections_max),
            window=memoryview(bytearray(READ_BYTES_MAX)),
        )

    async def answer(self, request: ReceivedRequest) -> bool | None:
        self.came.append(request)
        await self.let.wait()
        return None

    def connected(self) -> tuple[Connection, Transport]:
        transport = Transport()
        connection = Connection(self.terms, lambda _peer: True)
        connection.connection_made(transport)
        return connection, transport

    def sent(self, connection: Connection, data: bytes) -> None:
        """What a socket does with bytes that came."""
        while data:
            room = connection.get_buffer(-1)
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            connection.buffer_updated(len(part))


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_a_peer_that_does_not_read_is_cut_off_and_one_that_reads_again_is_not() -> None:
    listening = Listening()
    patient, reads = listening.connected()
    stuck, hangs = listening.connected()
    patient.pause_writing()
    patient.resume_writing()
    # Paused after the other: when its time is over, the other's would have been, too.
    stuck.pause_writing()
    await asyncio.wait_for(hangs.aborted.wait(), WAIT_S)
    assert not reads.aborted.is_set()
    for connection in (patient, stuck):
        connection.connection_lost(None)


@pytest.mark.parametrize("reads", [True, False])
async def test_what_is_not_read_does_not_keep_a_closed_connection(*, reads: bool) -> None:
    # Less than what pauses an answer, so that no deadline for reading has begun.
    listening, loop = Listening(), asyncio.get_running_loop()
    ours, peers = socket.socketpair()
    peers.setblocking(False)  # noqa: FBT003 - a positional parameter of the standard library
    transport, connection = await loop.connect_accepted_socket(
        lambda: Connection(listening.terms, lambda _peer: True), ours
    )
    written = 0
    while not connection.unread_bytes:
        connection.say(b"x" * 1_024)
        written += 1_024
    gone = asyncio.Event()
    connection.departure.tell(gone.set)
    connection.end()
    received = b""
    if reads:
        while piece := await loop.sock_recv(peers, 65_536):
            received += piece
    await asyncio.wait_for(gone.wait(), WAIT_S)
    while not reads and (piece := await loop.sock_recv(peers, 65_536)):
        received += piece
    assert (len(received) == written) is reads
    assert transport.is_closing()
    peers.close()


async def test_a_connection_that_ends_while_it_is_paused_leaves_no_timer_behind() -> None:
    listening = Listening()
    first, gone = listening.connected()
    second, hangs = listening.connected()
    first.pause_writing()
    first.connection_lost(None)
    second.pause_writing()
    await asyncio.wait_for(hangs.aborted.wait(), WAIT_S)
    assert not gone.aborted.is_set()
    second.connection_lost(None)


async def test_a_head_is_refused_above_its_bound_and_not_at_it() -> None:
    listening = Listening()
    start = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    for size, refused in ((HEAD_BYTES_MAX, False), (HEAD_BYTES_MAX + 1, True)):
        connection, transport = listening.connected()
        fill = size - len(start) - 2
        lines = b"".join(b"X: " + b"a" * 4_091 + b"\r\n" for _ in range(fill // 4_096))
        rest = fill - len(lines)
        lines += b"X: " + b"a" * (rest - 5) + b"\r\n"
        listening.sent(connection, start + lines + b"\r\n")
        await settle()
        assert transport.written.startswith(b"HTTP/1.0 431 ") is refused
        connection.connection_lost(None)
    assert len(listening.came) == 1
    connection, transport = listening.connected()
    listening.sent(connection, b"GET /" + b"a" * HEAD_BYTES_MAX)
    await settle()
    assert transport.written.startswith(b"HTTP/1.0 414 ")
    connection.connection_lost(None)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "control"])
async def test_who_sent_a_whole_head_does_not_pay_for_a_loop_that_was_busy(*, whole: bool) -> None:
    listening = Listening(msgspec.structs.replace(LIMITS, header_seconds=0.01))
    connection, transport = listening.connected()
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    listening.sent(connection, head if whole else head[:-1])
    time.sleep(0.05)  # noqa: ASYNC251 - somebody else's work, longer than the deadline
    await settle()
    assert (b" 408 " in transport.written) is not whole
    assert len(listening.came) == int(whole)
    connection.connection_lost(None)


class Replying(Listening):
    """Answers each request at once."""

    async def answer(self, request: ReceivedRequest) -> bool | None:
        self.came.append(request)
        return await request.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def test_each_head_has_the_whole_time_though_one_timer_serves_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, now = asyncio.get_running_loop(), [1_000.0]
    timers: list[float] = []
    set_at = loop.call_at

    def noted(
        when: float, callback: Callable[..., object], context: Context | None = None
    ) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == "_late":
            timers.append(when)
        return set_at(when, callback, context=context)

    monkeypatch.setattr(loop, "time", lambda: now[0])
    monkeypatch.setattr(loop, "call_at", noted)
    listening = Replying(msgspec.structs.replace(LIMITS, idle_seconds=600.0))
    connection, transport = listening.connected()
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(3):
        listening.sent(connection, head)
        await settle()
    assert (transport.written.count(b" 200 "), len(timers)) == (3, 1)
    now[0] += LIMITS.header_seconds - 1
    listening.sent(connection, head[:-1])
    now[0] += LIMITS.header_seconds - 1
    await settle()
    assert b" 408 " not in transport.written
    now[0] += 1
    await settle()
    assert b" 408 " in transport.written
    assert len(timers) == 2
    connection.connection_lost(None)


async def test_no_more_is_held_than_may_be_before_anybody_asks_for_a_body() -> None:
    listening = Listening()
    connection, transport = listening.connected()
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    listening.sent(connection, head)
    await settle()
    assert transport.is_reading()
    room = connection.get_buffer(-1)
    assert len(room) == HELD_BYTES_MAX
    connection.buffer_updated(len(room))
    assert not transport.is_reading()
    assert not listening.came[0].whole
    assert listening.came[0].size == 0
    connection.connection_lost(None)


@pytest.mark.parametrize("known", [False, True], ids=["stranger", "known"])
async def test_only_of_whom_we_know_much_is_read_at_once(*, known: bool) -> None:
    listening = Listening()
    connection, _ = listening.connected()
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    listening.sent(connection, head)
    await settle()
    if known:
        connection.enter("agent")
    most = READ_BYTES_MAX if known else HELD_BYTES_MAX
    assert len(connection.get_buffer(-1)) == most
    connection.open_body()
    assert len(connection.get_buffer(-1)) == most
    connection.connection_lost(None)


@pytest.mark.parametrize(
    ("version", "served"), [(b"HTTP/1.1", True), (b"HTTP/2.0", False), (b"RTSP/1.0", False)]
)
async def test_an_empty_line_in_two_parts_hides_no_other_protocol(
    version: bytes, *, served: bool
) -> None:
    listening = Listening()
    connection, _ = listening.connected()
    for part in (b"\r", b"\n", b"GET / " + version + b"\r\nHost: a\r\n\r\n"):
        listening.sent(connection, part)
    await settle()
    assert bool(listening.came) is served
    listening.let.set()
    await settle()
    connection.connection_lost(None)


async def test_one_request_at_a_time_is_with_the_parser() -> None:
    listening = Listening()
    connection, _ = listening.connected()
    listening.sent(connection, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
    await settle()
    assert len(listening.came) == 1
    connection.connection_lost(None)


@pytest.mark.parametrize(
    "broken",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + CANARY + b"\r\n\r\n",
        b"GET /" + CANARY + b" HTTP/7\r\n\r\n",
        CANARY + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + CANARY + b"\x01: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + CANARY + b"\0\r\n\r\n",
    ],
)
async def test_what_the_parser_says_by_itself_is_said_in_fixed_words_and_logged_nowhere(
    broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    listening = Listening()
    connection, transport = listening.connected()
    with caplog.at_level(logging.DEBUG):
        listening.sent(connection, broken)
        await settle()
    assert transport.written.startswith(b"HTTP/1.0 400 ")
    assert transport.closed.is_set()
    assert CANARY not in transport.written
    assert CANARY.decode() not in caplog.text
    assert "aiohttp" not in caplog.text
    assert listening.came == []
    connection.connection_lost(None)


@pytest.mark.parametrize(
    "data", [b"", b"\r\n", b"G", b"GET", b"GET /", b"TRACE / HTTP/1.0\r\n", b"\r\nPOST /a HTTP/1.1"]
)
def test_a_request_may_begin_so(data: bytes) -> None:
    assert may_begin(data)


@pytest.mark.parametrize(
    "data", [b"X", b"get /", b"GET\t/", b"GARBAGE\r\n", b"GET / HTTP/2.0\r\n", b"0\r\n\r\n", b"\nX"]
)
def test_no_request_begins_so(data: bytes) -> None:
    assert not may_begin(data)


@pytest.mark.parametrize("installed", [AIOHTTP_FROM, "3.14.5", "3.14.10", "3.14.99rc1"])
def test_an_aiohttp_inside_the_bounds_is_taken(installed: str) -> None:
    check_aiohttp(installed)
    check_aiohttp()  # and so is the one that these tests run with


@pytest.mark.parametrize(
    "installed", ["3.9.0", "3.12.15", "3.13.5", "3.14.3", AIOHTTP_BELOW, "3.15.0rc1", "4.0.0a1", ""]
)
def test_an_aiohttp_outside_of_the_bounds_is_refused_by_its_version(installed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_aiohttp(installed)
    assert str(refused.value) == (
        f"aiohttp {installed} is installed, and this program is not made for it: "
        f"install aiohttp>={AIOHTTP_FROM},<{AIOHTTP_BELOW}"
    )


class One:
    """A connection; `idle` and `waits` are as a test says."""

    def __init__(self, address: str, *, idle: bool = True, waits: bool = True) -> None:
        self.peer = Peer(address=address)
        self.idle = idle
        self.waits = waits
        self.unread_bytes = 0
        self.gone = False

    def end(self) -> None:
        self.gone = True

    def abort(self) -> None:
        self.gone = True

    async def shutdown(self, drain_s: float) -> None:
        del drain_s


def full(crowd: Crowd, *guests: One) -> None:
    for guest in guests:
        assert crowd.enter(guest)


def test_the_oldest_stranger_of_the_peer_with_most_of_them_goes_first() -> None:
    crowd = Crowd(8)
    few, many = One("b"), [One("a") for _ in range(8)]
    full(crowd, few, *many)
    newcomer = One("c")
    assert crowd.enter(newcomer)
    assert [one.gone for one in (few, *many)] == [False, True] + [False] * 7
    assert len(crowd) == 9


def test_strangers_never_take_the_place_of_who_has_shown_a_credential() -> None:
    crowd = Crowd(8)
    known = [One("a") for _ in range(8)]
    for one in known:
        full(crowd, one)
        crowd.recognise(one, "agent")
    for _ in range(100):
        assert crowd.enter(One("a"))
    assert not any(one.gone for one in known)
    assert len(crowd) == 9


def test_who_is_being_answered_stays_and_the_next_one_is_turned_away() -> None:
    crowd = Crowd(1)
    full(crowd, One("a", waits=False), One("a", waits=False))
    assert not crowd.enter(One("b"))


def test_an_idle_connection_of_the_principal_with_most_makes_room_for_another() -> None:
    crowd = Crowd(4)
    greedy = [One("a", idle=at == 1) for at in range(4)]
    for one in greedy:
        full(crowd, one)
        crowd.recognise(one, "greedy")
    modest = One("a")
    full(crowd, modest)
    crowd.recognise(modest, "modest")
    assert [one.gone for one in greedy] == [False, True, False, False]
    # None of them is idle now: one whose body is still arriving goes.
    another = One("a")
    full(crowd, another)
    crowd.recognise(another, "another")
    assert [one.gone for one in greedy] == [True, True, False, False]


def test_where_all_are_at_work_the_next_is_told_so_and_stays_a_stranger() -> None:
    crowd = Crowd(1)
    works, comes = One("a", idle=False, waits=False), One("a")
    full(crowd, works)
    crowd.recognise(works, "greedy")
    full(crowd, comes)
    with pytest.raises(Busy):
        crowd.recognise(comes, "modest")
    crowd.leave(works)
    crowd.recognise(comes, "modest")
    assert not works.gone


def filled(turns: Turns, name: str) -> int:
    """How many turns it gets before there are none for it."""
    taken = 0
    with contextlib.suppress(Busy):
        while True:
            turns.begin(name)
            taken += 1
    return taken


def test_one_principal_gets_most_and_leaves_some_for_each_next_one() -> None:
    turns = Turns(100)
    taken = {name: filled(turns, name) for name in ("first", "second", "third")}
    assert taken["first"] == 100 * BURST // (BURST + 1)
    assert taken["second"] > 0
    assert taken["third"] > 0
    for _ in range(10):
        turns.finish("first")
    with pytest.raises(Busy):
        turns.begin("first")
    turns.begin("fourth")


def test_requests_without_a_credential_wait_behind_nobody() -> None:
    turns = Turns(4)
    assert filled(turns, "agent")
    for _ in range(4):
        turns.begin(None)
    with pytest.raises(Busy):
        turns.begin(None)
    turns.finish(None)
    turns.begin(None)


def test_a_turn_counts_from_when_it_is_whole_for_whom_it_is() -> None:
    turns = Turns(1)
    arriving, other = RequestTurn(turns), RequestTurn(turns)
    arriving.enter("agent")
    other.enter("agent")
    other.whole()
    with pytest.raises(Busy):
        arriving.whole()
    other.end()
    arriving.whole()
    arriving.end()
    arriving.end()
    other.whole()


def test_what_one_principal_left_unread_is_counted_over_all_of_its_connections() -> None:
    crowd = Crowd(8)
    hers, others = [One("a"), One("b")], One("a")
    full(crowd, *hers, others)
    for one in hers:
        crowd.recognise(one, "greedy")
        one.unread_bytes = 3
    crowd.recognise(others, "modest")
    others.unread_bytes = 5
    assert [crowd.unread_of(name) for name in ("greedy", "modest", "nobody", None)] == [6, 5, 0, 0]
