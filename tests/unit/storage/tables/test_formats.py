"""A store of another format is refused by its header, and left as it is."""

from __future__ import annotations

import msgspec
import pytest

from storage.ground.errors import UnknownFormat
from storage.tables.codec import STORE_FORMAT, StoreHeader, encode
from storage.tables.read_only import read_only
from tests.unit.storage.opening import Bench, put_header, say

_FIELDS_BEFORE_THE_FORMAT = 12


def _filled(bench: Bench) -> StoreHeader:
    store = bench.open()
    for number in range(3):
        say(store, f"fact {number}")
    store.close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    return header


def _refused(bench: Bench, number: int) -> None:
    data = (bench.state / "store" / "data.mdb").read_bytes()
    with pytest.raises(UnknownFormat, match=f"format {number}, and this version reads"):
        bench.open()
    assert (bench.state / "store" / "data.mdb").read_bytes() == data


def test_a_new_store_has_the_format_of_this_version_and_opens_again(bench: Bench) -> None:
    assert _filled(bench).format == STORE_FORMAT
    assert bench.open().reader.status().live_count == 3


@pytest.mark.parametrize("number", [STORE_FORMAT - 1, STORE_FORMAT + 1])
def test_a_store_of_another_format_is_refused_before_anything_of_it_is_read(
    bench: Bench, number: int
) -> None:
    other = msgspec.structs.replace(_filled(bench), format=number)
    # A later version may have appended fields that this one has never heard of.
    put_header(bench, encode([*msgspec.to_builtins(other), "a field of tomorrow"]))
    _refused(bench, number)


def test_a_header_that_ends_before_its_format_is_refused(bench: Bench) -> None:
    fields = list(msgspec.to_builtins(_filled(bench)))[:_FIELDS_BEFORE_THE_FORMAT]
    put_header(bench, msgspec.msgpack.encode(fields))
    _refused(bench, 0)
