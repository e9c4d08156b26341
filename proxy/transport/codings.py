"""Opens compressed bodies, within limits on their size, their ratio and the number of their parts.

A body is opened in small slices, so that a small body cannot fill memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import brotli  # pyright: ignore[reportMissingTypeStubs] - it has none
import zstandard

from proxy.seams.faults import MalformedRequest

# A request's body may become this large, whatever its ratio.
FREE_BYTES: Final = 1024 * 1024
# The most bytes that a larger body of a request may become, per byte that was received.
RATIO_MAX: Final = 200
CODINGS_MAX: Final = 2
# Four bytes of zstd can describe 128 KiB, so a slice becomes 8 MiB at most.
_SLICE_BYTES: Final = 256
# Each part (a member of gzip, a frame of zstd) costs time, even one without content.
_PARTS_MAX: Final = 1_024


class _Brotli:
    """A decompressor of brotli, which has the form of one of zlib."""

    unused_data: Final = b""  # for brotli, a byte after the end is an error

    def __init__(self) -> None:
        self._stream: Any = brotli.Decompressor()  # pyright: ignore[reportUnknownMemberType]

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    def decompress(self, data: bytes, /) -> bytes:
        # A few bytes of brotli can describe any size.
        content = bytes(self._stream.process(data, output_buffer_limit=16 * 1024 * 1024))
        if not self._stream.can_accept_more_data():
            raise MalformedRequest("body: too large", status=413)
        return content


_Part: TypeAlias = "zlib._Decompress | zstandard.ZstdDecompressionObj | _Brotli"  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
# The decompressor of each coding, and how many parts a body may have.
_CODINGS: Final[dict[str, tuple[Callable[[], _Part], int]]] = {
    "gzip": (lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), _PARTS_MAX),
    "x-gzip": (lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), _PARTS_MAX),
    "deflate": (zlib.decompressobj, 1),
    "br": (_Brotli, 1),
    # The largest window that zstd may have in HTTP (RFC 9659) is 8 MiB.
    "zstd": (
        lambda: zstandard.ZstdDecompressor(max_window_size=8 * 1024 * 1024).decompressobj(),
        _PARTS_MAX,
    ),
}


def codings_of(header: str) -> tuple[str, ...]:
    """The codings that a `Content-Encoding` names, in the order in which they are undone.

    Raises:
        MalformedRequest: 415: a coding is not known, or there are too many.
    """
    named = map(str.strip, reversed(header.lower().split(",")))
    codings = tuple(one for one in named if one not in {"", "identity"})
    if len(codings) > CODINGS_MAX or not _CODINGS.keys() >= set(codings):
        raise MalformedRequest(
            "content-encoding: at most two of gzip, deflate, br and zstd are read", status=415
        )
    return codings


def plain_body(body: bytes, codings: tuple[str, ...], bytes_max: int) -> bytes:
    """The content of a request's compressed body, of at most `bytes_max` bytes.

    Raises:
        MalformedRequest: 400: the body is not so coded, or not whole; 413: it is too large.
    """
    for coding in codings:
        opener = Opener(coding, min(bytes_max, max(FREE_BYTES, RATIO_MAX * len(body))))
        body = opener.feed(body)
        opener.finish()
    return body


class Opener:
    """Decompresses one coding of a body while it arrives. A body without a byte has no content."""

    def __init__(self, coding: str, bytes_max: int) -> None:
        """`coding` is one that `codings_of` returned; the content has at most `bytes_max` bytes."""
        self._make, self._parts_left = _CODINGS[coding]
        self._part: _Part | None = None
        self._left = bytes_max

    def feed(self, piece: bytes) -> bytes:
        """Decompress the next bytes; return their content.

        Raises:
            MalformedRequest: The bytes are not so coded, or the content is too large.
        """
        contents: list[bytes] = []
        for at in range(0, len(piece), _SLICE_BYTES):
            data = piece[at : at + _SLICE_BYTES]
            while data:
                if self._part is None or self._part.eof:
                    if not self._parts_left:
                        raise MalformedRequest(
                            "body: more follows its end, or too many parts", status=400
                        )
                    self._parts_left -= 1
                    self._part = self._make()
                try:
                    contents.append(self._part.decompress(data))
                except (zlib.error, brotli.error, zstandard.ZstdError):  # pyright: ignore[reportUnknownMemberType]
                    raise MalformedRequest(
                        "body: cannot be opened as its content-encoding", status=400
                    ) from None
                self._left -= len(contents[-1])
                if self._left < 0:
                    raise MalformedRequest("body: too large", status=413)
                data = self._part.unused_data
        return b"".join(contents)

    def finish(self) -> None:
        """Check that the content has ended.

        Raises:
            MalformedRequest: The last part is not whole.
        """
        if self._part is not None and not self._part.eof:
            raise MalformedRequest("body: not whole in its content-encoding", status=400)
