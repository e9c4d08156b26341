"""A store knows the key that its names are kept under, and opens with no other."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
import pytest

from storage.ground.errors import StoreCorrupt
from storage.tables.codec import StoreHeader, encode
from storage.tables.read_only import read_only
from storage.upkeep.offline import EmbeddedFiles
from storage.values import Decision
from tests.unit.storage.opening import Bench, put_header, say


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _header(bench: Bench) -> StoreHeader:
    with read_only(bench.state / "store") as view:
        header = view.header()
    assert header is not None
    return header


def _spent(bench: Bench) -> None:
    store = bench.open()
    assert say(store, "The first text.", nonce="n-1").decision is Decision.ADMIT
    store.close()


def _exchange(bench: Bench) -> None:
    (bench.state / "secrets" / "store.key").write_bytes(secrets.token_bytes(32))


def test_a_store_opens_with_no_other_store_key_and_an_auditor_is_told(bench: Bench) -> None:
    _spent(bench)
    key = (bench.state / "secrets" / "store.key").read_bytes()
    _exchange(bench)
    with pytest.raises(StoreCorrupt, match="not the key that this store was made with"):
        bench.open()
    with EmbeddedFiles(bench.state).viewed() as view:
        assert view.made_with(key)
        assert not view.made_with((bench.state / "secrets" / "store.key").read_bytes())
    (bench.state / "secrets" / "store.key").write_bytes(key)
    bench.open().close()


def test_without_that_a_spent_nonce_is_taken_again(bench: Bench) -> None:
    _spent(bench)
    put_header(bench, encode(msgspec.structs.replace(_header(bench), key_check="")))
    _exchange(bench)
    store = bench.open()
    assert say(store, "Another text.", nonce="n-1").decision is Decision.ADMIT
    store.close()


def test_a_store_of_before_learns_its_key_with_its_next_transaction(bench: Bench) -> None:
    _spent(bench)
    known = _header(bench).key_check
    put_header(bench, encode(msgspec.structs.replace(_header(bench), key_check="")))
    store = bench.open()
    say(store, "Another text.")
    store.close()
    assert _header(bench).key_check == known
    _exchange(bench)
    with pytest.raises(StoreCorrupt, match="not the key"):
        bench.open()
