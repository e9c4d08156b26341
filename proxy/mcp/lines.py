"""A byte stream as lines of bounded length, however it is cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from proxy.dialects.mcp.message import LINE_BYTES_MAX, RequestId, TopLevelId


class TooLong(msgspec.Struct, frozen=True, kw_only=True):
    """An overlong line that was dropped, with its id if that could be told."""

    request_id: RequestId | None


class Lines:
    """Splits at line feeds only.

    Keeps at most one unfinished line, and nothing of an overlong one.
    """

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._finder: TopLevelId | None = None

    def feed(self, piece: bytes) -> Iterator[bytes | TooLong]:
        """Take in the next piece; returns the lines that end in it, without blank ones."""
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
