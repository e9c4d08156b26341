"""Finds the end of a chunked body (RFC 9112, 7.1), more strictly than the RFC demands.

aiohttp decodes the chunks. This module reads only their framing: to bound it, to find where the
body ends, and to refuse a broken body at once, which aiohttp does not report to a waiting reader.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

LINE_BYTES_MAX: Final = 4_096
"""Of a chunk's size with its extensions."""
# The form of chunk extensions that aiohttp's parser accepts. It would drop any other without an
# error, so any other is refused.
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SIZE: Final = re.compile(rb"0*([0-9a-fA-F]{1,15})(?:;" + _TOKEN + rb"(?:=" + _TOKEN + rb")?)*")


class BadChunks(Exception):  # noqa: N818 - what they are
    """The bytes are no valid chunked body."""


class _Expects(Enum):
    SIZE = "the size of a chunk"
    DATA = "what is in it"
    BREAK = "the line break behind it"
    END = "the empty line at the end"
    NOTHING = "the body has ended"


class Chunks:
    """The framing of one body, read as it arrives.

    Trailers are refused: no front reads them, and aiohttp's parser carries the last one into the
    next request's head, credentials included.
    """

    __slots__ = ("_expects", "_left", "_line")

    def __init__(self) -> None:
        self._expects = _Expects.SIZE
        self._left = 0
        self._line = b""

    @property
    def ended(self) -> bool:
        """Whether the end of the body was read."""
        return self._expects is _Expects.NOTHING

    def through(self, data: bytes) -> int:
        """How many of the bytes belong to the body: all of them, until the body has ended.

        Raises:
            Unframed: The bytes are no valid chunked body.
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
                raise BadChunks
            if end >= 0:
                line, self._line = self._line, b""
                self._take(line)
        return at

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\r"):
            raise BadChunks
        line = line[:-1]
        if self._expects is _Expects.BREAK:
            self._expects = _Expects.SIZE
        elif self._expects is _Expects.SIZE:
            found = _SIZE.fullmatch(line)
            if found is None:
                raise BadChunks
            self._left = int(found[1], 16)
            self._expects = _Expects.DATA if self._left else _Expects.END
        elif line:
            raise BadChunks
        else:
            self._expects = _Expects.NOTHING
