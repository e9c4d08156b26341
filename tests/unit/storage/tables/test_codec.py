"""Values on disk: nothing that was changed is ever read as if it had not been."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ground.errors import StoreCorrupt
from storage.tables.codec import frame, ordinal_key, unframe

KEYS = st.binary(min_size=8, max_size=8)


@given(key=KEYS, payload=st.binary(max_size=200))
def test_a_framed_payload_reads_back(key: bytes, payload: bytes) -> None:
    assert unframe(b"rows", key, frame(b"rows", key, payload)) == payload


@given(key=KEYS, payload=st.binary(max_size=60), data=st.data())
def test_any_changed_bit_is_noticed(key: bytes, payload: bytes, data: st.DataObject) -> None:
    value = bytearray(frame(b"rows", key, payload))
    at = data.draw(st.integers(0, 8 * len(value) - 1))
    value[at // 8] ^= 1 << at % 8
    with pytest.raises(StoreCorrupt):
        unframe(b"rows", key, bytes(value))


@given(key=KEYS, other=KEYS, payload=st.binary(max_size=60))
def test_a_value_under_another_key_is_noticed(key: bytes, other: bytes, payload: bytes) -> None:
    if key != other:
        with pytest.raises(StoreCorrupt):
            unframe(b"rows", other, frame(b"rows", key, payload))


def test_a_value_in_another_table_is_noticed() -> None:
    value = frame(b"rows", b"k" * 8, b"payload")
    with pytest.raises(StoreCorrupt):
        unframe(b"vectors", b"k" * 8, value)


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02" + b"0" * 16, b"\x01" + b"0" * 15])
def test_what_is_no_value_is_noticed(value: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        unframe(b"rows", b"k" * 8, value)


@given(first=st.integers(0, 2**64 - 1), second=st.integers(0, 2**64 - 1))
def test_ordinal_keys_sort_like_their_ordinals(first: int, second: int) -> None:
    assert (ordinal_key(first) < ordinal_key(second)) == (first < second)
