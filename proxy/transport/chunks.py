"""Where a body of chunks ends (RFC 9112, 7.1), read more strictly than the RFC asks of a reader.

aiohttp reads the chunks. This reads their framing alone, so that it is bounded, what is behind the
body is known, and a body that breaks is refused at once: aiohttp tells nobody who waits for it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

TRAILERS_MAX: Final = 16
LINE_BYTES_MAX: Final = 4_096
"""Of a chunk's size with its extensions, or of one trailer."""
_SIZE: Final = re.compile(rb"0*([0-9a-fA-F]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"host"})


class Unframed(Exception):  # noqa: N818 - what they are
    """These are no chunks."""


class _Expects(Enum):
    SIZE = "the size of a chunk"
    DATA = "what is in it"
    BREAK = "the line break behind it"
    TRAILER = "a trailer, or the empty line at the end"
    NOTHING = "the body has ended"


class Chunks:
    """The framing of one body, as it comes."""

    __slots__ = ("_expects", "_left", "_line", "_trailers")

    def __init__(self) -> None:
        self._expects = _Expects.SIZE
        self._left = 0
        self._line = b""
        self._trailers = 0

    @property
    def ended(self) -> bool:
        """Whether its last byte was there."""
        return self._expects is _Expects.NOTHING

    def through(self, data: bytes) -> int:
        """How many of these bytes are the body's: all, as long as it has not ended.

        Raises:
            Unframed: No reader should take them.
        """
        at = 0
        while at < len(data) and not self.ended:
            if self._expects is _Expects.DATA:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                if not self._left:
                    self._expects = _Expects.BREAK
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line += data[at:]
                at = len(data)
            else:
                self._line += data[at:end]
                at = end + 1
            most = 1 if self._expects is _Expects.BREAK else LINE_BYTES_MAX
            if len(self._line) > most:
                raise Unframed
            if end >= 0:
                line, self._line = self._line, b""
                self._take(line)
        return at

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\r"):
            raise Unframed
        line = line[:-1]
        if self._expects is _Expects.BREAK:
            self._expects = _Expects.SIZE
        elif self._expects is _Expects.SIZE:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise Unframed
            self._left = int(found[1], 16)
            self._expects = _Expects.DATA if self._left else _Expects.TRAILER
        elif not line:
            self._expects = _Expects.NOTHING
        else:
            found = _TRAILER.fullmatch(line)
            self._trailers += 1
            if found is None or found[1].lower() in _FRAMING or self._trailers > TRAILERS_MAX:
                raise Unframed
