"""Bodies of model APIs: what is read can be written, and reads back as the same."""

from __future__ import annotations

import pytest

from proxy.dialects.model.body import read_body, write_body


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
