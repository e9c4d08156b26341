"""Stored values: framed, or refused; a payload is a record of its table, or no msgpack of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from policy.model import MemoryStatus
from storage.ground.errors import StoreCorrupt
from storage.tables import codec
from storage.tables.names import ANCHORS, HELD, IDS, KEYS, NONCES, ROWS
from storage.tables.rows import history_of, memory_of
from storage.values import Row
from storage.write.trust_intake import TRUST
from tests.fuzz.choices import Choices

WORDS = (
    b"\x01",
    b"\x94",
    b"\xdc\x00\x14",
    b"create",
    b"update",
    b"L3",
    b"unknown",
    b"unjoined",
    b"live",
)
TABLE, KEY = b"rows", b"\0" * 8
DIGESTS = codec.Digests(b"k" * 32)
_DECODERS: tuple[Callable[[bytes], Any], ...] = (
    ROWS.decoded,
    codec.decode_header,
    IDS.decoded,
    NONCES.decoded,
    TRUST.decoded,
    HELD.decoded,
    codec.decode_intercept,
    codec.decode_evidence,
    KEYS.decoded,
    ANCHORS.decoded,
)


def check(data: bytes) -> None:
    choices = Choices(data)
    if choices.byte() % 2:
        value = choices.rest()
        try:
            payload = DIGESTS.unframe(TABLE, KEY, value)
        except StoreCorrupt:
            return
        assert DIGESTS.frame(TABLE, KEY, payload) == value
        return
    decode = choices.pick(_DECODERS)
    try:
        record = decode(choices.rest())
    except (msgspec.MsgspecError, UnicodeError):
        return
    encoded = codec.encode(record)
    assert codec.encode(decode(encoded)) == encoded
    if isinstance(record, Row):
        _check_row(record)


def _check_row(row: Row) -> None:
    try:
        memory_of(row, MemoryStatus.LIVE)
        history_of([row])
    except StoreCorrupt:
        return
