"""The transactions of the embedded store: stage, judge, commit, and recover from disk errors.

All of this module runs on the writer thread. The order of steps makes the store safe
(docs/architecture.md): a candidate is staged, then judged inside the transaction that would commit
it. A held candidate is made durable in staging before the commit. After the commit the keys of
decided candidates are destroyed, then the index is updated, then the callers are answered.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Never, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from policy.model import CandidateId, ChangeKind
from policy.ruleset import Ruleset
from storage.derived.keeper import DerivedState
from storage.derived.vectors.faiss_index import BadVector, check_each
from storage.ground.errors import (
    CredentialEnded,
    OutcomeUnknown,
    QuotaReached,
    StorageError,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    TransactionFailed,
)
from storage.staging.staging import Staging
from storage.tables.change import Change, ChangeContext, Generation
from storage.tables.codec import StoreHeader
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import Draft, LmdbStore, View
from storage.values import Decision, HeldCandidate, Outcome, Sealed
from storage.write.candidate_case import (
    ArrivedCandidate,
    CandidateCase,
    recorded,
    staged_submission,
)
from storage.write.held_queue import QueueChanges
from storage.write.judge import Judge
from storage.write.seam import Order

Result = TypeVar("Result")

_STAGING_RESERVE_BYTES: Final = 16 * 1024 * 1024
_TIME_MARKED_EVERY_MS: Final = 60_000


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of which an engine is composed."""

    store: LmdbStore
    staging: Staging
    names: KeyedNames
    judge: Judge
    derived: DerivedState
    signer: Ed25519PrivateKey
    origin: str
    clock: Callable[[], int]
    failpoint: Callable[[str], None]


def _unheard(_held: HeldCandidate, _outcome: Outcome) -> None:
    """Do nothing: the default for callers that need no report of holds that expired."""


