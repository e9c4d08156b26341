"""Purge erases bytes; a rejected or denied candidate never left any."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from policy.canonical import canonical_bytes
from policy.model import ChangeKind, MemoryClass, Scope, SourceKind
from policy.verdict import Reason
from storage.embedded import EmbeddedStore
from storage.values import Decision, Outcome
from storage.write.candidate_case import contents_of
from tests.conformance.canary import new_canary, traces
from tests.fault.crashing import OPTIONS
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    VOUCHED,
    Bench,
    candidate_of,
    say,
    submission_of,
    vector_of,
    write,
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _change(store: EmbeddedStore, kind: ChangeKind, of: Outcome, text: str | None) -> Outcome:
    assert of.memory is not None
    candidate = candidate_of(
        text, OPERATOR, change=kind, memory_id=of.memory.memory_id, scope=Scope()
    )
    return write(store, submission_of(candidate, OPERATOR))[0]


def _files_with(directory: Path, needle: bytes) -> list[str]:
    return [
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and needle in path.read_bytes()
    ]


def test_purged_memory_leaves_no_byte_of_text_metadata_id_or_vector(
    bench: Bench, tmp_path: Path
) -> None:
    store = bench.open(options=OPTIONS)
    canary = new_canary()
    for number in range(30):
        say(store, f"neighbour {number}")
    memory = say(
        store,
        f"{canary}one is written",
        memory_id=f"{canary}id",
        metadata_json=f'{{"k":"{canary}meta"}}',
        target=f"{canary}target",
        nonce=f"{canary}nonce",
        scope=Scope(user_id=f"{canary}user"),
    )
    _change(store, ChangeKind.UPDATE, memory, f"{canary}two is written")
    for number in range(30):
        say(store, f"other neighbour {number}")
    vectors = [vector_of(f"{canary}{word} is written") for word in ("one", "two")]
    store.close()  # writes the index's files
    assert traces(tmp_path, f"{canary}one")
    assert traces(tmp_path, f"{canary}target")
    assert all(_files_with(tmp_path, vector) for vector in vectors)

    store = bench.open(options=OPTIONS)
    outcome = _change(store, ChangeKind.PURGE, memory, None)
    assert outcome.decision is Decision.ADMIT
    assert traces(tmp_path, canary) == []
    assert [_files_with(tmp_path, vector) for vector in vectors] == [[], []]
    assert store.reader.check().problems == ()
    assert store.reader.status().reason is None
    store.close()
    assert traces(tmp_path, canary) == []
    store = bench.open(options=OPTIONS)
    assert store.reader.check().problems == ()
    assert store.reader.status().live_count == 60
    store.close()


def _not_compacting(_self: object) -> int:
    return 0


def test_without_the_compaction_purged_bytes_would_still_be_there(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open(options=OPTIONS)
    canary = new_canary()
    memory = say(store, f"{canary} is written")
    with monkeypatch.context() as patched:
        patched.setattr(type(store.lmdb), "compact", _not_compacting)
        _change(store, ChangeKind.PURGE, memory, None)
        assert traces(tmp_path, canary)
    asyncio.run(store.writer.compact(BY))
    assert traces(tmp_path, canary) == []
    store.close()


def test_denied_candidate_never_had_a_readable_byte_on_disk(bench: Bench, tmp_path: Path) -> None:
    store = bench.open()
    canary = new_canary()
    held = say(store, f"{canary} is held", instructions=True, target=f"{canary}target")
    assert held.decision is Decision.HOLD
    assert traces(tmp_path, canary) == []
    asyncio.run(store.writer.deny(held.candidate_id, BY))
    assert traces(tmp_path, canary) == []
    store.close()
    assert traces(tmp_path, canary) == []


def test_rejected_digest_is_in_no_file(bench: Bench, tmp_path: Path) -> None:
    store = bench.open()
    candidate = candidate_of(
        "short enough to guess",
        VOUCHED,
        memory_class=MemoryClass.L1,
        class_named=True,
        claimed_source=SourceKind.TOOL_RESULT,
    )
    submission = submission_of(candidate, VOUCHED)
    assert write(store, submission)[0].decision is Decision.REJECT
    store.close()
    for needle in (submission.digest, submission.vector, canonical_bytes(candidate)):
        assert _files_with(tmp_path, needle) == []


def test_altered_staging_is_a_digest_mismatch_and_neither_text_lands(
    bench: Bench, tmp_path: Path
) -> None:
    canary = new_canary()
    honest = submission_of(candidate_of(f"{canary}honest is sent"))
    altered = submission_of(candidate_of(f"{canary}altered is swapped in"))
    opened: list[EmbeddedStore] = []

    def swap(name: str) -> None:
        if name == "staged" and opened:
            staging = opened[0].staging
            staging.put([staging.sealed(honest.candidate_id, contents_of(altered))])

    store = bench.open(swap)
    opened.append(store)
    outcome = write(store, honest)[0]
    assert (outcome.decision, outcome.reason, outcome.step) == (
        Decision.REJECT,
        Reason.DIGEST_MISMATCH,
        4,
    )
    assert store.reader.check().rows == 0
    assert traces(tmp_path, canary) == []
    opened.clear()
    assert write(store, submission_of(honest.candidate))[0].reason is Reason.DIGEST_MISMATCH
    control = write(store, submission_of(candidate_of(f"{canary}control is sent")))[0]
    assert control.decision is Decision.ADMIT
    assert traces(tmp_path, f"{canary}control")
    store.close()


def test_purge_is_finished_at_the_next_start_when_the_disk_was_full(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.open(options=OPTIONS)
    canary = new_canary()
    memory = say(store, f"{canary} is written")

    def full(_self: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(store.lmdb), "compact", full)
        assert _change(store, ChangeKind.PURGE, memory, None).decision is Decision.ADMIT
        assert "compaction" in (store.reader.status().reason or "")
        store.close()
    store = bench.open(options=OPTIONS)
    assert traces(tmp_path, canary) == []
    # The index's file still had the purged row, so it was made again, which is reported.
    reason = store.reader.status().reason or ""
    assert "(stale)" in reason
    assert "compaction" not in reason
    store.close()


def test_vectors_of_the_test_embedder_are_unit_norm() -> None:
    values = np.frombuffer(vector_of("x"), dtype="<f4")
    assert abs(float(np.linalg.norm(values)) - 1.0) < 1e-6
