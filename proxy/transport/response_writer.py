"""A transport for aiohttp that passes the fronts' answers, and replaces aiohttp's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol


class ResponseConnection(Protocol):
    """What `ResponseWriter` needs of the connection that it writes to."""

    @property
    def speaking(self) -> bool:
        """Whether what aiohttp writes now is an answer of a front, not its own error."""
        ...

    def refuse_malformed(self) -> None:
        """Answer a request that aiohttp could not parse."""
        ...

    def pause(self) -> None:
        """Stop handing bytes of the body to aiohttp for now, because it cannot take more."""
        ...

    def resume(self) -> None:
        """Hand bytes of the body to aiohttp again."""
        ...


class ResponseWriter(asyncio.Transport):
    """Passes the answers of fronts to the socket. Event loop only.

    Bytes that aiohttp writes between two answers are its error for an unparsable request, which
    quotes it. The connection writes a fixed answer instead.
    """

    def __init__(self, real: asyncio.Transport, connection: ResponseConnection) -> None:
        """`real` is the transport of the socket."""
        super().__init__()
        self._real = real
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass an answer's bytes to the socket, or refuse what aiohttp took for no request."""
        if self._connection.speaking:
            self._real.write(data)
        elif not self._real.is_closing():
            self._connection.refuse_malformed()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write several pieces as `write` writes one."""
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        """What the socket's transport knows under this name."""
        return self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closing."""
        return self._real.is_closing()

    def is_reading(self) -> bool:
        """Whether bytes are being read from the socket."""
        return self._real.is_reading()

    def pause_reading(self) -> None:
        """Stop handing bytes of the body to aiohttp, because it cannot take more now."""
        self._connection.pause()

    def resume_reading(self) -> None:
        """Hand bytes of the body to aiohttp again."""
        self._connection.resume()

    def get_write_buffer_size(self) -> int:
        """Bytes that the peer has not read."""
        return self._real.get_write_buffer_size()

    def close(self) -> None:
        """Close the socket after what is already written."""
        self._real.close()

    def abort(self) -> None:
        """Close the socket at once."""
        self._real.abort()
