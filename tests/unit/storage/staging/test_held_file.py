"""A file of staging: what it keeps, and that a failed disk does not end it."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from storage.ground.errors import StoreUnavailable
from storage.staging.held_file import StagingFile

MAP_BYTES = 1 << 20


def _opened(directory: Path) -> StagingFile:
    return StagingFile(directory / "file", MAP_BYTES)


def _value(file: StagingFile) -> bytes | None:
    with file.reading() as txn:
        value = txn.get(b"k")
        return None if value is None else bytes(value)


def _put(file: StagingFile, value: bytes) -> None:
    with file.writing() as txn:
        txn.put(b"k", value)


def test_what_was_put_outlives_the_closing(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    _put(file, b"v")
    assert _value(file) == b"v"
    file.close()
    file = _opened(tmp_path)
    assert _value(file) == b"v"
    file.close()


def test_after_an_error_of_the_disk_it_is_opened_again(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    with pytest.raises(StoreUnavailable), file.writing():
        raise lmdb.PanicError("the environment had a fatal error")
    _put(file, b"v")
    assert _value(file) == b"v"
    file.close()


def test_a_full_file_keeps_what_it_has(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    _put(file, b"v")
    with pytest.raises(StoreUnavailable, match="full"):
        _put(file, bytes(MAP_BYTES))
    assert _value(file) == b"v"
    file.close()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    (tmp_path / "file" / "data.mdb").write_bytes(b"damage" * 2_000)
    with pytest.raises(StoreUnavailable, match=r"file/data\.mdb"):
        _opened(tmp_path)


def test_bytes_used_grow_with_what_is_put(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    before = file.bytes_used()
    _put(file, bytes(100_000))
    assert file.bytes_used() >= before + 100_000
    file.close()
