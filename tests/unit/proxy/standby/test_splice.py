"""A standby forwards bytes as they are, and the holder knows whose they are by a key alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from proxy.seams.waits import beside
from proxy.settings.values import Address
from proxy.standby.announcement import (
    HEAD_LEN,
    Announcement,
    BadAnnouncement,
    announced,
    length_of,
)
from proxy.standby.peer_port import PeerPort
from proxy.standby.splice import Splice

KEY = b"k" * 32
HERE = Address(host="127.0.0.1", port=0)
PATIENCE_S = 30


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "::1"])
def test_a_header_names_client_and_listener(address: str) -> None:
    said = Announcement(address=address, listener="admin")
    header = said.encode(KEY)
    assert len(header) == HEAD_LEN + length_of(header[:HEAD_LEN])
    assert announced(header, KEY) == said


def test_a_header_with_one_other_bit_or_under_another_key_is_refused() -> None:
    header = Announcement(address="192.0.2.7", listener="data").encode(KEY)
    with pytest.raises(BadAnnouncement):
        announced(header, b"x" * 32)
    for bit in range(len(header) * 8):
        changed = bytearray(header)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadAnnouncement):
            announced(bytes(changed), KEY)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01" + bytes(13), bytes(16)])
def test_what_is_no_header_is_refused_by_its_first_bytes(head: bytes) -> None:
    with pytest.raises(BadAnnouncement):
        length_of(head)


class Holder(msgspec.Struct):
    """A holder that sends back what it gets, reversed; and the clients that were announced."""

    clients: list[str] = []
    address: Address | None = None


async def _echo(holder: Holder, accepted: socket.socket, address: str) -> None:
    holder.clients.append(address)
    reader, writer = await asyncio.open_connection(sock=accepted)
    # Until the client has said all: a half-closed connection is forwarded as such.
    writer.write((await reader.read())[::-1])
    await writer.drain()
    writer.close()


@asynccontextmanager
async def spliced(key: bytes = KEY) -> AsyncGenerator[tuple[Holder, Address]]:
    """A holder, and the address of a standby that has `key`."""
    holder = Holder()

    async def adopt(accepted: socket.socket, address: str) -> None:
        await _echo(holder, accepted, address)

    port = PeerPort(HERE, KEY, {"data": adopt})
    holder.address = port.address
    splice = Splice(lambda: holder.address, key, 8)
    try:
        listening = await splice.listen("data", HERE)
        async with beside(port.serve()):
            yield holder, listening
    finally:
        splice.close()
        port.close()


async def _answer(to: Address, said: bytes, client: str = "127.0.0.1") -> bytes:
    """What comes back until the connection is closed."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(to.host, to.port, local_addr=(client, 0))
        writer.write(said)
        writer.write_eof()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def test_bytes_are_forwarded_as_they_are_and_the_client_is_named() -> None:
    said = bytes(range(256)) * 4_096
    async with spliced() as (holder, standby):
        assert await _answer(standby, said, "127.0.0.9") == said[::-1]
        assert await _answer(standby, b"") == b""
        assert holder.clients == ["127.0.0.9", "127.0.0.1"]


async def test_who_has_not_the_key_of_the_members_is_not_served() -> None:
    header = Announcement(address="192.0.2.7", listener="data").encode(KEY)
    other = Announcement(address="192.0.2.7", listener="guard").encode(KEY)
    async with spliced() as (holder, _):
        assert holder.address is not None
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"x" * HEAD_LEN, header[:-1], other):
            assert await _answer(holder.address, said) == b""
        assert holder.clients == []
        # Control: with the whole header it is.
        assert await _answer(holder.address, header + b"hello") == b"olleh"
    async with spliced(b"x" * 32) as (holder, standby):
        assert await _answer(standby, b"hello") == b""
        assert holder.clients == []


async def test_without_a_holder_or_with_one_that_is_gone_the_connection_is_closed() -> None:
    async with spliced() as (holder, standby):
        present, holder.address = holder.address, None
        assert await _answer(standby, b"hello") == b""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            holder.address = Address(host="127.0.0.1", port=closed.getsockname()[1])
        assert await _answer(standby, b"hello") == b""
        holder.address = present
        assert await _answer(standby, b"hello") == b"olleh"
