"""The writer and its jobs: bounded, honest when it ends; the checkpoint's copy outside."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import ChangeKind, Channel, MemoryClass, Principal, PrincipalId, Scope
from policy.query import EVERYTHING
from policy.trust.score import OutcomeKind, Reported, TrustLevel, TrustState
from storage.audit import VerifierKey, sign_checkpoint
from storage.derived.vectors.faiss_index import BadVector
from storage.embedded import EmbeddedOptions, EmbeddedStore
from storage.features.registered import PutAnchor, PutKey
from storage.features.trust import RecordOutcome, RestoreTrust
from storage.ground.errors import OutcomeUnknown, StoreLocked, StoreRolledBack, StoreUnavailable
from storage.values import Anchor, Decision, KeyRecord, Outcome
from storage.write.checkpoint_copy import CheckpointCopy
from storage.write.jobs import CallerDeadlines, Job, JobBatch, deliver
from storage.write.writer import WriterOptions
from tests.unit.storage.opening import (
    BY,
    OPERATOR,
    TENANT,
    Bench,
    candidate_of,
    say,
    submission_of,
    write,
)

SMALL = EmbeddedOptions(
    quota_bytes=1 << 28,
    staging_quota_bytes=1 << 26,
    writer=WriterOptions(queue_len_max=4, batch_len_max=2),
)


class Turnstile:
    """Stops the writer thread at a crash point until it is let through."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.reached = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def __call__(self, name: str) -> None:
        if name == self._point:
            self.reached.set()
            assert self.open.wait(30)


async def test_a_full_queue_refuses_and_what_was_queued_still_lands(bench: Bench) -> None:
    turnstile = Turnstile("before_commit")
    store = bench.open(turnstile, options=SMALL)
    turnstile.reached.clear()
    turnstile.open.clear()
    first = asyncio.ensure_future(store.writer.submit(submission_of(candidate_of("first"))))
    await asyncio.to_thread(turnstile.reached.wait, 30)
    queued = [
        asyncio.ensure_future(store.writer.submit(submission_of(candidate_of(f"queued {n}"))))
        for n in range(4)
    ]
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.writer.submit(submission_of(candidate_of("too many")))
    turnstile.open.set()
    outcomes = await asyncio.gather(first, *queued)
    assert {outcome.decision for outcome in outcomes} == {Decision.ADMIT}
    assert store.reader.status().version == 5
    await asyncio.to_thread(store.close)


