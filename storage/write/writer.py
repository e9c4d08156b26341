"""The one writer thread: a bounded queue, one commit for many candidates, answers when durable."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from policy.facts import InterceptRecord
from policy.model import CandidateId, PrincipalId
from policy.ruleset import Ruleset
from policy.verdict import InvariantBroken
from storage.ground.errors import (
    OutcomeUnknown,
    StorageError,
    StoreLocked,
    StoreUnavailable,
    UnknownCandidate,
)
from storage.ground.randomness import random_bytes
from storage.values import THE_STORE, Denial, Outcome, Submission
from storage.write.candidate_case import ArrivedCandidate, contents_of
from storage.write.checkpoint_copy import CheckpointCopy
from storage.write.engine import Engine
from storage.write.engine_commands import EngineCommands
from storage.write.jobs import Answer, CallerDeadlines, Job, JobBatch, deliver
from storage.write.seam import Order
from storage.write.wellness import try_again

Result = TypeVar("Result")

_CHECKPOINT_EVERY_NS: Final = 200_000_000
_RETRY_EVERY_NS: Final = 1_000_000_000
_HOUSEKEEPING_EVERY_NS: Final = 60_000_000_000
_SNAPSHOT_EVERY_NS: Final = 30_000_000_000
_IDLE_S: Final = 0.2
"""How long the writer thread waits for a job before it does other work."""


class WriterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on what the writer accepts, and on how long it may take."""

    queue_len_max: int = 4_096
    batch_len_max: int = 256
    batch_bytes_max: int = 4 * 1024 * 1024
    # Seconds until a caller gets an error: the writer is busy, or the outcome is unknown.
    answer_timeout_s: float = 10.0
    # Seconds allowed for rewriting the whole file, which takes as long as the disk needs.
    compact_timeout_s: float = 900.0
    # Seconds that a shutdown waits for a writer thread without progress.
    stop_timeout_s: float = 20.0


