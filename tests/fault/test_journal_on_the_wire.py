"""What a journal sends to its database: one round trip for an append, and no named statement.

A pooler may give each transaction another session. So each round trip has all that it needs.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from storage.journal.protocol import Stream
from tests.postgres_server import PostgresServer, member, row

pytestmark = pytest.mark.heavy
SOCKET: Final = ".s.PGSQL.5432"
APPENDS: Final = 10


class Wire:
    """Forwards connections to a server, and keeps what each client sends."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.sent: list[bytearray] = []
        self.serving: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, forth = await asyncio.open_unix_connection(self._server.directory / SOCKET)
        sent = bytearray()
        self.sent.append(sent)
        self.serving.add(asyncio.current_task())
        async with asyncio.TaskGroup() as both:
            both.create_task(_copied(answers, writer))
            both.create_task(_copied(reader, forth, sent))

    def messages(self) -> list[tuple[bytes, bytes]]:
        """The type and the contents of every message so far, of one client after the other."""
        return [message for one in self.sent for message in _messages(bytes(one))]


async def _copied(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None = None
) -> None:
    while piece := await source.read(65_536):
        if kept is not None:
            kept += piece
        sink.write(piece)
        await sink.drain()
    sink.close()
    with suppress(ConnectionError):
        await sink.wait_closed()


def _messages(sent: bytes) -> Iterator[tuple[bytes, bytes]]:
    # The first message has no type.
    at = int.from_bytes(sent[:4])
    while at < len(sent):
        end = at + 1 + int.from_bytes(sent[at + 1 : at + 5])
        yield sent[at : at + 1], sent[at + 5 : end]
        at = end


@asynccontextmanager
async def wire(server: PostgresServer) -> AsyncGenerator[tuple[Wire, str]]:
    """What is between, and the URL of the database through it."""
    with tempfile.TemporaryDirectory(prefix="wire-") as place:
        between = Wire(server)
        listening = await asyncio.start_unix_server(between.serve, Path(place) / SOCKET)
        async with listening:
            yield between, f"postgresql://pg@/postgres?host={place}"
            for one in between.serving:
                if one is not None:
                    await one


async def test_an_append_is_one_round_trip_with_a_statement_that_has_no_name(
    server: PostgresServer,
) -> None:
    async with wire(server) as (between, url):
        journal = await asyncio.to_thread(member, server, "wire", "one", 60.0, url=url)
        try:
            assert await asyncio.to_thread(journal.acquire)
            await asyncio.to_thread(journal.append, Stream.STORE, row(1, b"first"))
            before = len(between.messages())
            for seq in range(2, 2 + APPENDS):
                await asyncio.to_thread(journal.append, Stream.STORE, row(seq, b"body"))
            messages = between.messages()
        finally:
            await asyncio.to_thread(journal.close)
    # Parse, Bind, Execute, Sync: the server answers after the last.
    assert b"".join(kind for kind, _ in messages[before:]) == b"PBES" * APPENDS
    # The name of a statement comes first, and ends with a zero byte.
    parsed = [contents for kind, contents in messages if kind == b"P"]
    assert len(parsed) > APPENDS
    assert all(contents.startswith(b"\0") for contents in parsed)
