"""Audit leaves: what decodes encodes to the same bytes; msgpack of any shape is survived."""

from __future__ import annotations

from storage.audit import decode_leaf, encode_leaf
from storage.ground.errors import StoreCorrupt

WORDS = (
    b"\x01\x9d",
    b"\x01\x9f",
    b"\x93",
    b"\xc4\x10",
    b"\xc4\x20",
    b"admit",
    b"reject",
    b"operator",
)


def check(data: bytes) -> None:
    try:
        leaf = decode_leaf(data)
    except StoreCorrupt:
        return
    assert encode_leaf(leaf) == data
