"""Accepts the connections that standbys announce, and hands each to the listener that it is for."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from proxy.settings.values import Address
from proxy.standby.announcement import (
    HEAD_LEN,
    Announcement,
    BadAnnouncement,
    announced,
    length_of,
)

Adopt: TypeAlias = Callable[[socket.socket, str], Awaitable[None]]
"""Serves an accepted connection of the client with an address."""

_LOG: Final = logging.getLogger("mnemogate.peers")
_HEADER_S: Final = 5.0
_UNANNOUNCED_MAX: Final = 128


class PeerPort:
    """The port of a holder to which only members of its shard connect. Event loop only."""

    def __init__(self, address: Address, key: bytes, listeners: Mapping[str, Adopt]) -> None:
        """Bind the port.

        Raises:
            OSError: The address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._listening = socket.create_server((address.host, address.port), family=family)
        self._listening.settimeout(0)
        self.address = Address(host=address.host, port=self._listening.getsockname()[1])
        self._key = key
        self._listeners = listeners
        self._unannounced = asyncio.Semaphore(_UNANNOUNCED_MAX)

    async def serve(self) -> None:
        """Accept connections until this is cancelled.

        Raises:
            OSError: The process has no free handle now.
        """
        async with asyncio.TaskGroup() as group:
            while True:
                accepted, _ = await asyncio.get_running_loop().sock_accept(self._listening)
                await self._unannounced.acquire()
                group.create_task(self._admit(accepted))

    def close(self) -> None:
        """Close the port; connections that listeners have adopted are theirs."""
        self._listening.close()

    async def _admit(self, accepted: socket.socket) -> None:
        try:
            try:
                client = await self._announced(accepted)
            finally:
                self._unannounced.release()
            await self._listeners[client.listener](accepted, client.address)
        except OSError:
            # A standby that only looks whether the holder is there sends nothing.
            accepted.close()
        except (BadAnnouncement, KeyError) as error:
            accepted.close()
            _LOG.warning(
                "a connection to the peers' port was refused", extra={"fields": {"why": str(error)}}
            )

    async def _announced(self, accepted: socket.socket) -> Announcement:
        async with asyncio.timeout(_HEADER_S):
            head = await _exactly(accepted, HEAD_LEN)
            return announced(head + await _exactly(accepted, length_of(head)), self._key)


async def _exactly(accepted: socket.socket, length: int) -> bytes:
    """So many bytes, and none of what follows them, which may begin a TLS handshake."""
    loop, read = asyncio.get_running_loop(), b""
    while len(read) < length:
        some = await loop.sock_recv(accepted, length - len(read))
        if not some:
            raise ConnectionResetError
        read += some
    return read
