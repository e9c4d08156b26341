"""Two gates on one state: the second is turned away, and no cleared lock file lets both write."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from pathlib import Path

import pytest

from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreUnavailable
from storage.tables.lmdb_store import Draft, LmdbStore
from storage.write.engine import Engine
from tests.fault.two_gates import beside
from tests.shipped_stores import CopyOfTests
from tests.unit.storage.opening import Bench, say


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _clear_locks(bench: Bench) -> None:
    (bench.state / "gate.lock").unlink()
    (bench.state / "store" / "lock.mdb").unlink()


def _give_up_the_locks(bench: Bench, store: EmbeddedStore) -> None:
    store._directory.close()
    _clear_locks(bench)


def _refusal(store: EmbeddedStore, text: str) -> str:
    with pytest.raises(ExceptionGroup) as caught:
        say(store, text)
    (refused,) = caught.value.exceptions
    assert isinstance(refused, StoreUnavailable)
    return str(refused)


def test_who_clears_the_lock_files_away_lets_no_second_gate_in(bench: Bench) -> None:
    store = bench.open()
    say(store, "The first gate wrote this.")
    _clear_locks(bench)
    assert "StoreLocked" in beside(bench.state.parent, 1)[0]
    assert say(store, "And it goes on.").version == 2
    store.close()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_gate_that_was_overtaken_writes_nothing_more_and_says_so(
    bench: Bench, count: int
) -> None:
    store = bench.open()
    say(store, "The first gate wrote this.")
    _give_up_the_locks(bench, store)
    assert beside(bench.state.parent, count)[-1] == f"Outcome:{count + 1}"
    for _ in range(2):
        assert "another process has written" in _refusal(store, "The first would write this.")
    store.close()
    again = bench.open()
    assert again.reader.status().version == count + 1
    assert again.reader.check().problems == ()
    again.close()


def test_without_that_both_answer_with_the_same_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(_store: LmdbStore, _draft: Draft) -> bool:
        return False

    def allowed(_engine: Engine, _draft: Draft) -> None:
        """The wall is off."""

    monkeypatch.setattr(LmdbStore, "overtaken", alone)
    monkeypatch.setattr(Engine, "_refuse_if_overtaken", allowed)
    store = bench.open()
    if isinstance(store.lmdb, CopyOfTests):
        pytest.skip("the fence of the journal refuses the first gate, whatever the walls of LMDB")
    say(store, "The first gate wrote this.")
    _give_up_the_locks(bench, store)
    assert beside(bench.state.parent, 1) == ["Outcome:2"]
    assert say(store, "The first gate wrote this as well.").version == 2
    store.close()


def test_a_state_that_was_moved_away_under_a_gate_takes_nothing_more(bench: Bench) -> None:
    store = bench.open()
    say(store, "The first gate wrote this.")
    bench.state.rename(bench.state.with_name("moved"))
    assert "or exchanged it" in _refusal(store, "This would be in a file that nobody finds.")
    bench.state.with_name("moved").rename(bench.state)
    store.close()
