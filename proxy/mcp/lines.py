"""Splits a byte stream, which arrives in chunks, into lines of bounded length."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from proxy.dialects.mcp.message import LINE_BYTES_MAX, RequestId, TopLevelId


class TooLong(msgspec.Struct, frozen=True, kw_only=True):
    """An overlong line that was dropped, with its JSON-RPC id if it has one."""

    request_id: RequestId | None


class Lines:
    """Splits a byte stream at line feeds only.

    Holds at most one unfinished line. Of an overlong line nothing but its id is held.
    """

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._finder: TopLevelId | None = None

    def feed(self, piece: bytes) -> Iterator[bytes | TooLong]:
        """Add the next chunk of the stream; return the lines that end in it, but no blank ones."""
        at = 0
        while (end := piece.find(b"\n", at)) >= 0:
            self._hold(piece[at:end])
            at = end + 1
            line = self._line()
            if line is not None:
                yield line
        self._hold(piece[at:])

    def end(self) -> Iterator[bytes | TooLong]:
        """Return the rest after the last line feed, which counts as a line."""
        line = self._line()
        if line is not None:
            yield line

    def _hold(self, piece: bytes) -> None:
        if self._finder is None and len(self._held) + len(piece) <= self._bytes_max:
            self._held += piece
            return
        if self._finder is None:
            self._finder = TopLevelId()
            self._finder.feed(bytes(self._held))
            self._held = bytearray()
        self._finder.feed(piece)

    def _line(self) -> bytes | TooLong | None:
        if self._finder is not None:
            found = TooLong(request_id=self._finder.found())
            self._finder = None
            return found
        line = bytes(self._held)
        self._held = bytearray()
        return None if line.isspace() or not line else line
