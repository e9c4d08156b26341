"""The transport that aiohttp writes to: an answer of ours passes, its own words do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Speaks(Protocol):
    """The connection behind a transport."""

    @property
    def speaking(self) -> bool:
        """Whether what is written now is an answer of ours."""
        ...

    def refuse_malformed(self) -> None:
        """Answer what aiohttp could not parse."""
        ...

    def pause(self) -> None:
        """Bring no more of the body for now."""
        ...

    def resume(self) -> None:
        """Bring more of it."""
        ...


class Spoken(asyncio.Transport):
    """Passes to a socket what a connection says itself. Event loop only.

    What aiohttp writes between two answers is its own: the error of a request that it could not
    parse, with the bytes that it stumbled over. The connection says something else instead.
    """

    def __init__(self, real: asyncio.Transport, connection: Speaks) -> None:
        """`real` is the transport of the socket."""
        super().__init__()
        self._real = real
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass it on, or say that it was no request."""
        if self._connection.speaking:
            self._real.write(data)
        elif not self._real.is_closing():
            self._connection.refuse_malformed()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """The same for several pieces."""
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        """As the socket's."""
        return self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closing."""
        return self._real.is_closing()

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._real.is_reading()

    def pause_reading(self) -> None:
        """Stop bringing bytes of the body."""
        self._connection.pause()

    def resume_reading(self) -> None:
        """Bring them again."""
        self._connection.resume()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the peer."""
        return self._real.get_write_buffer_size()

    def close(self) -> None:
        """Close behind what is written."""
        self._real.close()

    def abort(self) -> None:
        """Close now."""
        self._real.abort()
