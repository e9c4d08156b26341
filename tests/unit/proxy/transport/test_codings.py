"""A compressed body is opened to what was packed, or refused, in bounded memory."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any, Final

import brotli  # pyright: ignore[reportMissingTypeStubs]
import pytest
import zstandard

from proxy.seams.faults import MalformedRequest
from proxy.transport.codings import FREE_BYTES, RATIO_MAX, Opener, codings_of, plain_body

MAX: Final = 32 * 1024 * 1024
PLAIN: Final = b'{"text": "' + bytes(range(0x20, 0x7F)) * 40 + b'"}'


def brotlied(data: bytes) -> bytes:
    library: Any = brotli
    packed: bytes = library.compress(data, quality=5)
    return packed


def zstandard_of(data: bytes) -> bytes:
    """As Codex packs a body: one frame, whose size is not in its head."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return packer.compress(data) + packer.flush()


PACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotlied,
    "zstd": zstandard_of,
}
SOME: Final = random.Random(0).randbytes(60_000)  # noqa: S311
IN_PARTS: Final = ("gzip", "x-gzip", "zstd")
OPENED: Final = 120_000_000
# RFC 8878, section 3.1.2: any reader skips it.
SKIPPED: Final = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"abcd"


def status_of(body: bytes, coding: str, bytes_max: int = MAX) -> int:
    """The status that refuses a body; 200 where it is opened."""
    try:
        plain_body(body, codings_of(coding), bytes_max)
    except MalformedRequest as refused:
        return refused.status
    return 200


@pytest.mark.parametrize("coding", PACKED)
def test_what_was_packed_comes_out_however_it_arrives(coding: str) -> None:
    rng = random.Random(coding)  # noqa: S311
    for size in (0, 1, 255, 256, 257, 70_000, 3_000_000):
        plain = rng.randbytes(size)
        packed = PACKED[coding](plain)
        assert plain_body(packed, codings_of(coding), MAX) == plain
        opener, at, got = Opener(coding, MAX), 0, b""
        while at < len(packed):
            step = rng.randrange(1, 40_000)
            got += opener.feed(packed[at : at + step])
            at += step
        opener.finish()
        assert got == plain


def test_a_chain_is_undone_from_its_end() -> None:
    chain = zstandard_of(gzip.compress(PLAIN))
    assert plain_body(chain, codings_of("gzip, identity , ZSTD"), MAX) == PLAIN
    assert status_of(chain, "zstd, gzip") == 400


def test_nothing_is_no_content_and_no_coding_leaves_the_body() -> None:
    for coding in PACKED:
        assert plain_body(b"", codings_of(coding), MAX) == b""
    for header in ("", "identity", "Identity", " , "):
        assert codings_of(header) == ()


