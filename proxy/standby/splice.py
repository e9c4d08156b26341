"""Connects each client of a standby to the holder, and forwards their bytes unread.

TLS, certificates and credentials are those of client and holder. The holder's limits and deadlines
apply: when the holder closes a connection, the client's is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final

from proxy.settings.values import Address
from proxy.standby.announcement import Announcement

_DIAL_S: Final = 2.0
_CHUNK_LEN: Final = 64 * 1024


class Splice:
    """The listeners of a standby. Event loop only."""

    def __init__(
        self, holder: Callable[[], Address | None], key: bytes, connections_max: int
    ) -> None:
        """`holder` is asked for each connection; None: there is no holder, and it is closed."""
        self._holder = holder
        self._key = key
        self._connections_max = connections_max
        self._open: set[asyncio.StreamWriter] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self, listener: str, address: Address) -> Address:
        """Accept connections for a listener of the holder; return the address with its port.

        Raises:
            OSError: The address cannot be bound.
        """
        server = await asyncio.start_server(
            partial(self._serve, listener), address.host, address.port
        )
        self._servers.append(server)
        return Address(host=address.host, port=server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Close the listeners and all connections."""
        for server in self._servers:
            server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _serve(
        self, listener: str, client: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        holder = self._holder()
        self._open.add(back)
        try:
            if holder is not None and len(self._open) <= self._connections_max:
                # A connection that cannot be made or breaks is closed: the client sees that.
                with contextlib.suppress(OSError):
                    await self._spliced(listener, holder, client, back)
        finally:
            self._open.discard(back)
            back.close()

    async def _spliced(
        self,
        listener: str,
        holder: Address,
        client: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        async with asyncio.timeout(_DIAL_S):
            answers, forth = await asyncio.open_connection(holder.host, holder.port)
        try:
            address = str(back.get_extra_info("peername")[0])
            forth.write(Announcement(address=address, listener=listener).encode(self._key))
            async with asyncio.TaskGroup() as group:
                requests = group.create_task(_forward(client, forth))
                await _forward(answers, back)
                # The holder has closed: what the client still sends is of no use.
                requests.cancel()
        finally:
            forth.close()


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Forward bytes until the source ends, then end the sink; a broken sink ends it too."""
    with contextlib.suppress(OSError):
        while some := await source.read(_CHUNK_LEN):
            sink.write(some)
            await sink.drain()
        sink.write_eof()
