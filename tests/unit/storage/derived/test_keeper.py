"""A large store opens before its rows are read: writes at once, whole answers a little later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policy.model import ChangeKind
from policy.query import EVERYTHING
from storage.derived import keeper
from storage.derived.catalogue import Catalogue
from storage.derived.keeper import WARMING
from storage.derived.recovery import DerivedRows, derive
from storage.embedded import EmbeddedStore
from storage.ground.errors import StoreCorrupt, StoreUnavailable
from storage.tables.lmdb_store import View
from tests.unit.storage.opening import AGENT, TENANT, Bench, say, vector_of


class Gate:
    """Lets the reading of rows begin when told, and counts nothing else."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(
        self, view: View, embedder_id: str, catalogue: Catalogue, stopping: Callable[[], bool]
    ) -> DerivedRows:
        self.opened.wait(30)
        return derive(view, embedder_id, catalogue, stopping)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def gate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    store = bench.open()
    for at in range(6):
        say(store, f"fact {at}")
    store.close()
    gate = Gate()
    monkeypatch.setattr(keeper, "LOAD_BESIDE_LEN", 0)
    monkeypatch.setattr(keeper, "PATIENCE_S", 0.01)
    monkeypatch.setattr(keeper, "derive", gate)
    yield gate
    gate.opened.set()


def _texts(store: EmbeddedStore) -> set[str]:
    return {one.text for one in store.reader.page(TENANT, EVERYTHING, 0, 100).memories}


def test_a_write_is_durable_before_the_rows_are_read(bench: Bench, gate: Gate) -> None:
    store = bench.open()
    outcome = say(store, "fact 6")
    assert outcome.memory is not None
    assert store.reader.get(TENANT, outcome.memory.memory_id) == outcome.memory
    assert store.reader.status().writable
    assert WARMING in (store.reader.status().reason or "")
    gate.opened.set()
    store.close()


def test_a_read_that_needs_all_rows_gives_no_part_of_them(bench: Bench, gate: Gate) -> None:
    store = bench.open()
    say(store, "fact 6")
    with pytest.raises(StoreUnavailable, match="being read"):
        store.reader.search(TENANT, vector_of("fact 6"), EVERYTHING, 3, -1.0)
    with pytest.raises(StoreUnavailable):
        store.reader.page(TENANT, EVERYTHING, 0, 10)
    with pytest.raises(StoreUnavailable):
        store.reader.entities(TENANT)
    gate.opened.set()
    store.close()


def test_what_was_written_meanwhile_is_found_afterwards(bench: Bench, gate: Gate) -> None:
    store = bench.open()
    made = say(store, "fact 6")
    assert made.memory is not None
    changed = say(store, "fact 7", memory_id=made.memory.memory_id, change=ChangeKind.UPDATE)
    assert changed.memory is not None
    gate.opened.set()
    store.settle(30.0)
    assert _texts(store) == {*(f"fact {at}" for at in range(6)), "fact 7"}
    (hit,) = store.reader.search(TENANT, vector_of("fact 7"), EVERYTHING, 1, 0.99)
    assert hit.memory.text == "fact 7"
    assert store.reader.status().reason is None
    say(store, "fact 8")
    assert "fact 8" in _texts(store)
    assert store.reader.check().problems == ()
    store.close()


def test_a_damaged_row_found_later_stops_reads_and_writes(
    bench: Bench, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> DerivedRows:
        gate.opened.wait(30)
        raise StoreCorrupt("row 3 does not match its digest")

    monkeypatch.setattr(keeper, "derive", damaged)
    store = bench.open()
    say(store, "fact 6")
    gate.opened.set()
    with pytest.raises(StoreCorrupt):
        store.settle(30.0)
    with pytest.raises(StoreCorrupt):
        store.reader.search(TENANT, vector_of("fact 6"), EVERYTHING, 3, -1.0)
    assert not store.reader.status().writable
    with pytest.raises(ExceptionGroup, match="unhandled") as refused:
        say(store, "fact 7")
    assert isinstance(refused.value.exceptions[0], StoreUnavailable)
    store.close()


def test_closing_does_not_wait_for_a_reading_that_is_not_needed(bench: Bench, gate: Gate) -> None:
    store = bench.open()
    say(store, "fact 6", AGENT)
    threading.Timer(0.05, gate.opened.set).start()
    store.close()
    assert _reopened_texts(bench) == {f"fact {at}" for at in range(7)}


def _reopened_texts(bench: Bench) -> set[str]:
    store = bench.open()
    store.settle(30.0)
    found = _texts(store)
    store.close()
    return found
