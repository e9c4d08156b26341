"""A store of another format is refused by its header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from storage.errors import UnknownFormat
from storage.tables.codec import STORE_FORMAT, encode
from storage.tables.read_only import read_only
from tests.unit.storage.opening import put_header, say

if TYPE_CHECKING:
    from tests.unit.storage.opening import Bench


@pytest.mark.parametrize("number", [STORE_FORMAT - 1, STORE_FORMAT + 1])
def test_a_store_of_another_format_is_refused_with_one_sentence(bench: Bench, number: int) -> None:
    store = bench.open()
    say(store, "a fact")
    store.close()
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    assert header.format == STORE_FORMAT
    put_header(bench, encode(msgspec.structs.replace(header, format=number)))
    with pytest.raises(UnknownFormat, match=f"format {number}, and this version reads"):
        bench.open()
    # The control: with its own header the same store opens.
    put_header(bench, encode(header))
    bench.open().close()