class EmbeddedWriter:
    """Runs a store's one writer thread. Coroutines may run on any event loop.

    Its calls are the only ones that change a store durably.
    """

    def __init__(
        self,
        engine: Engine,
        operating: EngineCommands,
        checkpoint: CheckpointCopy,
        options: WriterOptions,
    ) -> None:
        self._engine = engine
        self._operating = operating
        self._checkpoint = checkpoint
        self._options = options
        self._patience = CallerDeadlines(options.answer_timeout_s)
        self._pid = os.getpid()
        # A little less than a caller's limit, so that no new caller is accepted once the first one
        # has given up.
        engine.patience_s = 0.9 * options.answer_timeout_s
        self._embedder_id = engine.generation.header.embedder_id
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._gathering = JobBatch(self._queue, lambda: self.running)
        self._closing = False
        self._dead = False
        self._in_flight: list[Job] = []
        # The number of batches and commands that were done, by which `stop` detects a writer
        # without progress.
        self._turns = 0
        self._checkpoint_due_ns = 0
        self._retry_due_ns = 0
        self._housekeeping_due_ns = 0
        self._snapshot_due_ns = 0
        self._thread = threading.Thread(target=self._work, name="mnemogate-writer", daemon=True)

    def start(self) -> None:
        """Start the writer thread; call it once."""
        now = time.monotonic_ns()
        self._checkpoint_due_ns = now
        self._housekeeping_due_ns = now + _HOUSEKEEPING_EVERY_NS
        self._snapshot_due_ns = now + _SNAPSHOT_EVERY_NS
        self._thread.start()

    def stop(self) -> bool:
        """Finish queued work, write the checkpoint copy, and end the thread. Blocks.

        Returns False if the thread makes no progress. The thread may then still write, so nothing
        that it uses may be closed, and the directory stays locked until the process ends.
        """
        if not self._closing:
            self._closing = True
            self._gathering.hurry()
            self._queue.put(None)
        turns = self._turns
        self._thread.join(self._options.stop_timeout_s)
        while self._thread.is_alive() and self._turns != turns:
            turns = self._turns
            self._thread.join(self._options.stop_timeout_s)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the writer thread takes work."""
        return not (self._closing or self._dead)

    # ---- methods that callers await --------------------------------------------------------------

    async def submit(self, submission: Submission) -> Outcome:
        """Stage, judge and, if admitted, commit one candidate, exactly once; return the outcome.

        When this returns, nonce, both leaves, trust and (if admitted) row, vector and version are
        on disk together, and a held candidate survives a crash. If the caller is cancelled, the
        commit is not.

        Raises:
            StoreUnavailable: Queue full, quota reached, not writable, the writer did not begin in
                time, or the vector is not a unit vector of its embedder; nothing was written.
            OutcomeUnknown: The disk failed mid-commit and the store could not be reopened, or the
                writer does not answer: repeat the request with the same nonce.
        """
        if submission.vector and submission.embedder_id != self._embedder_id:
            raise StoreUnavailable("the vector is of another embedder than the store's")
        engine = self._engine
        candidate = submission.candidate
        # (7) The interceptor's own record is stored apart from the staged bytes.
        record = InterceptRecord(
            candidate_id=submission.candidate_id,
            digest=submission.digest,
            principal_id=candidate.principal_id,
            tenant=candidate.tenant,
            target=candidate.target,
        )
        # From here on the candidate's text is encrypted, and no later step has it in plain text.
        job = Job(
            asyncio.get_running_loop(),
            arrived=ArrivedCandidate.of(submission, record, engine.parts.names),
            sealed=engine.parts.staging.sealed(submission.candidate_id, contents_of(submission)),
        )
        self._put(job)
        outcome: Outcome = await job.answer(self._patience)
        return outcome

    async def release(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Judge a held candidate again with a person's approval. Raises what `deny` raises."""
        return await self.run(lambda: self._operating.release(candidate_id, by))

    async def deny(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Refuse a held candidate, and destroy its staging key; return the outcome.

        Raises:
            UnknownCandidate: No held candidate has that id.
        """
        outcome = (await self.deny_many((candidate_id,), by))[candidate_id]
        if outcome is None:
            raise UnknownCandidate("no held candidate of that id")
        return outcome

    async def deny_many(
        self,
        candidate_ids: Sequence[CandidateId],
        by: PrincipalId,
        denial: Denial | None = None,
    ) -> dict[CandidateId, Outcome | None]:
        """Refuse as many held candidates as one short transaction can, at least one.

        `denial` is the person's decision on their lines; without it, one new act denies all lines.
        Returns a mapping of ids to outcomes, None for a candidate that is not held; an id that is
        missing was not decided. The staging keys of refused candidates are erased when this
        returns.
        """
        said = denial or Denial(act=random_bytes(8).hex())
        decided = await self.run(lambda: self._operating.deny_many(candidate_ids, by, said))
        # Keys are not erased on the writer's thread, because each file waits for the disk and
        # writes would wait too.
        await asyncio.to_thread(self._engine.erase_condemned)
        return decided

    async def order(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction; return its answer when it is durable."""
        return await self.run(lambda: self._engine.transact(order.carry_out))

    async def order_together(self, order: Order[Result]) -> Result:
        """Carry out an order in one transaction with all others that wait now."""
        job = Job(asyncio.get_running_loop(), order=order)
        self._put(job)
        result: Result = await job.answer(self._patience)
        return result

    async def adopt_ruleset(self, ruleset: Ruleset, by: PrincipalId) -> Ruleset:
        """Put a ruleset in force for all later verdicts; return it with its epoch.

        A ruleset with another digest than the last one begins a new epoch, with a leaf.
        """
        return await self.run(lambda: self._operating.adopt_ruleset(ruleset, by))

    async def compact(self, by: PrincipalId = THE_STORE) -> int:
        """Rewrite the store without its free pages, which erases purged bytes.

        Returns the bytes saved.
        """
        patience = CallerDeadlines(self._options.compact_timeout_s)
        return await self.run(lambda: self._operating.compact(by), patience)

    async def run(
        self, task: Callable[[], Result], patience: CallerDeadlines | None = None
    ) -> Result:
        """Run one task of the engine on the writer thread, between two batches; return its result.

        Raises:
            StorageError: The task's own error, or an error of `submit`.
        """
        job = Job(asyncio.get_running_loop(), task=task)
        self._put(job)
        result: Result = await job.answer(patience or self._patience)
        return result

    def _put(self, job: Job) -> None:
        if os.getpid() != self._pid:
            raise StoreLocked("the store was opened by another process; open it after the fork")
        if self._closing or self._dead:
            raise StoreUnavailable("the store is closing")
        if self._engine.broken is not None:
            raise StoreUnavailable(self._engine.broken)
        if self._engine.hanging():
            raise StoreUnavailable("the writer does not get on; nothing was written")
        if self._queue.qsize() + self._gathering.count >= self._options.queue_len_max:
            raise StoreUnavailable("the writer's queue is full")
        self._gathering.add(job)

    # ---- what runs on the writer's thread --------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._turn():
                self._housekeep()
            self._last_orders()
        finally:
            # However the thread ended, no caller may wait for ever. A caller whose write was under
            # way gets `OutcomeUnknown`, because the write may be durable.
            self._dead = True
            if not self._closing and self._engine.broken is None:
                self._engine.broken = "the writer thread ended; start again"
            self._abandon()

    def _turn(self) -> bool:
        """Run one batch, or one command, from the queue; return False when asked to stop."""
        try:
            first = self._queue.get(timeout=_IDLE_S)
        except queue.Empty:
            self._engine.parts.staging.renew()
            return True
        if first is None:
            return False
        if first.task is not None:
            self._run_task(first)
            return True
        batch, rest, stop = self._fill(first)
        # Jobs that wait at the same time have no promised order, so all orders run first.
        ordered = [job for job in batch if job.order is not None and job.claim()]
        if ordered:
            self._run_orders(ordered)
        submitted = [job for job in batch if job.arrived is not None and job.claim()]
        if submitted:
            self._run_batch(submitted)
        if rest is not None:
            self._run_task(rest)
        return not stop

    def _fill(self, first: Job) -> tuple[list[Job], Job | None, bool]:
        """Take the waiting candidates and orders up to the limits of a batch, without waiting.

        Returns the batch, the command that ended it, if any, and whether the writer was asked to
        stop.
        """
        batch = [first]
        size = first.weight
        for _ in range(1, self._options.batch_len_max):
            if size >= self._options.batch_bytes_max:
                break
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, None, True
            if job.task is not None:
                return batch, job, False
            batch.append(job)
            size += job.weight
        return batch, None, False

    def _run_batch(self, batch: list[Job]) -> None:
        self._begin(batch)
        started_ns = time.perf_counter_ns()
        arrived = [job.arrived for job in batch if job.arrived is not None]
        sealed = [job.sealed for job in batch if job.sealed is not None]
        outcomes = self._engine.run(arrived, sealed)
        took_us = (time.perf_counter_ns() - started_ns) // 1_000
        answers: list[Answer] = [
            (
                job,
                msgspec.structs.replace(
                    outcome, queued_us=(started_ns - job.queued_ns) // 1_000, commit_us=took_us
                )
                if isinstance(outcome, Outcome)
                else outcome,
            )
            for job, outcome in zip(batch, outcomes, strict=True)
        ]
        self._answer(answers)

    def _run_task(self, job: Job) -> None:
        if job.task is None:
            raise InvariantBroken("a job without work was queued")
        if not job.claim():
            return
        self._begin([job])
        try:
            answer = job.task()
        except StorageError as error:
            answer = error
        self._answer([(job, answer)])

    def _run_orders(self, jobs: list[Job]) -> None:
        self._begin(jobs)
        answers: Sequence[object]
        try:
            answers = self._engine.carry_out([job.order for job in jobs if job.order is not None])
        except StorageError as error:
            answers = [error] * len(jobs)
        self._answer(list(zip(jobs, answers, strict=True)))

    def _begin(self, jobs: list[Job]) -> None:
        self._in_flight = jobs
        self._engine.busy_since_ns = time.monotonic_ns()

    def _answer(self, answers: list[Answer]) -> None:
        self._engine.parts.failpoint("before_answer")
        self._in_flight = []
        self._engine.busy_since_ns = 0
        self._turns += 1
        deliver(answers)

    def _abandon(self) -> None:
        unknown = OutcomeUnknown("the writer ended while this was being written")
        deliver([(job, unknown) for job in self._in_flight])
        self._in_flight = []
        refused = StoreUnavailable("the store is closing")
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                deliver([(job, refused)])

    # ---- tasks between the writes ----------------------------------------------------------------

    def _housekeep(self) -> None:
        now = time.monotonic_ns()
        self._engine.parts.derived.improve_beside()
        if now >= self._checkpoint_due_ns:
            self._checkpoint_due_ns = now + _CHECKPOINT_EVERY_NS
            self._copy_checkpoint()
        if now >= self._retry_due_ns:
            self._retry_due_ns = now + _RETRY_EVERY_NS
            try_again(self._engine)
            self._engine.tidy_held()
        if now >= self._housekeeping_due_ns:
            self._housekeeping_due_ns = now + _HOUSEKEEPING_EVERY_NS
            self._engine.tidy()
            self._operating.expire()
            self._operating.count_stood()
            self._engine.mark_time()
        if now >= self._snapshot_due_ns:
            self._snapshot_due_ns = now + _SNAPSHOT_EVERY_NS
            self._engine.parts.derived.save_beside()

    def _copy_checkpoint(self) -> None:
        engine = self._engine
        try:
            written = self._checkpoint.write(engine.generation.note)
        except OSError as error:
            engine.parts.derived.remarks["checkpoint"] = (
                f"no checkpoint copy can be written: {error.strerror}"
            )
            return
        engine.parts.derived.remarks.pop("checkpoint", None)
        if written:
            engine.parts.failpoint("checkpoint_written")

    def _last_orders(self) -> None:
        """At shutdown, write what has to be on disk when the process ends."""
        self._engine.mark_time()
        self._engine.tidy_held()
        self._copy_checkpoint()
        self._engine.parts.derived.save()
