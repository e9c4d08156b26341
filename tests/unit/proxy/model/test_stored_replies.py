"""A line that others may read as a reply, and nobody here can, does not go on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.model.memory_seam import UnsafeUncoupled
from proxy.model.stored_replies import StoredReplyEditor
from proxy.seams.faults import UpstreamError

REPLY = b'{"type": "message", "content": [{"type": "tool_use", "name": "save"}], "n": %s}'


def fetched() -> StoredReplyEditor:
    nobody: Any = None
    return StoredReplyEditor(UnsafeUncoupled(), nobody, nobody)


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


FINE = b'{"type": "message", "content": [{"type": "text", "text": "tool_use"}], "n": 1}'


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(json.loads(REPLY % b"1"), indent=1).encode().replace(b": 1", b": NaN"),
        (REPLY % b"1").decode().encode("utf-16"),
        (REPLY % b"1").decode().encode("utf-32-be"),
        b"\xef\xbb\xbf" + REPLY % b"1",
        b"{ " + (REPLY % b"NaN")[1:],
        b"x\xe2\x80\xa8" + REPLY % b"1",
    ],
)
async def test_a_reply_in_any_spelling_that_others_read_is_refused(raw: bytes) -> None:
    with pytest.raises(UpstreamError, match="not JSON"):
        await fetched().edited(raw)


async def test_a_reply_is_the_same_to_who_reads_the_first_of_two_keys() -> None:
    twice = (REPLY % b"1")[:-1] + b', "content": []}'
    assert b"save" not in await fetched().edited(twice)
    named = (REPLY % b"1").replace(b'"content"', b'"Content"')
    assert b"save" not in await fetched().edited(named)
    assert await fetched().edited(FINE) == FINE, "control"