class Engine:
    """The transactions of one open store. Writer thread only, except for its public attributes.

    `generation`, `ruleset` and `broken` are replaced as a whole, so that any thread may read them.
    """

    def __init__(
        self,
        parts: Parts,
        generation: Generation,
        ruleset: Ruleset,
        durable: StoreHeader | None,
    ) -> None:
        """`durable` is the header on disk; `generation` may be ahead of it during a transaction."""
        self.parts = parts
        self.generation = generation
        self._durable = durable
        self.ruleset = ruleset
        # The reason why nothing may be written any more; None while writes are possible.
        self.broken: str | None = None
        # The disk's error at the last write, if the disk refused the write; None after a write that
        # succeeded. A full disk is not the store's quota: another program may have filled the disk.
        self.refused: str | None = None
        # When the writer began its current work (monotonic clock, ns); 0 while it is idle.
        self.busy_since_ns = 0
        # The seconds after which no further job may be queued if the current job has not ended.
        self.patience_s = 10.0
        # Whether purged bytes stay in the file until it is rewritten.
        self.unerased = False
        # Maps each mark of changes (`Change.moved`) to the number of durable changes with it. A
        # count grows before its change is answered, so what was read under another count is stale.
        self.moves: Counter[bytes] = Counter()
        # The function that is called for each hold that expired, once the refusal is durable.
        self.expired: Callable[[HeldCandidate, Outcome], None] = _unheard
        # Purged ordinals whose vectors may still be in the index and in the files of the index.
        self._erased: list[int] = []

    # ---- handling submitted candidates -----------------------------------------------------------

    def run(
        self, batch: Sequence[ArrivedCandidate], sealed: Sequence[Sealed]
    ) -> list[Outcome | StorageError]:
        """Judge a batch; return the outcome of each candidate, in order, when it is durable.

        `sealed` are the same candidates, encrypted for staging: the judge reads them back from
        staging, by their ids. A failure of the whole batch is returned for each of its candidates.
        """
        self.parts.failpoint("intercepted")
        outcomes: list[Outcome | StorageError]
        try:
            self._refuse_if_broken()
            if self.parts.staging.bytes_free() < _STAGING_RESERVE_BYTES:
                raise StoreUnavailable("too many held candidates wait for a person")
            self.parts.staging.put(sealed)
            self.parts.failpoint("staged")
            outcomes = self._judge_batch(batch)
        except StorageError as error:
            outcomes = [error] * len(batch)
        finally:
            self.parts.staging.forget([one.candidate_id for one in batch])
        self.erase_if_due()
        return outcomes

    def erase_if_due(self) -> None:
        """Erase purged bytes, if there are any, before the purge is answered."""
        if not self.unerased:
            return
        with contextlib.suppress(StorageError):
            # An error here is only reported: the purge is durable, and its answer is correct.
            # `status` shows that bytes are left, and the next start or `compact` erases them.
            self.erase()

    def _judge_batch(self, batch: Sequence[ArrivedCandidate]) -> list[Outcome | StorageError]:
        held = self.parts.staging.held_ids()
        try:
            cases = self._cases(batch, held)
            if len(batch) > 1 and self._must_free(cases):
                # A deletion that frees no room is rolled back together with its whole transaction.
                # So such a deletion is judged in a transaction of its own.
                return [self._judge_batch([one])[0] for one in batch]
            outcomes = self._judge(batch, cases)
        except StoreCorrupt as error:
            self._destroy_new(held)
            # A damaged row must not refuse the other candidates of the batch, so each candidate is
            # then judged by itself.
            return [error] if len(batch) == 1 else [self._judge_batch([one])[0] for one in batch]
        except StorageError as error:
            self._destroy_new(held)
            return [error] * len(batch)
        self.refused = None
        return outcomes

    def _judge(
        self, batch: Sequence[ArrivedCandidate], cases: Sequence[CandidateCase | StorageError]
    ) -> list[Outcome | StorageError]:
        self.parts.failpoint("before_transaction")
        outcomes: list[Outcome | StorageError] = []

        def work(change: Change) -> list[Outcome | StorageError]:
            # If dead readers had filled the store's map, `work` runs a second time, so it must
            # begin with an empty list.
            outcomes.clear()
            change.of(QueueChanges).judged = tuple([one.candidate_id for one in batch])
            outcomes.extend(
                [
                    self._judge_one(change, case) if isinstance(case, CandidateCase) else case
                    for case in cases
                ]
            )
            return outcomes

        def confirmed(view: View) -> bool:
            return all(
                self._recorded(view, one, outcome)
                for one, outcome in zip(batch, outcomes, strict=True)
            )

        return self.transact(work, confirmed)

    def _judge_one(self, change: Change, case: CandidateCase) -> Outcome | StorageError:
        # The credential is checked on the thread that also records the revocation of a key, so that
        # one of the two is certainly first.
        welcome = case.arrived.welcome
        if welcome is not None and not welcome():
            return CredentialEnded("the key ended")
        judge = self.parts.judge
        refusal = judge.usage.no_room(case.submission.candidate, change)
        if refusal is not None:
            return refusal
        outcome = judge.judge(change, case)
        freed = outcome.decision is Decision.ADMIT or outcome.replayed
        if not freed and self._must_free([case]):
            raise QuotaReached("full: a deletion that takes nothing away is not recorded")
        return outcome

    def _must_free(self, cases: Sequence[CandidateCase | StorageError]) -> bool:
        """Whether one of the cases is a deletion that is allowed only if it frees room."""
        ending = [
            case.submission.candidate
            for case in cases
            if isinstance(case, CandidateCase)
            and case.submission.candidate.change is ChangeKind.DELETE
        ]
        room = self.parts.store.quota_bytes - self.generation.bytes_used
        return any(self.parts.judge.usage.must_free(one, room) for one in ending)

    def _cases(
        self, batch: Sequence[ArrivedCandidate], held: frozenset[CandidateId]
    ) -> list[CandidateCase | StorageError]:
        """Each candidate as read back from staging, or the error for one that cannot be read."""
        staging = self.parts.staging
        cases: list[CandidateCase | StorageError] = []
        for one, contents in zip(
            batch, staging.read([one.candidate_id for one in batch]), strict=True
        ):
            try:
                if contents is None:
                    raise StoreUnavailable("what was staged cannot be read; nothing was written")
                submission = staged_submission(one, contents)
            except msgspec.MsgspecError:
                cases.append(StoreUnavailable("what was staged is no candidate"))
            except StorageError as error:
                cases.append(error)
            else:
                # A candidate that a person was shown under this id must not be replaced by another
                # one.
                staged = None if one.candidate_id in held else contents.canonical
                cases.append(CandidateCase(submission=submission, staged=staged, arrived=one))
        return self._with_good_vectors(cases)

    def _with_good_vectors(
        self, cases: list[CandidateCase | StorageError]
    ) -> list[CandidateCase | StorageError]:
        """The cases, with an error in place of each whose vector the index would refuse."""
        vectors = [
            case.submission.vector
            for case in cases
            if isinstance(case, CandidateCase) and case.submission.vector
        ]
        try:
            check_each(vectors, self.generation.header.dimension)
        except BadVector as error:
            if len(cases) == 1:
                return [error]
            return [one for case in cases for one in self._with_good_vectors([case])]
        return cases

    def _recorded(self, view: View, one: ArrivedCandidate, outcome: Outcome | StorageError) -> bool:
        """Whether the store's record of the nonce agrees with the outcome."""
        if isinstance(outcome, StorageError):
            return True
        found = recorded(view, one)
        # If another request spent the nonce, the record is of that request and is no evidence about
        # this one.
        return found is None or found.leaf_index == outcome.leaf_index

    def _destroy_new(self, held: frozenset[CandidateId]) -> None:
        """Destroy the keys of candidates that were not held after all.

        After an unknown outcome the keys are kept, because the holds may be durable.
        """
        if self.broken is None:
            self.destroy(self.parts.staging.held_ids() - held)

    # ---- running one transaction -----------------------------------------------------------------

    def transact(
        self,
        work: Callable[[Change], Result],
        confirmed: Callable[[View], bool] | None = None,
    ) -> Result:
        """Run `work` in one write transaction, make it durable and visible, and return its result.

        Raises:
            StoreUnavailable: The disk refused; nothing was written.
            OutcomeUnknown: The transaction may be durable, and the store could not be reopened to
                find out.
        """
        self._refuse_if_broken()
        try:
            return self._transacted(work, confirmed)
        except QuotaReached:
            raise
        except StoreUnavailable as error:
            self.refused = str(error)
            raise

    def carry_out(self, orders: Sequence[Order[Result]]) -> list[Result | StorageError]:
        """Carry out orders in one transaction; return the answer of each, in order.

        If one order fails, each order is carried out in a transaction of its own.
        """
        try:
            return list(self.transact(lambda change: [one.carry_out(change) for one in orders]))
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except StorageError as error:
            if len(orders) == 1:
                return [error]
            return [self.carry_out([one])[0] for one in orders]

    def _transacted(
        self, work: Callable[[Change], Result], confirmed: Callable[[View], bool] | None
    ) -> Result:
        try:
            try:
                return self._attempt(work, confirmed)
            except StoreFull:
                # Dead readers keep pages from being reused. The map is really full only if there
                # are none.
                if not self.parts.store.reader_check():
                    raise StoreUnavailable("the store's map is full") from None
            return self._attempt(work, confirmed)
        except TransactionFailed as error:
            self._reopen_after(error)
            raise StoreUnavailable(f"the disk refused; nothing was written: {error}") from error

    def _attempt(
        self, work: Callable[[Change], Result], confirmed: Callable[[View], bool] | None
    ) -> Result:
        parts = self.parts
        with parts.store.begin() as draft:
            self._refuse_if_overtaken(draft)
            around = ChangeContext(
                names=parts.names,
                ruleset=self.ruleset,
                room_bytes=parts.store.quota_bytes - self.generation.bytes_used,
                failpoint=parts.failpoint,
            )
            change = Change(draft, self.generation, parts.clock(), around)
            result = work(change)
            queue = change.of(QueueChanges)
            if queue.kept:
                # Staging becomes durable before the store: a hold that survives a crash needs its
                # candidate.
                parts.staging.hold(queue.kept)
            parts.judge.usage.record(change)
            after = change.finish(parts.origin, parts.signer)
            if parts.store.overtaken(draft):
                self._stop_beside_another()
            try:
                parts.failpoint("before_commit")
                draft.commit()
                parts.failpoint("after_commit")
            except TransactionFailed as error:
                draft.abort()
                # Whether or not the commit is durable, caches must read the store again.
                self.moves.update(change.moved)
                self._find_out(after, confirmed, error)
        self._adopt(change, queue, after)
        return result

    def _refuse_if_overtaken(self, draft: Draft) -> None:
        """Stop if another process has changed the store's files.

        Raises:
            StoreUnavailable: Another process has written to the store; writing has ended.
        """
        if self.parts.store.overtaken(draft) or draft.header() != self._durable:
            self._stop_beside_another()

    def _stop_beside_another(self) -> Never:
        self.broken = (
            "another process has written to this state directory, or exchanged it: stop all gates "
            "on it, run `mnemogate audit verify`, and start one"
        )
        raise StoreUnavailable(self.broken)

    def _find_out(
        self, after: Generation, confirmed: Callable[[View], bool] | None, error: TransactionFailed
    ) -> None:
        """Reopen the store after a failed commit; return if the transaction is durable anyway.

        Raises:
            StoreUnavailable: The transaction is not durable; nothing was written.
            OutcomeUnknown: The store could not be reopened, or contradicts itself.
        """
        self._reopen_after(error)
        with contextlib.suppress(StoreCorrupt), self.parts.store.reading() as view:
            header = view.header()
            if header == after.header:
                if confirmed is None or confirmed(view):
                    return
            elif header == self.generation.header:
                raise StoreUnavailable(f"the disk refused; nothing was written: {error}") from error
        self.broken = "after a failed commit the store is neither as before nor as after it"
        raise OutcomeUnknown(self.broken) from error

    def _reopen_after(self, error: TransactionFailed) -> None:
        try:
            self.parts.store.reopen()
        except StorageError as failure:
            self.broken = f"the disk failed ({error}) and the store could not be reopened"
            raise OutcomeUnknown(self.broken) from failure

    def _adopt(self, change: Change, queue: QueueChanges, after: Generation) -> None:
        """Update memory, staging and indexes after a durable commit, before callers get answers."""
        parts = self.parts
        self._durable = after.header
        self.generation = after
        if queue.came or queue.gone:
            parts.judge.waiting.adopt(queue.came.items(), queue.gone)
        parts.judge.usage.adopt(change)
        for mark in change.moved:
            self.moves[mark] += 1
        parts.staging.forget(queue.judged)
        if queue.asker_erases:
            parts.staging.condemn(queue.gone)
        elif queue.gone:
            self.destroy(queue.gone)
        parts.failpoint("key_destroyed")
        self._erased.extend(change.index.erased)
        self.unerased = self.unerased or bool(change.index.erased)
        parts.derived.follow(after.header, change.index)
        parts.failpoint("index_swapped")
        for held, outcome in queue.expired:
            self.expired(held, outcome)

    def destroy(self, candidate_ids: Iterable[CandidateId]) -> None:
        """Destroy keys of held candidates; a key file that cannot be removed stops all writing."""
        try:
            self.parts.staging.destroy(candidate_ids)
        except OSError as error:
            self._keep_no_key(error)

    def erase_condemned(self) -> None:
        """Erase the keys of held candidates that were refused together. Any thread.

        A key file that cannot be removed stops all writing. The refusals are durable and are
        reported as such, because an error would mean to the caller that nothing was written.
        """
        try:
            self.parts.staging.erase()
        except OSError as error:
            self._keep_no_key(error)

    def _keep_no_key(self, error: OSError) -> None:
        self.broken = f"a held candidate's key could not be destroyed: {error.strerror}"

    def busy_s(self) -> float:
        """Seconds since the writer began its current work; 0 while it is idle."""
        since = self.busy_since_ns
        return (time.monotonic_ns() - since) / 1e9 if since else 0.0

    def hanging(self) -> bool:
        """Whether the writer's current work has taken longer than any caller waits."""
        since = self.busy_since_ns
        return since > 0 and time.monotonic_ns() - since > self.patience_s * 1e9

    def _refuse_if_broken(self) -> None:
        if self.broken is not None:
            raise StoreUnavailable(self.broken)

    # ---- housekeeping of the store ---------------------------------------------------------------

    def tidy(self) -> None:
        """Free the slots of dead readers, and retry an erasure that failed."""
        try:
            self.parts.store.reader_check()
        except TransactionFailed as error:
            self.parts.derived.remarks["readers"] = f"dead readers cannot be cleared: {error}"
        if self.broken is None:
            self.erase_if_due()
            # A journal that stays long is tried again, and its failure is that of the next write.
            with contextlib.suppress(StorageError):
                self.parts.store.shorten_journal()

    def tidy_held(self) -> None:
        """Erase the keys of held candidates that were refused together, if their caller is gone."""
        staging = self.parts.staging
        if not staging.erasing:
            self.erase_condemned()
        staging.tidy()

    def mark_time(self) -> None:
        """Write the present time, if no transaction did so in the last minute."""
        since_ms = self.parts.clock() - self.generation.header.time_ms
        if self.broken is None and since_ms >= _TIME_MARKED_EVERY_MS:
            with contextlib.suppress(StorageError):
                self.transact(lambda _change: None)

    # ---- erasing purged bytes --------------------------------------------------------------------

    def erase(self) -> int:
        """Rewrite the store without free pages, and the index without purged vectors.

        Returns:
            Bytes saved in the store's file.

        Raises:
            StoreUnavailable: The disk refused; purged content is hidden, but not yet erased.
            OutcomeUnknown: The disk refused; purged content is hidden, and nothing more may be
                written until the next start.
        """
        # While a large store is still being indexed after the start, a view is open on the file, so
        # that the file cannot be replaced.
        self.parts.derived.wait()
        try:
            saved = self.parts.store.compact()
            self.parts.derived.drop(self._erased)
        except OutcomeUnknown as error:
            self.broken = str(error)
            raise
        except OSError as error:
            raise StoreUnavailable(f"the index's files cannot be rewritten: {error}") from error
        self._erased.clear()

        def work(change: Change) -> None:
            change.draft.mark_unerased(unerased=False)

        self.transact(work)
        self.unerased = False
        return saved