@pytest.mark.parametrize(
    "header",
    [
        "compress",
        "lz4",
        "gzip;q=1",
        "gzip, aws-chunked",
        "gzip,gzip,gzip",
        "zstd gzip",
        "*",
        "\u017f",
    ],
)
def test_an_unknown_coding_or_a_long_chain_is_415(header: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        codings_of(header)
    assert refused.value.status == 415


@pytest.mark.parametrize("coding", PACKED)
def test_a_body_that_ends_early_or_late_is_400(coding: str) -> None:
    packed = PACKED[coding](PLAIN)
    assert status_of(packed, coding) == 200, "control"
    for end in range(1, len(packed)):
        assert status_of(packed[:end], coding) == 400, end
    for more in (b"\0", b"x", b"}" * 300, packed[:5]):
        assert status_of(packed + more, coding) == 400, more
    # Where the first part ends with a slice, too.
    for length in range(600):
        packed = PACKED[coding](SOME[:length])
        if len(packed) % 256 == 0:
            assert status_of(packed, coding) == 200
            assert status_of(packed + b"\x06", coding) == 400


@pytest.mark.parametrize("coding", PACKED)
def test_parts_are_read_one_after_the_other_where_the_coding_has_them(coding: str) -> None:
    pack = PACKED[coding]
    twice = pack(PLAIN) + pack(b"more")
    if coding not in IN_PARTS:
        assert status_of(twice, coding) == 400
        return
    assert plain_body(twice, codings_of(coding), MAX) == PLAIN + b"more"
    assert status_of(twice[:-1], coding) == 400
    assert status_of(pack(b"") * 1_024, coding) == 200
    assert status_of(pack(b"") * 1_025, coding) == 400


def test_frames_that_are_skipped_bring_nothing() -> None:
    packed = SKIPPED + zstandard_of(PLAIN) + SKIPPED
    assert plain_body(packed, ("zstd",), MAX) == PLAIN
    assert status_of(packed[:-1], "zstd") == 400


def test_a_frame_that_needs_a_large_window_or_a_dictionary_is_400() -> None:
    for log, status in ((23, 200), (24, 400), (27, 400)):
        wide = zstandard.ZstdCompressionParameters(window_log=log)
        packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
        assert status_of(packer.compress(PLAIN) + packer.flush(), "zstd") == status
    words = zstandard.ZstdCompressionDict(PLAIN, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    trained = zstandard.train_dictionary(4_096, [PLAIN + bytes([n]) * n for n in range(200)])
    for one, status in ((trained, 400), (words, 400)):
        packed = zstandard.ZstdCompressor(dict_data=one).compress(PLAIN)
        assert status_of(packed, "zstd") == status


@pytest.mark.parametrize("coding", PACKED)
def test_the_limit_of_the_plain_body_counts(coding: str) -> None:
    packed = PACKED[coding](PLAIN)
    assert status_of(packed, coding, len(PLAIN)) == 200
    assert status_of(packed, coding, len(PLAIN) - 1) == 413


@pytest.mark.parametrize("coding", PACKED)
def test_a_large_body_has_sent_a_part_of_what_it_becomes(coding: str) -> None:
    assert status_of(PACKED[coding](bytes(FREE_BYTES)), coding) == 200
    packed = PACKED[coding](bytes(FREE_BYTES + 1))
    assert len(packed) * RATIO_MAX < FREE_BYTES
    assert status_of(packed, coding) == 413
    mixed = SOME + bytes(10_000_000)
    assert status_of(PACKED[coding](mixed), coding) == 200


@pytest.mark.parametrize("coding", PACKED)
def test_a_bomb_costs_bounded_memory(coding: str) -> None:
    bomb = PACKED[coding](bytes(OPENED))
    assert len(bomb) < OPENED / 900
    twice = PACKED["gzip"](bomb)
    tracemalloc.start()
    try:
        assert status_of(bomb, coding) == 413
        assert status_of(twice, f"{coding}, gzip") == 413
        # The answers of servers have no ratio, and are read within their own limit.
        with pytest.raises(MalformedRequest, match="too large"):
            Opener(coding, MAX).feed(bomb)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        if coding in {"gzip", "deflate"}:
            zlib.decompress(bomb, 47)
            assert tracemalloc.get_traced_memory()[1] > OPENED, "control"
    finally:
        tracemalloc.stop()
    assert peak < 3 * MAX


@pytest.mark.parametrize("coding", PACKED)
def test_random_bytes_are_opened_or_refused(coding: str) -> None:
    rng = random.Random(coding)  # noqa: S311
    seen: set[int] = set()
    for at in range(3_000):
        packed = bytearray(PACKED[coding](rng.randbytes(rng.randrange(200))))
        for _ in range(at % 4):
            packed[rng.randrange(len(packed))] = rng.randrange(256)
        body = bytes(packed) if at % 5 else rng.randbytes(rng.randrange(1, 400))
        seen.add(status_of(body, coding))
    assert seen <= {200, 400, 413}
    assert {200, 400} <= seen
