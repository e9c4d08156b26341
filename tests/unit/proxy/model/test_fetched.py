"""A line that others may read as a reply, and nobody here can, does not go on."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.model.coupling import UnsafeUncoupled
from proxy.model.fetched import Fetched
from proxy.upstream import UpstreamError

REPLY = b'{"type": "message", "content": [{"type": "tool_use", "name": "save"}], "n": %s}'


def fetched() -> Fetched:
    nobody: Any = None
    return Fetched(UnsafeUncoupled(), nobody, nobody)


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n'])
async def test_a_reply_that_only_lenient_readers_read_is_refused(before: bytes) -> None:
    with pytest.raises(UpstreamError, match="not JSON"):
        await fetched().edited(before + REPLY % b"NaN")


@pytest.mark.parametrize(
    "raw",
    [
        b"def tool_use():\n    return {}\n",
        b'{"a": NaN}\n',
        b'{"type": "message", "content": "tool_use"}\n',
    ],
)
async def test_what_is_no_reply_passes(raw: bytes) -> None:
    assert await fetched().edited(raw) == raw
