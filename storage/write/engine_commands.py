"""The decisions of people about a store as a whole: held candidates, rules, erasure.

Writer thread only. Each decision adds a leaf. None changes the store's version, except a release
that is admitted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.facts import Approval, InterceptRecord
from policy.model import CandidateId, PrincipalId
from policy.ruleset import Ruleset
from storage.ground.errors import StorageError, StoreCorrupt, UnknownCandidate
from storage.tables.change import Change
from storage.tables.codec import HeldRow, decode_intercept
from storage.tables.lmdb_store import View
from storage.tables.names import HELD
from storage.tables.rows import held_key
from storage.values import (
    MODE_ENFORCE,
    MODE_OBSERVE,
    THE_STORE,
    Denial,
    Outcome,
)
from storage.write.candidate_case import ArrivedCandidate, CandidateCase, HeldCase, held_submission
from storage.write.engine import Engine
from storage.write.held_queue import QueueChanges

_EXPIRED_AT_ONCE: Final = 256
# The time limit of one transaction that refuses held candidates; other writes wait for its end.
_REFUSING_NS: Final = 5_000_000


class EngineCommands:
    """Commands of one engine. Writer thread only. Each raises what `Engine.transact` raises."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # ---- decisions on held candidates ------------------------------------------------------------

    def release(self, candidate_id: CandidateId, by: PrincipalId) -> Outcome:
        """Judge a held candidate again, with a person's approval; return the outcome.

        Raises:
            UnknownCandidate: No held candidate has that id.
        """
        engine = self._engine
        row = self._held(candidate_id)
        case = self._reopened(candidate_id, row, by)
        if case is None:
            return self._lost(candidate_id, row)

        def work(change: Change) -> Outcome:
            return engine.parts.judge.judge(change, case)

        outcome = engine.transact(work)
        engine.erase_if_due()
        return outcome

    def deny_many(
        self, candidate_ids: Sequence[CandidateId], by: PrincipalId, denial: Denial
    ) -> dict[CandidateId, Outcome | None]:
        """Refuse as many of these held candidates as one short transaction can, at least one.

        Returns a mapping of ids to outcomes, None for a candidate that is not held; an id that is
        missing was not decided. The keys of refused candidates are deleted from memory, and the
        caller erases the key files (`Engine.erase_condemned`).
        """
        engine = self._engine
        judge = engine.parts.judge

        def work(change: Change) -> dict[CandidateId, Outcome | None]:
            change.of(QueueChanges).asker_erases = True
            decided: dict[CandidateId, Outcome | None] = {}
            until_ns = time.monotonic_ns() + _REFUSING_NS
            for one in candidate_ids:
                row = _held_row(change.draft, one)
                decided[one] = None
                if row is not None:
                    decided[one] = judge.deny(change, one, row, by=by, denial=denial)
                if time.monotonic_ns() >= until_ns:
                    break
            return decided

        return engine.transact(work) if candidate_ids else {}

    def _lost(self, candidate_id: CandidateId, row: HeldRow) -> Outcome:
        engine = self._engine

        def work(change: Change) -> Outcome:
            return engine.parts.judge.deny(change, candidate_id, row, by=THE_STORE)

        return engine.transact(work)

    def _held(self, candidate_id: CandidateId) -> HeldRow:
        with self._engine.parts.store.reading() as view:
            row = _held_row(view, candidate_id)
        if row is None:
            raise UnknownCandidate("no held candidate of that id")
        return row

    def _reopened(
        self, candidate_id: CandidateId, row: HeldRow, by: PrincipalId
    ) -> CandidateCase | None:
        """The held candidate with its evidence; None if staging has lost a part of it."""
        staging = self._engine.parts.staging
        contents = staging.read_held(candidate_id)
        sealed = staging.unseal(candidate_id, row.sealed)
        if contents is None or sealed is None:
            return None
        try:
            intercept = decode_intercept(sealed)
            submission = held_submission(candidate_id, contents, intercept.digest)
        except msgspec.MsgspecError as error:
            raise StoreCorrupt("a held candidate cannot be read") from error
        record = InterceptRecord(
            candidate_id=candidate_id,
            digest=intercept.digest,
            principal_id=row.principal_id,
            tenant=row.tenant,
            target=intercept.target,
        )
        approval = Approval(by=by, digest=intercept.digest, target_version=submission.seen_version)
        held = HeldCase(row=row, salt=intercept.salt, approval=approval)
        return CandidateCase(
            submission=submission,
            staged=contents.canonical,
            arrived=ArrivedCandidate.of(submission, record, self._engine.parts.names),
            held=held,
        )

    def reconcile(self) -> tuple[str, ...]:
        """Make staging and the table of held candidates agree after a crash; return remarks.

        A candidate that is staged but not held was never decided, and is destroyed. A candidate
        that is held but not staged is lost, and is refused with a leaf.
        """
        engine = self._engine
        staging = engine.parts.staging
        with engine.parts.store.reading() as view:
            held = {CandidateId(key.hex()): row for key, row in view.records(HELD)}
        engine.parts.judge.waiting.adopt(held.items(), ())
        engine.destroy(sorted((staging.staged_ids() | staging.held_ids()) - held.keys()))
        staging.sweep()
        lost = [
            (candidate_id, row)
            for candidate_id, row in held.items()
            if self._reopened(candidate_id, row, THE_STORE) is None
        ]
        for candidate_id, row in lost:
            self._lost(candidate_id, row)
        return (f"{len(lost)} held candidates were lost and are refused",) if lost else ()

    def expire(self) -> None:
        """Refuse candidates that no person decided within thirty days, a limited number at once."""
        engine = self._engine
        judge, now_ms = engine.parts.judge, engine.parts.clock()
        overdue = judge.waiting.overdue(now_ms)[:_EXPIRED_AT_ONCE]
        if not overdue:
            return

        def work(change: Change) -> None:
            for candidate_id in overdue:
                judge.expire(change, candidate_id)

        # An error is ignored here, because a candidate that is still held is refused the next time.
        with contextlib.suppress(StorageError):
            engine.transact(work)

    def count_stood(self) -> None:
        """Count releases that no one took back within seven days, a limited number at a time."""
        engine = self._engine
        intake = engine.parts.judge.intake
        # An error is ignored here, because a release that was not counted is counted the next time.
        with contextlib.suppress(StorageError):
            with engine.parts.store.reading() as view:
                due = intake.is_due(view, engine.parts.clock())
            if due:
                engine.transact(intake.stood)

    # ---- decisions on rules and erasure ----------------------------------------------------------

    def adopt_ruleset(self, ruleset: Ruleset, by: PrincipalId) -> Ruleset:
        """Put a ruleset in force; one that differs gets a new epoch. Return it with its epoch.

        Raises:
            StorageError: The earlier ruleset is still in force.
        """
        engine = self._engine
        header = engine.generation.header
        if ruleset.digest == header.ruleset_digest:
            engine.ruleset = msgspec.structs.replace(ruleset, epoch=header.epoch)
            return engine.ruleset
        adopted = msgspec.structs.replace(ruleset, epoch=header.epoch + 1)

        def work(change: Change) -> None:
            change.header = msgspec.structs.replace(
                change.header, epoch=adopted.epoch, ruleset_digest=adopted.digest
            )
            change.note("ruleset.adopt", ruleset.digest, by, f"epoch {adopted.epoch}")

        engine.transact(work)
        engine.ruleset = adopted
        return adopted

    def compact(self, by: PrincipalId) -> int:
        """Log the act and rewrite the store without free pages; return the bytes saved."""

        def work(change: Change) -> None:
            change.note("store.compact", "store", by, "")

        self._engine.transact(work)
        return self._engine.erase()

    def adopt_mode(self, *, observing: bool) -> None:
        """Record, with a leaf, whether the gate enforces from now on or only observes."""
        if self._engine.generation.header.observing is observing:
            return
        action = MODE_OBSERVE if observing else MODE_ENFORCE

        def work(change: Change) -> None:
            change.header = msgspec.structs.replace(change.header, observing=observing)
            change.note(action, "store", THE_STORE, "")

        self._engine.transact(work)

    def note(self, action: str, subject: str, detail: str, by: PrincipalId = THE_STORE) -> None:
        """Append a leaf about an act that concerns the store as a whole."""

        def work(change: Change) -> None:
            change.note(action, subject, by, detail)

        self._engine.transact(work)


def _held_row(view: View, candidate_id: CandidateId) -> HeldRow | None:
    key = held_key(candidate_id)
    return None if key is None else view.read(HELD, key)
