"""Starting again: rolled-back stores, lost pieces, another embedder; before rows are read."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policy.gate import GATE
from policy.model import CandidateId, ChangeKind
from policy.query import EVERYTHING
from policy.ruleset import Ruleset, parse_ruleset
from policy.verdict import Reason
from storage.derived import keeper
from storage.derived.catalogue import Catalogue
from storage.derived.keeper import WARMING
from storage.derived.recovery import DerivedRows, derive
from storage.embedded import EmbeddedOptions, EmbeddedStore, open_embedded
from storage.ground.errors import StoreCorrupt, StoreLocked, StoreRolledBack, StoreUnavailable
from storage.tables.lmdb_store import View
from storage.values import StagedContents
from tests.unit.storage.opening import (
    AGENT,
    DIMENSION,
    EMBEDDER,
    RULESET,
    RULESET_TEXT,
    TENANT,
    Bench,
    say,
    vector_of,
)


def _reopened(
    bench: Bench, ruleset: Ruleset = RULESET, embedder_id: str = EMBEDDER
) -> EmbeddedStore:
    return open_embedded(
        state=bench.state,
        checkpoint=bench.checkpoint,
        gate=GATE,
        ruleset=ruleset,
        embedder_id=embedder_id,
        dimension=DIMENSION,
        clock=bench.clock,
        options=EmbeddedOptions(quota_bytes=1 << 28, staging_quota_bytes=1 << 26),
    )


def _filled(bench: Bench, count: int) -> None:
    store = bench.open()
    for number in range(count):
        say(store, f"fact {number}")
    store.close()


def test_an_older_copy_of_the_store_is_noticed(bench: Bench, tmp_path: Path) -> None:
    _filled(bench, 3)
    shutil.copytree(bench.state, tmp_path / "older")
    _filled(bench, 2)
    shutil.rmtree(bench.state)
    shutil.copytree(tmp_path / "older", bench.state)
    with pytest.raises(StoreRolledBack, match="older copy"):
        bench.open()
    bench.checkpoint.unlink()  # what the message says to do when it was on purpose
    store = bench.open()
    assert store.reader.status().version == 3
    assert "no checkpoint copy" in (store.reader.status().reason or "")
    store.close()


def test_a_restored_backup_is_a_new_incarnation_that_refuses_old_and_unbound_nonces(
    bench: Bench, tmp_path: Path
) -> None:
    _filled(bench, 2)
    shutil.copytree(bench.state, tmp_path / "backup")
    store = bench.open()
    old = store.reader.status().incarnation
    say(store, "spent after the backup", nonce=f"{old}:1")
    say(store, "spent without a prefix", nonce="n-1")
    store.close()
    shutil.rmtree(bench.state)
    shutil.copytree(tmp_path / "backup", bench.state)
    store = bench.open(options=EmbeddedOptions(quota_bytes=1 << 28, restored=True))
    new = store.reader.status().incarnation
    assert new != old
    for nonce in (f"{old}:1", "n-1"):
        assert say(store, "again", nonce=nonce).reason is Reason.NONCE_INCARNATION
    assert say(store, "of this life", nonce=f"{new}:1").version == 3
    assert store.reader.check().problems == ()
    store.close()
    store = bench.open()  # the checkpoint outside is this life's now
    assert store.reader.status().incarnation == new
    store.close()


def test_a_copy_that_went_another_way_is_noticed(bench: Bench, tmp_path: Path) -> None:
    _filled(bench, 3)
    shutil.copytree(bench.state, tmp_path / "fork")
    note = bench.checkpoint.read_bytes()
    _filled(bench, 2)
    forked = Bench(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "fork", forked.state)
    forked.checkpoint.parent.mkdir()
    forked.checkpoint.write_bytes(note)
    _filled(forked, 7)
    shutil.rmtree(bench.state)
    shutil.copytree(forked.state, bench.state)
    with pytest.raises(StoreRolledBack, match="another copy"):
        bench.open()


def test_a_new_store_in_place_of_one_that_was_removed_is_noticed(bench: Bench) -> None:
    _filled(bench, 1)
    shutil.rmtree(bench.state)
    with pytest.raises(StoreRolledBack, match="no store yet"):
        bench.open()


def test_an_edited_checkpoint_is_noticed(bench: Bench) -> None:
    _filled(bench, 1)
    note = bench.checkpoint.read_text(encoding="utf-8").split("\n")
    note[1] = "1"
    bench.checkpoint.write_text("\n".join(note), encoding="utf-8")
    with pytest.raises(StoreRolledBack):
        bench.open()


def test_a_failed_start_gives_the_directory_back(bench: Bench) -> None:
    _filled(bench, 1)
    good = bench.checkpoint.read_bytes()
    bench.checkpoint.write_bytes(b"nonsense")
    for _ in range(2):
        with pytest.raises(StoreRolledBack):
            bench.open()
    bench.checkpoint.write_bytes(good)
    bench.open().close()


def test_one_gate_per_state_directory(bench: Bench) -> None:
    store = bench.open()
    with pytest.raises(StoreLocked):
        bench.open()
    store.close()


def test_a_store_whose_file_is_gone_is_not_quietly_made_anew(bench: Bench) -> None:
    _filled(bench, 1)
    (bench.state / "store" / "data.mdb").unlink()
    with pytest.raises(StoreCorrupt):
        bench.open()


def test_held_candidates_whose_key_is_lost_are_refused_with_a_leaf(bench: Bench) -> None:
    store = bench.open()
    say(store, "Ada prefers tea", instructions=True)
    before = store.reader.status()
    store.close()
    for path in (bench.state / "staging" / "keys").iterdir():
        path.unlink()
    store = bench.open()
    after = store.reader.status()
    assert (after.held_count, after.leaf_count) == (0, before.leaf_count + 1)
    assert "lost" in (after.reason or "")
    assert store.reader.check().problems == ()
    store.close()


def test_staged_candidates_that_nobody_held_are_swept(bench: Bench) -> None:
    store = bench.open()
    undecided = StagedContents(canonical=b"undecided", evidence=b"")
    store.staging.put([store.staging.sealed(CandidateId("ab" * 16), undecided)])
    store.close()
    store = bench.open()
    assert store.staging.staged_ids() == frozenset()
    store.close()


def test_other_rules_at_start_are_another_epoch_with_a_leaf(bench: Bench) -> None:
    _filled(bench, 1)
    store = _reopened(bench, ruleset=parse_ruleset(RULESET_TEXT + "\n# edited\n"))
    assert (store.ruleset.epoch, store.reader.status().epoch) == (2, 2)
    assert say(store, "under other rules").version == 2
    assert store.reader.check().problems == ()
    store.close()
    store = _reopened(bench)
    assert store.ruleset.epoch == 3
    store.close()


def test_another_embedder_never_searches_the_old_vectors(bench: Bench) -> None:
    _filled(bench, 2)
    store = _reopened(bench, embedder_id="another-8d")
    reader = store.reader
    assert reader.page(TENANT, EVERYTHING, 0, 9).total == 2
    assert reader.search(TENANT, vector_of("fact 1"), EVERYTHING, 9, -1.0) == ()
    reason = reader.status().reason or ""
    assert f"another embedder ({EMBEDDER}) than another-8d: 2;" in reason
    assert "set `embedder` as before" in reason
    assert reader.check().problems == ()
    store.close()
    store = bench.open()
    hits = store.reader.search(TENANT, vector_of("fact 1"), EVERYTHING, 1, 0.999)
    assert [hit.memory.text for hit in hits] == ["fact 1"]
    assert store.reader.status().reason is None
    store.close()


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


def settled(store: EmbeddedStore) -> None:
    """Wait until the start has read every row."""
    store._engine.parts.derived.wait(30.0)  # pyright: ignore[reportPrivateUsage]


def test_what_was_written_meanwhile_is_found_afterwards(bench: Bench, gate: Gate) -> None:
    store = bench.open()
    made = say(store, "fact 6")
    assert made.memory is not None
    changed = say(store, "fact 7", memory_id=made.memory.memory_id, change=ChangeKind.UPDATE)
    assert changed.memory is not None
    gate.opened.set()
    settled(store)
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
        settled(store)
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
    settled(store)
    found = _texts(store)
    store.close()
    return found
