"""A holder answers while it holds the store, and it sees clients of a standby as they are."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trustme

from proxy.seams.environment import Environment, RandomPool, Serving
from proxy.seams.operation import HttpReply
from proxy.seams.waits import beside
from proxy.settings.table import Limits
from proxy.settings.values import Address
from proxy.standby.peer_port import PeerPort
from proxy.standby.splice import Splice
from proxy.standby.standby import HeldFront
from proxy.transport.exchange import AnsweredReply, Front, RequestHead
from proxy.transport.head import HostRules
from proxy.transport.listener import Listener, tls_context

KEY = b"k" * 32
HERE = Address(host="127.0.0.1", port=0)
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PATIENCE_S = 30


class Pieces:
    """A streamed body of two pieces."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.closed = False
        self._between = between

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"one "
        self._between()
        yield b"two"

    async def aclose(self) -> None:
        self.closed = True


class Telling:
    """A front that reports its client, and does something while it answers."""

    routes = frozenset({"told"})

    def __init__(
        self,
        name: str = "data",
        *,
        while_answering: Callable[[], None] = lambda: None,
        done: bool = False,
        pieces: Pieces | None = None,
    ) -> None:
        self.name = name
        self._while_answering = while_answering
        self._done = done
        self._pieces = pieces

    async def answer(self, incoming: RequestHead) -> AnsweredReply:
        self._while_answering()
        peer = incoming.peer
        told = " ".join((peer.address, *peer.subjects)).encode()
        return AnsweredReply(
            reply=HttpReply(status=200, body=b"" if self._pieces else told),
            route="told",
            done=self._done,
            pieces=self._pieces,
        )


def listener(front: Front, holds: Callable[[], bool] = lambda: True) -> Listener:
    return Listener(
        front,
        limits=Limits(),
        rules=HostRules.of((), (), "127.0.0.1"),
        surroundings=Environment(
            clock_ns=time.time_ns,
            random_hex=RandomPool(),
            record=lambda _event: None,
            serving=Serving(holds=holds),
        ),
        halt=lambda: None,
    )


async def asked(address: Address, tls: ssl.SSLContext | None = None, client: str = "") -> bytes:
    """The whole answer, head included."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(
            address.host,
            address.port,
            ssl=tls,
            server_hostname="127.0.0.1" if tls else None,
            local_addr=(client, 0) if client else None,
        )
        writer.write(REQUEST)
        answer = await reader.read()
        writer.close()
        return answer


async def through(front: Front, holds: Callable[[], bool] = lambda: True) -> bytes:
    serving = listener(front, holds)
    try:
        return await asked(await serving.open_tcp(HERE))
    finally:
        await serving.close()


async def test_a_front_is_asked_while_the_store_is_held_and_health_always() -> None:
    held = [True]
    assert b"200 OK" in await through(HeldFront(Telling(), lambda: held[0]))
    held[0] = False
    assert b"503 Service Unavailable" in await through(HeldFront(Telling(), lambda: held[0]))
    assert b"200 OK" in await through(HeldFront(Telling("health"), lambda: held[0]))


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_was_made_while_the_lease_ended_is_not_sent(*, streamed: bool) -> None:
    held, pieces = [True], Pieces() if streamed else None
    front = Telling(while_answering=held.clear, pieces=pieces)
    answer = await through(HeldFront(front, lambda: bool(held)))
    assert b"503 Service Unavailable" in answer
    assert b"two" not in answer
    assert pieces is None or pieces.closed
    # Control: without the wall the answer is sent.
    assert b"200 OK" in await through(Telling(while_answering=held.clear, pieces=Pieces()))


async def test_a_streamed_answer_is_broken_off_at_the_end_of_the_lease() -> None:
    held = [True]
    pieces = Pieces(between=held.clear)
    answer = await through(Telling(pieces=pieces), lambda: bool(held))
    assert b"one " in answer
    assert b"two" not in answer
    assert not answer.endswith(b"0\r\n\r\n"), "it looks complete"
    assert pieces.closed
    # Control: while the lease lasts, all of it is sent.
    assert b"two" in await through(Telling(pieces=Pieces()))


async def test_the_answer_about_a_change_that_was_made_is_sent() -> None:
    held = [True]
    front = Telling(while_answering=held.clear, done=True)
    assert b"200 OK" in await through(HeldFront(front, lambda: bool(held)))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_certificate_address_and_stream_of_a_client_pass_a_standby(
    tmp_path: Path, *, encrypted: bool
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = client = None
    if encrypted:
        tls = tls_context(*(tmp_path / one for one in ("cert.pem", "key.pem", "ca.pem")))
        client = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        named = authority.issue_cert("agent.example")
        named.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
        client.load_cert_chain(tmp_path / "client.pem")
    data, streamed = listener(Telling()), listener(Telling(pieces=Pieces()))
    port = PeerPort(
        HERE,
        KEY,
        {"data": partial(data.adopt, tls=tls), "stream": partial(streamed.adopt, tls=tls)},
    )
    splice = Splice(lambda: port.address, KEY, 8)
    try:
        async with beside(port.serve()):
            told = await asked(await splice.listen("data", HERE), client, "127.0.0.9")
            assert told.endswith(b"127.0.0.9 DNS:agent.example" if encrypted else b"127.0.0.9")
            answer = await asked(await splice.listen("stream", HERE), client)
            assert b"one " in answer
            assert b"two" in answer
            if encrypted:
                stranger = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
                refused = b""
                with suppress(ssl.SSLError, ConnectionError):
                    refused = await asked(await splice.listen("data", HERE), stranger)
                assert refused == b""
    finally:
        splice.close()
        port.close()
        await data.close()
        await streamed.close()
