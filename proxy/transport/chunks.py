"""Where a body of chunks ends (RFC 9112, 7.1), read more strictly than the RFC asks of a reader.

aiohttp reads the chunks. This reads their framing alone, so that it is bounded, what is behind the
body is known, and a body that breaks is refused at once: aiohttp tells nobody who waits for it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

LINE_BYTES_MAX: Final = 4_096
"""Of a chunk's size with its extensions."""
# Extensions as aiohttp's parser takes them all; those that it does not, nobody would be told of.
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb"0*([0-9a-fA-F]{1,15})(?:;" + _TOKEN + rb"(?:=" + _TOKEN + rb")?)*")


class Unframed(Exception):  # noqa: N818 - what they are
    """These are no chunks."""


class _Expects(Enum):
    SIZE = "the size of a chunk"
    DATA = "what is in it"
    BREAK = "the line break behind it"
    END = "the empty line at the end"
    NOTHING = "the body has ended"


class Chunks:
    """The framing of one body, as it comes.

    Without trailers: no front reads one, and aiohttp's parser keeps the last of them for the head
    of the next request on the connection, a credential too.
    """

    __slots__ = ("_expects", "_left", "_line")

    def __init__(self) -> None:
        self._expects = _Expects.SIZE
        self._left = 0
        self._line = b""

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
            self._expects = _Expects.DATA if self._left else _Expects.END
        elif line:
            raise Unframed
        else:
            self._expects = _Expects.NOTHING
