"""A store opens under the key alone with which its values were stored."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from storage.ground.errors import StoreCorrupt
from storage.tables.codec import Digests
from storage.upkeep.offline import EmbeddedFiles
from storage.values import Decision
from tests.unit.proxy.cli.test_verification import verify
from tests.unit.storage.opening import Bench, say


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A closed store with a spent nonce."""
    bench = Bench(tmp_path)
    store = bench.open()
    assert say(store, "The first text.", nonce="n-1").decision is Decision.ADMIT
    store.close()
    return bench


def _exchange(bench: Bench) -> bytes:
    path = bench.state / "secrets" / "store.key"
    before = path.read_bytes()
    path.write_bytes(secrets.token_bytes(32))
    return before


def test_a_store_opens_with_no_other_store_key_and_an_auditor_is_told(bench: Bench) -> None:
    key = _exchange(bench)
    with pytest.raises(StoreCorrupt, match="not the key that this store was made with"):
        bench.open()
    assert "not the key" in str(verify(bench).first_bad)
    (bench.state / "secrets" / "store.key").write_bytes(key)
    assert verify(bench).sound
    bench.open().close()


def test_without_that_a_spent_nonce_is_taken_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _exchange(bench)

    def payload(_self: Digests, _table: bytes, _key: bytes, value: bytes) -> bytes:
        return value[17:]

    monkeypatch.setattr(Digests, "unframe", payload)
    store = bench.open()
    assert say(store, "Another text.", nonce="n-1").decision is Decision.ADMIT
    store.close()


def test_without_the_key_an_auditor_relies_on_the_log_and_says_so(bench: Bench) -> None:
    assert verify(bench).digests_compared, "control"
    (bench.state / "secrets" / "store.key").unlink()

    report = verify(bench)

    assert (report.sound, report.digests_compared) == (True, False)
    with EmbeddedFiles(bench.state).viewed() as view:
        assert not view.compares_digests
        assert view.leaf(0) is not None


def test_without_the_key_nothing_can_be_stored() -> None:
    with pytest.raises(StoreCorrupt, match=r"store\.key"):
        Digests(None).frame(b"rows", b"k" * 8, b"payload")
