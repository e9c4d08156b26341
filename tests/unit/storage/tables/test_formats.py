"""A store of another format is refused by its header alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from storage.errors import UnknownFormat
from storage.tables.codec import STORE_FORMAT
from storage.tables.formats import refuse_unknown
from tests.unit.storage.bench import Bench

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_of_another_format_is_refused_with_one_sentence(tmp_path: Path) -> None:
    with Bench(tmp_path).opened() as store:
        header = store.header()
    refuse_unknown(header)
    refuse_unknown(None)
    for number in (STORE_FORMAT - 1, STORE_FORMAT + 1):
        with pytest.raises(UnknownFormat, match=f"format {number}, and this version reads"):
            refuse_unknown(msgspec.structs.replace(header, format=number))
