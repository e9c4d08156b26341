"""A transport for aiohttp that passes our answers, and replaces aiohttp's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Speaks(Protocol):
    """The connection behind a transport."""

    @property
    def speaking(self) -> bool:
        """Whether the current write is an answer of ours."""
        ...

    def refuse_malformed(self) -> None:
        """Answer what aiohttp could not parse."""
        ...

    def pause(self) -> None:
        """Stop feeding the body for now."""
        ...

    def resume(self) -> None:
        """Go on feeding the body."""
        ...


class Spoken(asyncio.Transport):
    """Passes answers of ours to the socket. Event loop only.

    Bytes that aiohttp writes between two answers are its error for an unparsable request, which
    quotes it. The connection writes a fixed answer instead.
    """

    def __init__(self, real: asyncio.Transport, connection: Speaks) -> None:
        """`real` is the transport of the socket."""
        super().__init__()
        self._real = real
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass the bytes on, or answer that this was no request."""
        if self._connection.speaking:
            self._real.write(data)
        elif not self._real.is_closing():
            self._connection.refuse_malformed()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """The same for several pieces."""
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as inherited
        """As the socket's transport."""
        return self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the socket is closing."""
        return self._real.is_closing()

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._real.is_reading()

    def pause_reading(self) -> None:
        """Stop feeding the body."""
        self._connection.pause()

    def resume_reading(self) -> None:
        """Go on feeding it."""
        self._connection.resume()

    def get_write_buffer_size(self) -> int:
        """Bytes that the peer has not read."""
        return self._real.get_write_buffer_size()

    def close(self) -> None:
        """Close behind what is written."""
        self._real.close()

    def abort(self) -> None:
        """Close now."""
        self._real.abort()
