"""Asks the gate inside the write transaction, and writes its verdict into the transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from policy.canonical import decode_canonical
from policy.checks import contradicted_anchors
from policy.facts import Approval, NonceState, TokenState
from policy.gate import Gate
from policy.model import Candidate, CandidateId, ChangeKind, PrincipalId
from policy.trust.score import OutcomeKind, TrustState
from policy.verdict import Admit, Hold, InvariantBroken, Reason, Reject, Verdict
from storage.audit import (
    SALT_LEN,
    InterceptedLeaf,
    VerdictLeaf,
    commitment,
    culprit_of,
    veiled_target,
)
from storage.ground.errors import StalePermit
from storage.ground.randomness import random_bytes
from storage.staging.staging import Staging
from storage.tables.change import Change
from storage.tables.codec import (
    NO_ORDINAL,
    FirstOutcome,
    HeldRow,
    NonceRecord,
    SealedIntercept,
    decode_evidence,
    encode,
)
from storage.tables.keys import KeyedNames
from storage.tables.names import HELD, NONCES, TOKENS
from storage.tables.rows import held_candidate_of, memory_of
from storage.tables.usage import VERDICT_BYTES, Usage
from storage.values import ADOPTS, THE_STORE, Decision, Denial, Outcome, StagedContents, Submission
from storage.write.candidate_case import (
    CandidateCase,
    evidence_of,
    not_held,
    outcome_of,
    replayed,
)
from storage.write.commit import Committer
from storage.write.fact_gatherer import FactGatherer, Known
from storage.write.held_queue import HeldQueue, QueueChanges, origin_of
from storage.write.line_decisions import LineDecisions, LineRecord
from storage.write.seam import AdmittedCandidate, Follower, LandedRow
from storage.write.trust_intake import OutcomeEvent, TrustIntake

_PLAIN_TARGET: Final = "memories"
_RULESET_DIGEST_LEN: Final = 16


class _Docket(msgspec.Struct, kw_only=True):
    """The state of one candidate while it is being decided, inside the transaction."""

    case: CandidateCase
    candidate: Candidate
    salt: bytes
    intercepted_index: int
    nonce_state: NonceState
    trust: TrustState
    # The version of the memory to change; 0 if there is none.
    target_version: int = 0
    # Whether the change alters a text of a session that had read no foreign text.
    alters_unread: bool = False
    # The anchors that a held candidate contradicts.
    contradicts: tuple[str, ...] = ()
    gate_us: int = 0
    # The person who approved the candidate, if one was asked.
    by: PrincipalId | None = None


class Judge:
    """Decides on candidates inside a transaction. Writer thread only."""

    def __init__(
        self,
        gate: Gate,
        names: KeyedNames,
        staging: Staging,
        usage: Usage,
        followers: Sequence[Follower],
    ) -> None:
        self.usage = usage
        self._gate = gate
        self.observing = gate.observing
        self.followers = followers
        self._names = names
        self._staging = staging
        self.waiting = HeldQueue()
        self.lines = LineDecisions(names)
        self._committer = Committer(gate.required, followers)
        self.intake = TrustIntake(names)
        self.gatherer = FactGatherer(names, usage, self.intake)

    def judge(self, change: Change, case: CandidateCase) -> Outcome:
        """Decide one case, write all that follows into the transaction, and return the outcome.

        Raises:
            StoreCorrupt: A record that the decision needs is damaged.
        """
        submission = case.submission
        intercepted = submission.candidate
        state, first = self.gatherer.nonce_state(change, case)
        if first is not None:
            return self._replayed(change, first, intercepted.principal_id)
        docket = _Docket(
            case=case,
            candidate=intercepted,
            salt=case.held.salt if case.held else random_bytes(SALT_LEN),
            intercepted_index=case.held.row.intercepted_index if case.held else NO_ORDINAL,
            nonce_state=state,
            trust=self.intake.trust(change.draft, intercepted.principal_id),
        )
        verdict = self._decide(change, docket)
        change.around.failpoint("decided")
        if isinstance(verdict, Hold):
            same = self._same(change, intercepted)
            if same is not None:
                return self._waits_already(change, docket, same)
        if case.held is None:
            docket.intercepted_index = self._log_intercepted(change, docket)
        return self._apply(change, docket, verdict)

    def _decide(self, change: Change, docket: _Docket) -> Verdict:
        started = time.perf_counter_ns()
        said = self.lines.said(change, docket.candidate)
        if said.let_in and docket.case.approval is None:
            # This call replaces the released changes, so they end before the facts are read.
            for candidate_id in {one.candidate_id for one in said.let_in}:
                self._overtake(change, candidate_id)
            seen = max(one.target_version for one in said.let_in)
            let_in = Approval(
                by=said.let_in[0].by,
                digest=docket.case.arrived.intercept.digest,
                target_version=seen,
            )
            docket.case = msgspec.structs.replace(docket.case, let_in=let_in)
        approval = docket.case.approval
        docket.by = None if approval is None else approval.by
        known = Known(
            nonce_state=docket.nonce_state, trust=docket.trust, said=said, approval=approval
        )
        facts = self.gatherer.facts(change, docket.case, docket.candidate, known)
        if facts.stored is not None:
            docket.target_version = facts.stored.version
            docket.alters_unread = facts.stored.unread
        verdict = self._gate.decide(docket.candidate, facts, change.around.ruleset)
        if isinstance(verdict, Hold):
            docket.contradicts = contradicted_anchors(
                docket.candidate, facts, change.around.ruleset
            )
        docket.gate_us = (time.perf_counter_ns() - started) // 1_000
        return verdict

    def _replayed(self, change: Change, first: FirstOutcome, principal_id: PrincipalId) -> Outcome:
        trust = self.intake.trust(change.draft, principal_id)
        return replayed(change.draft, self._names, first, trust, change.now_ms)

    def _overtake(self, change: Change, candidate_id: CandidateId) -> None:
        for follower in self.followers:
            follower.overtaken(change, candidate_id)

    def _apply(self, change: Change, docket: _Docket, verdict: Verdict) -> Outcome:
        if docket.case.let_in is not None:
            # A person's release is for one call: whatever the verdict is, the release is used up.
            self.lines.carried_out(change, docket.candidate)
        match verdict:
            case Admit():
                try:
                    return self._admit(change, docket, verdict)
                except StalePermit:
                    # The permit does not fit, so nothing was written. The candidate is refused as
                    # if the gate could not decide.
                    refusal = Reject(
                        reason=Reason.GATE_UNAVAILABLE,
                        step=0,
                        memory_class=docket.candidate.memory_class,
                    )
                    return self._reject(change, docket, refusal)
            case Hold():
                if docket.by is not None:
                    raise InvariantBroken("the gate held a candidate that a person had approved")
                if not self._has_place(change, docket.case.submission):
                    return self._reject(change, docket, not_held(verdict))
                return self._hold(change, docket, verdict)
            case Reject():
                return self._reject(change, docket, verdict)

    def _has_place(self, change: Change, submission: Submission) -> bool:
        """Whether the candidate may be held, after room was made if necessary.

        If the principal has no room left, the oldest hold of the origin with the most holds is
        refused. Otherwise a sender who fills the queue would turn all later holds into refusals.
        """
        principal_id = submission.candidate.principal_id
        if not self.waiting.is_full(change, principal_id):
            return True
        crowding = self.waiting.crowding(change, principal_id, origin_of(submission))
        if crowding is None:
            return False
        self.expire(change, crowding)
        return True

    def expire(self, change: Change, candidate_id: CandidateId) -> None:
        """Refuse a held candidate that no person decided in time, with a leaf."""
        row = change.draft.read(HELD, bytes.fromhex(candidate_id))
        if row is None:
            raise InvariantBroken("a candidate waits that is not held")
        held = held_candidate_of(candidate_id, row)
        contents = self._staging.read_held(candidate_id)
        if contents is not None:
            # The record of the refusal needs no more than the candidate's change, and the trace and
            # session of its write.
            evidence = decode_evidence(contents.evidence)
            held = msgspec.structs.replace(
                held,
                candidate=decode_canonical(contents.canonical),
                trace_id=evidence.trace_id,
                session=evidence.provenance.session,
            )
        outcome = self.deny(change, candidate_id, row, by=THE_STORE, reason=Reason.HOLD_EXPIRED)
        change.of(QueueChanges).expired.append((held, outcome))

    # ---- writing the verdict into the transaction ------------------------------------------------

    def _log_intercepted(self, change: Change, docket: _Docket) -> int:
        submission = docket.case.submission
        candidate = submission.candidate
        plain = candidate.target == _PLAIN_TARGET
        return change.log(
            InterceptedLeaf(
                candidate_id=submission.candidate_id,
                at_ms=submission.intercepted_at_ms,
                principal_id=candidate.principal_id,
                tenant=candidate.tenant,
                target=_PLAIN_TARGET if plain else veiled_target(candidate.target, docket.salt),
                change=candidate.change,
                commitment=commitment(docket.salt, submission.digest),
                nonce_key=docket.case.arrived.nonce_key,
                claimed_source=candidate.claimed_source,
                claimed_class=candidate.memory_class,
                class_named=candidate.class_named,
                ruleset_digest=change.around.ruleset.digest[:_RULESET_DIGEST_LEN],
                trace_id=submission.trace_id,
            )
        )

    def _admit(self, change: Change, docket: _Docket, verdict: Admit) -> Outcome:
        permit = verdict.permit
        submission = docket.case.submission
        if docket.case.staged is None or permit.candidate_id != submission.candidate_id:
            raise StalePermit("the permit is another candidate's")
        judged = AdmittedCandidate(
            candidate=docket.candidate,
            submission=submission,
            canonical=docket.case.staged,
            salt=docket.salt,
            intercepted_index=docket.intercepted_index,
            trust_level=docket.trust.level.value,
            approved_by=docket.by,
            objection=verdict.objection,
            # The waiting caller sends this call itself. A call that a person releases waits until a
            # relay to that server fetches it.
            sent=docket.case.held is None,
            is_there=submission.candidate.principal_id == ADOPTS,
            alters_unread=docket.alters_unread,
        )
        landed = self._committer.commit(change, permit, judged, change.around.ruleset.epoch)
        if docket.case.held is not None:
            self.intake.released(change, submission, landed.row, landed.ordinal)
            if submission.guarded_key is not None and docket.by is not None:
                record = LineRecord(
                    docket.by,
                    submission.candidate_id,
                    change.now_ms,
                    change.header.restores,
                    submission.seen_version,
                )
                for before in self.lines.let_in(change, docket.candidate, record):
                    # Two released changes must not write the same line.
                    self._overtake(change, before)
        if submission.token is TokenState.VALID and submission.token_key is not None:
            change.draft.put(TOKENS, self._names.token(submission.token_key), b"")
        first = FirstOutcome(
            candidate_id=submission.candidate_id,
            decision=Decision.ADMIT,
            reason=None,
            step=None,
            memory_class=landed.row.memory_class,
            source=landed.row.source,
            basis=landed.row.basis,
            passed=tuple(sorted(permit.passed)),
            structural=False,
            version=change.version,
            leaf_index=landed.leaf_index,
            ordinal=landed.ordinal,
        )
        return self._close(change, docket, first, landed, verdict.objection)

    def _reject(self, change: Change, docket: _Docket, verdict: Reject) -> Outcome:
        before = docket.trust
        if verdict.structural:
            docket.trust = self.intake.charge(change, docket.case.submission, before)
        first = self._refusal(change, docket, verdict, Decision.REJECT)
        if docket.trust is not before:
            subject = docket.case.submission.candidate_id
            self._happened(
                change, docket, OutcomeKind.STRUCTURAL_REFUSAL, subject, first.leaf_index
            )
        return self._close(change, docket, first, None)

    def _hold(self, change: Change, docket: _Docket, verdict: Hold) -> Outcome:
        first = self._refusal(change, docket, verdict, Decision.HOLD)
        submission = docket.case.submission
        candidate_id, candidate = submission.candidate_id, docket.candidate
        origin = self.intake.origin_of(candidate, submission.provenance)
        intercept = SealedIntercept(submission.digest, candidate.target, docket.salt)
        row = HeldRow(
            principal_id=candidate.principal_id,
            tenant=candidate.tenant,
            reason=verdict.reason,
            step=verdict.step,
            memory_class=verdict.memory_class,
            source=submission.provenance.source,
            basis=submission.provenance.basis,
            held_at_ms=change.now_ms,
            nonce_key=docket.case.arrived.nonce_key,
            intercepted_index=docket.intercepted_index,
            sealed=self._staging.seal(candidate_id, encode(intercept)),
            origin=origin_of(submission),
            origin_key=b"" if origin is None else origin.key,
            after_reading=submission.provenance.after_reading,
            lines=self.lines.keys(candidate),
        )
        change.draft.write(HELD, bytes.fromhex(candidate_id), row)
        change.held_count += 1
        decided = change.of(QueueChanges)
        decided.came[candidate_id] = row
        decided.kept[candidate_id] = StagedContents(
            canonical=submission.canonical,
            evidence=encode(evidence_of(submission, docket.target_version)),
        )
        return self._close(change, docket, first, None)

    def _same(self, change: Change, candidate: Candidate) -> HeldRow | None:
        found = self.waiting.same(change, self.lines.keys(candidate))
        return None if found is None else change.draft.read(HELD, bytes.fromhex(found))

    def _waits_already(self, change: Change, docket: _Docket, same: HeldRow) -> Outcome:
        """The outcome of an equal candidate that is still held, because none is held twice."""
        spent = change.draft.read(NONCES, same.nonce_key)
        if spent is None:
            raise InvariantBroken("a held candidate has spent no nonce")
        first = spent.outcome
        if docket.nonce_state is NonceState.FRESH:
            arrived = docket.case.arrived
            record = NonceRecord(arrived.binding, first)
            change.draft.write(NONCES, arrived.nonce_key, record)
            change.charges[same.tenant] += VERDICT_BYTES
        return self._replayed(change, first, same.principal_id)

    def _refusal(
        self,
        change: Change,
        docket: _Docket,
        verdict: Hold | Reject,
        decision: Decision,
    ) -> FirstOutcome:
        """Log a verdict that does not admit the candidate; return the outcome to record."""
        submission = docket.case.submission
        structural = isinstance(verdict, Reject) and verdict.structural
        leaf_index = change.log(
            VerdictLeaf(
                candidate_id=submission.candidate_id,
                at_ms=change.now_ms,
                intercepted_index=docket.intercepted_index,
                decision=decision,
                reason=verdict.reason,
                step=verdict.step,
                memory_class=verdict.memory_class,
                source=submission.provenance.source,
                basis=submission.provenance.basis,
                version=change.version,
                # No memory id is written: a client could have chosen any text as the id, and the
                # candidate does not become a memory.
                memory_id=None,
                approved_by=docket.by,
                ruleset_epoch=change.around.ruleset.epoch,
                structural=structural,
                trust_level=docket.trust.level.value,
                culprit=culprit_of(submission.provenance.culprits, submission.candidate),
                session=submission.provenance.session,
            )
        )
        for anchor_id in docket.contradicts:
            kind = OutcomeKind.CONTRADICTED_ANCHOR
            self._happened(change, docket, kind, anchor_id, leaf_index)
        return FirstOutcome(
            candidate_id=submission.candidate_id,
            decision=decision,
            reason=verdict.reason,
            step=verdict.step,
            memory_class=verdict.memory_class,
            source=submission.provenance.source,
            basis=submission.provenance.basis,
            passed=verdict.passed,
            structural=structural,
            version=change.version,
            leaf_index=leaf_index,
            ordinal=NO_ORDINAL,
        )

    def _happened(
        self,
        change: Change,
        docket: _Docket,
        kind: OutcomeKind,
        subject: str,
        cause: int,
    ) -> None:
        """Count a finding of the gate about a candidate as an outcome that may change trust."""
        submission = docket.case.submission
        candidate = submission.candidate
        origin = None
        # The program of the sender did this, and the text that a tool returned did not cause it.
        if kind is not OutcomeKind.STRUCTURAL_REFUSAL:
            origin = self.intake.origin_of(candidate, submission.provenance)
        event = OutcomeEvent(
            kind=kind,
            principal_id=candidate.principal_id,
            tenant=candidate.tenant,
            subject=subject,
            origin=origin,
            cause=cause,
        )
        self.intake.take(change, event)
        docket.trust = self.intake.trust(change.draft, candidate.principal_id)

    def _close(
        self,
        change: Change,
        docket: _Docket,
        first: FirstOutcome,
        landed: LandedRow | None,
        objection: Hold | Reject | None = None,
    ) -> Outcome:
        """Record the outcome with the nonce, and end the candidate's hold; return the outcome."""
        submission = docket.case.submission
        change.charges[submission.candidate.tenant] += VERDICT_BYTES
        if docket.nonce_state is NonceState.FRESH or docket.nonce_state is NonceState.OWN:
            arrived = docket.case.arrived
            record = NonceRecord(arrived.binding, first)
            change.draft.write(NONCES, arrived.nonce_key, record)
        if docket.case.held is not None:
            self._unhold(change, submission.candidate_id)
        gone = landed is None or landed.row.erased or landed.row.change is ChangeKind.DELETE
        memory = None
        if landed is not None and not gone:
            memory = memory_of(landed.row, landed.status, docket.candidate, ordinal=landed.ordinal)
        return outcome_of(
            first, docket.trust, memory=memory, objection=objection, gate_us=docket.gate_us
        )

    def deny(
        self,
        change: Change,
        candidate_id: CandidateId,
        row: HeldRow,
        *,
        by: PrincipalId,
        reason: Reason = Reason.DENIED_BY_PERSON,
        denial: Denial | None = None,
    ) -> Outcome:
        """Refuse a held candidate without judging it: a person decided so, or no one did in time.

        `denial` is the person's decision on the candidate's lines, which are denied from now on.
        """
        contents = None if denial is None else self._staging.read_held(candidate_id)
        if denial is not None and contents is not None:
            candidate = decode_canonical(contents.canonical)
            said = LineRecord(
                by,
                candidate_id,
                change.now_ms,
                change.header.restores,
                tenant=candidate.tenant,
                principal_id=candidate.principal_id,
            )
            self.lines.deny(change, candidate, said, denial)
        trust = self.intake.trust(change.draft, row.principal_id)
        leaf_index = change.log(
            VerdictLeaf(
                candidate_id=candidate_id,
                at_ms=change.now_ms,
                intercepted_index=row.intercepted_index,
                decision=Decision.REJECT,
                reason=reason,
                step=row.step,
                memory_class=row.memory_class,
                source=row.source,
                basis=row.basis,
                version=change.version,
                memory_id=None,
                approved_by=by,
                ruleset_epoch=change.around.ruleset.epoch,
                structural=False,
                trust_level=trust.level.value,
            )
        )
        first = FirstOutcome(
            candidate_id=candidate_id,
            decision=Decision.REJECT,
            reason=reason,
            step=row.step,
            memory_class=row.memory_class,
            source=row.source,
            basis=row.basis,
            passed=(),
            structural=False,
            version=change.version,
            leaf_index=leaf_index,
            ordinal=NO_ORDINAL,
        )
        if reason is Reason.DENIED_BY_PERSON and by != THE_STORE:
            self.intake.denied(change, row, leaf_index)
            trust = self.intake.trust(change.draft, row.principal_id)
        spent = change.draft.read(NONCES, row.nonce_key)
        if spent is not None:
            change.draft.write(NONCES, row.nonce_key, NonceRecord(spent.binding, first))
        self._unhold(change, candidate_id)
        return outcome_of(first, trust)

    def _unhold(self, change: Change, candidate_id: CandidateId) -> None:
        if not change.draft.delete(HELD, bytes.fromhex(candidate_id)):
            raise InvariantBroken("a candidate was decided that is not held")
        change.held_count -= 1
        change.of(QueueChanges).gone.add(candidate_id)
