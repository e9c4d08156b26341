"""Bodies of model APIs: what is read can be written, and reads back as the same."""

from __future__ import annotations

import pytest

from proxy.dialects.strict_json.tolerant import DEPTH_MAX, read_body, write_body
from proxy.seams.faults import MalformedRequest


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1e9990}',
        b'{"a":-1e9990,"b":"\\ud800"}',
        b'{"\\ud800":{"c":1e9990}}',
        b'{"a":184467440737095516160}',
    ],
)
def test_numbers_that_no_double_holds_are_written_as_json(raw: bytes) -> None:
    written = write_body(read_body(raw))
    assert read_body(written) == read_body(raw)
    assert write_body(read_body(written)) == written


@pytest.mark.parametrize("deep", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [DEPTH_MAX, 600, 100_000])
def test_what_is_nested_too_deeply_to_be_walked_is_not_read(deep: bytes, depth: int) -> None:
    close = b"]" if deep == b"[" else b"}"
    inside = b"1"

    def body(levels: int) -> bytes:
        return b'{"x":' + deep * levels + inside + close * levels + b"}"

    with pytest.raises(MalformedRequest, match=r"not JSON|nested too deeply"):
        read_body(body(depth))
    assert read_body(body(DEPTH_MAX - 2))
    wide = b'{"x":[' + b",".join([b"[1]"] * depth) + b"]}"
    assert read_body(wide), "many beside each other are not deep"
