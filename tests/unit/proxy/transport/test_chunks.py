"""Where a body of chunks ends, however it is cut on its way."""

from __future__ import annotations

import pytest

from proxy.transport.chunks import LINE_BYTES_MAX, Chunks, Unframed

WHOLE = b"4;a=b\r\nwxyz\r\n00A\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000])
def test_it_ends_at_its_last_byte_however_it_comes(step: int) -> None:
    chunks, taken = Chunks(), 0
    data = WHOLE + b"GET / HTTP/1.1\r\n"
    while not chunks.ended:
        taken += chunks.through(data[taken : taken + step])
    assert taken == len(WHOLE)
    assert chunks.through(b"more") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"4\nwxyz",
        b"-4\r\n",
        b"0x4\r\n",
        b"4 \r\n",
        b" 4\r\n",
        b"0_4\r\n",
        b"1000000000000000\r\n",
        b"4;a\0\r\n",
        b"4;a\nb\r\n",
        b"4\r\nwxyzv\r\n",
        b"4\r\nwxyz\n",
        b"0\r\nContent-Length: 1\r\n",
        b"0\r\nno colon\r\n",
        b"0\r\n folded: 1\r\n",
        b"0\r\nX: 1\r\n",
        b"0\r\nAuthorization: Bearer somebody\r\n\r\n",
        b"4; a\r\n",
        b"4;;\r\n",
        b"4;\t\r\n",
        b'4;a="b\r\n',
        b"4;a=\x80\r\n",
        b"4;" + b"a" * LINE_BYTES_MAX,
    ],
)
def test_what_another_reader_could_cut_elsewhere_is_refused(data: bytes) -> None:
    with pytest.raises(Unframed):
        Chunks().through(data)


def test_what_is_long_and_not_too_long_is_taken() -> None:
    data = b"1;" + b"a" * (LINE_BYTES_MAX - 3) + b"\r\nx\r\n0\r\n"
    chunks = Chunks()
    assert chunks.through(data + b"\r\n") == len(data) + 2
    assert chunks.ended
