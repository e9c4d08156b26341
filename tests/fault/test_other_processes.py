"""Other processes at the store's files: dead readers, stopped readers, a lock that never comes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from policy.model import Candidate
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.ground.errors import OutcomeUnknown, StorageError, StoreUnavailable
from storage.values import Decision, Outcome
from storage.write.writer import WriterOptions
from tests.fault.other_processes import holding
from tests.unit.storage.opening import Bench, candidate_of, say, submission_of, write

IMPATIENT = EmbeddedOptions(
    quota_bytes=1 << 24,
    staging_quota_bytes=1 << 26,
    writer=WriterOptions(answer_timeout_s=0.3, stop_timeout_s=0.3, batch_len_max=2),
)
# Small enough to be full in a hundred writes, if nothing could be used again.
TIGHT = EmbeddedOptions(quota_bytes=1 << 20, staging_quota_bytes=1 << 26)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _asked(store: EmbeddedStore, candidates: list[Candidate]) -> list[str]:
    async def one(candidate: Candidate) -> str:
        try:
            return (await store.writer.submit(submission_of(candidate))).decision.value
        except StorageError as error:
            return type(error).__name__

    async def all_of_them() -> list[str]:
        async with asyncio.timeout(5):
            return await asyncio.gather(*(one(candidate) for candidate in candidates))

    return asyncio.run(all_of_them())


def test_a_stopped_process_with_the_writer_lock_keeps_nobody_waiting(bench: Bench) -> None:
    store = bench.open(options=IMPATIENT)
    say(store, "before")
    candidates = [candidate_of(f"fact {number}") for number in range(6)]
    with holding(bench.state / "store", "write") as holder:
        holder.send_signal(signal.SIGSTOP)
        told = _asked(store, candidates)
        # The writer had taken one or two of them; the others it never saw.
        unknown = told.count("OutcomeUnknown")
        assert unknown in {1, 2}
        assert told.count("StoreUnavailable") == 6 - unknown
        # Now it is known to hang: nobody waits any more, and reads go on.
        assert _asked(store, [candidate_of("later")]) == ["StoreUnavailable"]
        status = store.reader.status()
        assert (status.live_count, status.writable) == (1, False)
        assert "lock of the store" in (status.reason or "")
        assert store.reader.check().problems == ()
    # The holder is dead, and the robust lock with it. Asking again tells each caller the truth.
    outcomes = _settled(store, candidates)
    first, rest = outcomes[:unknown], outcomes[unknown:]
    assert [one.decision for one in outcomes] == [Decision.ADMIT] * 6
    assert all(one.replayed for one in first)
    assert not any(one.replayed for one in rest)
    assert store.reader.status().live_count == 7
    assert store.reader.check().problems == ()
    store.close()


def _settled(store: EmbeddedStore, candidates: list[Candidate]) -> list[Outcome]:
    """Ask again until the writer is back, as a client would."""
    outcomes: list[Outcome] = []
    for candidate in candidates:
        for _ in range(100):
            try:
                outcomes += write(store, submission_of(candidate))
                break
            except* (StoreUnavailable, OutcomeUnknown):
                store.writer._thread.join(0.05)
    return outcomes


def test_a_hung_writer_does_not_hang_the_shutdown_and_keeps_the_directory(bench: Bench) -> None:
    store = bench.open(options=IMPATIENT)
    with holding(bench.state / "store", "write"):
        assert _asked(store, [candidate_of("stuck")]) == ["OutcomeUnknown"]
        store.close()
        assert store.reader.status().version == 0
    # Its lock is free again, and what was under way may end; then the store closes as it should.
    store.writer._thread.join(10)
    store.close()
    store = bench.open()
    assert store.reader.check().problems == ()
    store.close()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_reader_that_died_or_stopped_is_not_waited_for(
    bench: Bench, end: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader pins every page that is freed after it began: a small map fills up.

    A dead one is cleared away and the writing goes on. A stopped one cannot be told from one that
    is at work: what does not fit is refused, nothing is lost, and it goes on when the reader ends.
    """
    # LMDB's map keeps room for purges. Filling that too would take a thousand more writes.
    monkeypatch.setattr("storage.tables.lmdb_store._MAP_SPARE_BYTES", 0)
    store = bench.open(options=TIGHT)
    memory_id = "m"
    say(store, "first", memory_id=memory_id)
    told: list[str] = []
    with holding(bench.state / "store", "read") as reader:
        reader.send_signal(end)
        if end is signal.SIGKILL:
            reader.wait(10)
        for number in range(120):
            told += _asked(store, [_rewriting(memory_id, number)])
        if end is signal.SIGKILL:
            assert set(told) == {"admit"}
        else:
            assert told[-1] == "StoreUnavailable"
            assert store.reader.check().problems == ()
    say(store, "after the reader is gone")
    assert store.reader.check().problems == ()
    store.close()


def _rewriting(memory_id: str, number: int) -> Candidate:
    """A write that fits, and frees as much as it takes."""
    return candidate_of(f"fact {number}", memory_id=memory_id)