async def test_cancelling_the_caller_does_not_cancel_the_commit(bench: Bench) -> None:
    turnstile = Turnstile("before_commit")
    store = bench.open(turnstile)
    turnstile.reached.clear()
    turnstile.open.clear()
    task = asyncio.ensure_future(store.writer.submit(submission_of(candidate_of("kept"))))
    await asyncio.to_thread(turnstile.reached.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    turnstile.open.set()
    await store.writer.submit(submission_of(candidate_of("after")))
    assert store.reader.page(TENANT, EVERYTHING, 0, 9).total == 2
    await asyncio.to_thread(store.close)


async def test_closing_finishes_what_was_queued_and_refuses_what_comes_later(bench: Bench) -> None:
    store = bench.open()
    tasks = [
        asyncio.ensure_future(store.writer.submit(submission_of(candidate_of(f"fact {n}"))))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    assert {outcome.decision for outcome in await asyncio.gather(*tasks)} == {Decision.ADMIT}
    with pytest.raises(StoreUnavailable):
        await store.writer.submit(submission_of(candidate_of("late")))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_writer_that_dies_leaves_nobody_waiting_and_claims_nothing(bench: Bench) -> None:
    armed = False

    def die(name: str) -> None:
        if armed and name == "after_commit":
            raise ZeroDivisionError

    store = bench.open(die)
    armed = True
    candidate = candidate_of("was it written?")
    with pytest.raises(OutcomeUnknown):
        await store.writer.submit(submission_of(candidate))
    with pytest.raises(StoreUnavailable):
        await store.writer.submit(submission_of(candidate_of("more")))
    assert not store.reader.status().writable
    await asyncio.to_thread(store.close)
    armed = False
    store = bench.open(die)
    outcome = await store.writer.submit(submission_of(candidate))
    assert (outcome.decision, outcome.replayed) == (Decision.ADMIT, True)
    await asyncio.to_thread(store.close)


async def test_a_forked_child_is_refused(store: EmbeddedStore) -> None:
    store.writer._pid = os.getpid() + 1
    with pytest.raises(StoreLocked):
        await store.writer.submit(submission_of(candidate_of("from a fork")))
    store.writer._pid = os.getpid()


async def test_a_bad_vector_in_a_batch_is_refused_alone(store: EmbeddedStore) -> None:
    good, long, short = (candidate_of(text) for text in ("good", "long", "short"))
    # Together the two wrong ones are as long as two right ones.
    answers = await asyncio.gather(
        store.writer.submit(submission_of(long, vector=bytes(36))),
        store.writer.submit(submission_of(good)),
        store.writer.submit(submission_of(short, vector=bytes(28))),
        return_exceptions=True,
    )
    assert isinstance(answers[0], BadVector)
    assert isinstance(answers[2], BadVector)
    assert isinstance(answers[1], Outcome)
    assert answers[1].decision is Decision.ADMIT
    assert store.reader.status().version == 1


async def test_vectors_that_are_none_are_refused_and_nothing_of_them_stays(
    store: EmbeddedStore,
) -> None:
    for vector in (bytes(32), bytes(31), b"\xff" * 32):
        with pytest.raises(BadVector):
            await store.writer.submit(submission_of(candidate_of("x"), vector=vector))
    with pytest.raises(StoreUnavailable, match="embedder"):
        await store.writer.submit(submission_of(candidate_of("x"), embedder_id="another"))
    assert store.reader.status().version == 0
    assert store.staging.staged_ids() == frozenset()


def _said(store: EmbeddedStore, text: str) -> Outcome | None:
    """The outcome of a create; None where the store refuses."""
    outcome = None
    with contextlib.suppress(ExceptionGroup):
        outcome = say(store, text)
    return outcome


def test_a_store_at_its_quota_refuses_writes_and_still_deletes(bench: Bench) -> None:
    options = EmbeddedOptions(quota_bytes=1 << 19, staging_quota_bytes=1 << 26)
    store = bench.open(options=options)
    landed: list[Outcome] = []
    for number in range(2_000):
        outcome = _said(store, f"{number} " + "x" * 3_000)
        if outcome is None:
            break
        landed.append(outcome)
    assert 50 < len(landed) < 2_000
    version = store.reader.status().version
    first = landed[0].memory
    assert first is not None
    gone = candidate_of(
        None, OPERATOR, change=ChangeKind.DELETE, memory_id=first.memory_id, scope=Scope()
    )
    assert write(store, submission_of(gone, OPERATOR))[0].decision is Decision.ADMIT
    assert store.reader.status().version == version + 1
    assert store.reader.check().problems == ()
    store.close()


async def test_operator_commands_leave_leaves_and_no_version(store: EmbeddedStore) -> None:
    before = store.reader.status()
    key = KeyRecord(
        key_id="k1",
        key_sha256=b"s" * 32,
        principal=Principal(
            principal_id=PrincipalId("k1"), tenant=TENANT, channel=Channel.OPERATOR
        ),
        created_at_ms=1,
    )
    anchor = Anchor(anchor_id="a1", tenant=TENANT, statement="s", questions=("q",), created_at_ms=1)
    await store.writer.order(PutKey(key, BY))
    await store.writer.order(PutAnchor(anchor, BY))
    burst = Reported(
        kind=OutcomeKind.SUSTAINED_BURST, principal_id=PrincipalId("agent-1"), tenant=TENANT
    )
    assert await store.writer.order(RecordOutcome(burst))
    assert not await store.writer.order(RecordOutcome(burst)), "once a day"
    assert store.reader.keys() == (key,)
    assert store.reader.anchors(TENANT) == (anchor,)
    soured = store.reader.trust(PrincipalId("agent-1"))
    assert (soured.level, soured.bad > 0) == (TrustLevel.TRUSTED, True)
    assert dict(store.reader.all_trust()) == {PrincipalId("agent-1"): soured}
    restored = await store.writer.order(RestoreTrust(PrincipalId("agent-1"), BY))
    assert restored == TrustState(restores_count=1)
    after = store.reader.status()
    assert (after.version, after.leaf_count) == (before.version, before.leaf_count + 4)
    assert store.reader.check().problems == ()


async def test_queue_and_commit_times_are_told(store: EmbeddedStore) -> None:
    outcome = await store.writer.submit(
        submission_of(candidate_of("timed", memory_class=MemoryClass.L4))
    )
    assert outcome.commit_us > 0
    assert outcome.commit_us >= outcome.gate_us >= 0


SHORT_S = 0.02
LONG_S = 60.0


def _job() -> Job:
    return Job(asyncio.get_running_loop(), task=lambda: None)


async def test_a_job_is_claimed_once() -> None:
    job = _job()
    assert [job.claim(), job.claim()] == [True, False]


async def test_what_the_writer_never_began_was_not_written() -> None:
    job = _job()
    with pytest.raises(StoreUnavailable):
        await job.answer(CallerDeadlines(SHORT_S))
    assert not job.claim()


async def test_what_the_writer_began_has_an_unknown_outcome_and_its_late_answer_is_dropped() -> (
    None
):
    job = _job()
    assert job.claim()
    with pytest.raises(OutcomeUnknown):
        await job.answer(CallerDeadlines(SHORT_S))
    deliver([(job, "late")])
    await asyncio.sleep(0)


async def test_an_answer_in_time_comes_from_any_thread() -> None:
    patience = CallerDeadlines(LONG_S)
    job, failing = _job(), _job()
    error = StoreUnavailable("no")
    thread = threading.Thread(target=deliver, args=([(job, 7), (failing, error)],))
    thread.start()
    assert await job.answer(patience) == 7
    with pytest.raises(StoreUnavailable) as told:
        await failing.answer(patience)
    assert told.value is error
    thread.join(10)


def test_an_answer_for_a_loop_that_is_gone_harms_nobody() -> None:
    async def made() -> Job:
        return _job()

    deliver([(asyncio.run(made()), 7)])


async def test_those_that_come_later_expire_later_and_all_of_them_do() -> None:
    patience = CallerDeadlines(SHORT_S)
    first = asyncio.ensure_future(_job().answer(patience))
    with pytest.raises(StoreUnavailable):
        await first
    with pytest.raises(StoreUnavailable):
        await _job().answer(patience)


async def test_an_answer_in_time_is_given_and_nothing_is_kept_of_it() -> None:
    patience = CallerDeadlines(LONG_S)
    jobs = [_job() for _ in range(3)]
    waiting = [asyncio.ensure_future(job.answer(patience)) for job in jobs]
    await asyncio.sleep(0)
    line = patience._of[jobs[0].loop]
    assert len(line._waiting) == 3
    deliver([(job, number) for number, job in enumerate(jobs)])
    assert await asyncio.gather(*waiting) == [0, 1, 2]
    assert not line._waiting


async def test_one_that_hangs_does_not_hide_the_answers_behind_it() -> None:
    patience = CallerDeadlines(SHORT_S)
    hangs, answered = _job(), _job()
    first = asyncio.ensure_future(hangs.answer(patience))
    second = asyncio.ensure_future(answered.answer(patience))
    await asyncio.sleep(0)
    deliver([(answered, "told")])
    assert await second == "told"
    with pytest.raises(StoreUnavailable):
        await first


async def test_what_one_turn_of_a_loop_makes_is_queued_together_and_in_order() -> None:
    queued: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    gathering = JobBatch(queued, lambda: True)
    jobs = [_job() for _ in range(3)]
    for job in jobs:
        gathering.add(job)
    assert queued.empty()
    assert gathering.count == 3
    await asyncio.sleep(0)
    assert [queued.get_nowait() for _ in jobs] == jobs
    assert gathering.count == 0


async def test_what_is_gathered_when_the_writer_closes_is_queued_and_later_ones_are_refused() -> (
    None
):
    queued: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    is_open = True
    gathering = JobBatch(queued, lambda: is_open)
    early, late = _job(), _job()
    gathering.add(early)
    is_open = False
    gathering.hurry()
    assert queued.get_nowait() is early
    gathering.add(late)
    with pytest.raises(StoreUnavailable):
        await late.answer(CallerDeadlines(LONG_S))
    assert queued.empty()


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
VERIFIER = VerifierKey.of("mnemogate", KEY)


def note(size: int) -> bytes:
    return sign_checkpoint("mnemogate", size, bytes([size]) * 32, KEY)


def test_what_was_written_last_is_read_and_the_same_again_is_no_news(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "deep" / "checkpoint.txt", VERIFIER)
    assert copy.read() is None
    assert [copy.write(note(1)), copy.write(note(1)), copy.write(note(2))] == [True, False, True]
    read = copy.read()
    assert read is not None
    assert (read.size, read.root) == (2, b"\x02" * 32)
    assert copy.path.stat().st_mode & 0o777 == 0o600
    assert copy.path.parent.stat().st_mode & 0o777 == 0o700


def test_nothing_is_written_before_the_first_checkpoint(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    assert not copy.write(b"")
    assert not copy.path.exists()


def test_a_write_that_fails_leaves_the_one_before_and_is_tried_again(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.write(note(1))
    unfinished = tmp_path / ".checkpoint.txt.unfinished"
    unfinished.mkdir()
    with pytest.raises(OSError, match="unfinished"):
        copy.write(note(2))
    assert copy.path.read_bytes() == note(1)
    unfinished.rmdir()
    assert copy.write(note(2))


@pytest.mark.parametrize("found", [b"", b"\xff", b"not a note", note(1)[:-8] + b"AAAAAAA\n"])
def test_a_file_that_this_key_did_not_sign_is_not_believed(tmp_path: Path, found: bytes) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.path.write_bytes(found)
    with pytest.raises(StoreRolledBack, match="was changed"):
        copy.read()


def test_another_stores_checkpoint_is_not_called_a_changed_one(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    other = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    copy.path.write_bytes(sign_checkpoint("mnemogate", 1, bytes(32), other))
    with pytest.raises(StoreRolledBack, match="of another store") as said:
        copy.read()
    assert "`checkpoint` of its own" in str(said.value)


def test_a_new_store_beside_anothers_checkpoint_is_refused_before_it_is_made(bench: Bench) -> None:
    other = Ed25519PrivateKey.from_private_bytes(bytes([7]) * 32)
    bench.checkpoint.parent.mkdir()
    bench.checkpoint.write_bytes(sign_checkpoint("mnemogate", 1, bytes(32), other))
    with pytest.raises(StoreRolledBack, match="no store yet"):
        bench.open()
    assert not bench.state.exists()
    # Control: with nothing there it begins, and is told of a changed copy once it is in use.
    bench.checkpoint.unlink()
    store = bench.open()
    say(store, "Tea is at four.")
    store.close()
    bench.checkpoint.write_bytes(b"not a note")
    with pytest.raises(StoreRolledBack, match="was changed"):
        bench.open()


def test_a_file_that_cannot_be_read_is_no_proof_of_a_rollback(tmp_path: Path) -> None:
    copy = CheckpointCopy(tmp_path / "checkpoint.txt", VERIFIER)
    copy.path.mkdir()
    with pytest.raises(StoreUnavailable):
        copy.read()


def test_a_store_in_use_without_a_copy_is_remarked_and_one_with_it_is_not(bench: Bench) -> None:
    store = bench.open()
    say(store, "Tea is at four.")
    store.close()
    store = bench.open()
    copy = CheckpointCopy(bench.checkpoint, VerifierKey.parse(store.audit.head().verifier_key))
    with store.lmdb.reading() as view:
        header = view.header()
        assert copy.compare(view, header) is None
        bench.checkpoint.unlink()
        assert "no checkpoint copy" in (copy.compare(view, header) or "")
        assert copy.compare(view, None) is None, "control: a new store has none yet"
    store.close()
