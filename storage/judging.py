"""Gathers the exact facts inside the write transaction, asks the gate, and applies its answer."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

import msgspec

from policy.canonical import decode_canonical, digest_of
from policy.facts import Facts, InterceptRecord, NonceState, TargetState, TokenState
from policy.model import Basis, ChangeKind, MemoryStatus, SourceKind, meet
from policy.trust import NEWCOMER, TrustState, after_violation
from policy.verdict import Admit, Hold, InvariantBroken, Reason, Reject
from storage.audit import SALT_LEN, InterceptedLeaf, VerdictLeaf, commitment, veiled_target
from storage.codec import (
    NO_ORDINAL,
    FirstOutcome,
    HeldEvidence,
    HeldRow,
    NonceRecord,
    SealedIntercept,
    TrustRecord,
    decode_nonce,
    decode_trust,
    encode,
)
from storage.commit import Committer, Judged, Landed
from storage.errors import StalePermit
from storage.interfaces import Decision, Outcome, Submission
from storage.keys import named_incarnation
from storage.lmdb_store import CHARGES, HELD, NONCES, TOKENS, TRUST
from storage.rows import memory_of, read_id, read_row, trust_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.facts import Approval
    from policy.gate import Gate
    from policy.model import Candidate, CandidateId, PrincipalId
    from policy.ruleset import Ruleset
    from policy.verdict import Permit, Verdict
    from storage.change import Change
    from storage.keys import KeyedNames
    from storage.lmdb_store import View
    from storage.staging import Staging

_PLAIN_TARGET: Final = "memories"
_RULESET_DIGEST_LEN: Final = 16


class HeldCase(msgspec.Struct, frozen=True, kw_only=True):
    """What a held candidate brings along when it is judged again."""

    row: HeldRow
    salt: bytes
    approval: Approval


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate before the gate: the evidence, and what staging holds of it now.

    `intercept` is the interceptor's own record, kept apart from staging.
    """

    submission: Submission
    intercept: InterceptRecord | None
    staged: bytes | None
    held: HeldCase | None = None


class _Docket(msgspec.Struct, kw_only=True):
    """One case while it is being decided."""

    case: Case
    candidate: Candidate
    salt: bytes
    intercepted_index: int
    nonce_key: bytes
    nonce_state: NonceState
    trust: TrustState
    gate_us: int = 0

    @property
    def by(self) -> PrincipalId | None:
        return self.case.held.approval.by if self.case.held else None


class Judge:
    """Decides cases inside a change. Writer thread only."""

    def __init__(
        self,
        gate: Gate,
        names: KeyedNames,
        staging: Staging,
        failpoint: Callable[[str], None],
    ) -> None:
        self._gate = gate
        self._names = names
        self._staging = staging
        self._failpoint = failpoint
        self._committer = Committer(names, gate.required, failpoint)

    def judge(self, change: Change, case: Case, ruleset: Ruleset) -> Outcome:
        """The outcome of one case, with everything it changes put into the transaction.

        Raises:
            lmdb.Error: The transaction is lost.
            StoreCorrupt: A value it needs is damaged.
        """
        submission = case.submission
        intercepted = submission.candidate
        nonce_key = self._names.nonce(intercepted.principal_id, intercepted.nonce)
        state, first = self._nonce_state(change, case, nonce_key)
        if first is not None:
            change.finished.append(submission.candidate_id)
            return self.replayed(change.draft, first, intercepted.principal_id)
        docket = _Docket(
            case=case,
            candidate=_staged_candidate(case),
            salt=case.held.salt if case.held else os.urandom(SALT_LEN),
            intercepted_index=case.held.row.intercepted_index if case.held else NO_ORDINAL,
            nonce_key=nonce_key,
            nonce_state=state,
            trust=self.trust(change.draft, intercepted.principal_id),
        )
        if case.held is None:
            docket.intercepted_index = self._log_intercepted(change, docket, ruleset)
        verdict = self._decide(change, docket, ruleset)
        self._failpoint("decided")
        return self._apply(change, docket, verdict, ruleset)

    def _decide(self, change: Change, docket: _Docket, ruleset: Ruleset) -> Verdict:
        started = time.perf_counter_ns()
        facts = self._facts(change, docket)
        verdict = self._gate.decide(docket.candidate, facts, ruleset)
        docket.gate_us = (time.perf_counter_ns() - started) // 1_000
        return verdict

    def _apply(
        self, change: Change, docket: _Docket, verdict: Verdict, ruleset: Ruleset
    ) -> Outcome:
        match verdict:
            case Admit(permit=permit):
                try:
                    return self._admit(change, docket, permit, ruleset)
                except StalePermit:
                    # Nothing was put: a permit that does not fit is a gate that could not decide.
                    refusal = Reject(
                        reason=Reason.GATE_UNAVAILABLE,
                        step=0,
                        memory_class=docket.candidate.memory_class,
                    )
                    return self._reject(change, docket, refusal, ruleset)
            case Hold():
                if docket.case.held is not None:
                    raise InvariantBroken("the gate held a candidate that a person had approved")
                return self._hold(change, docket, verdict, ruleset)
            case Reject():
                return self._reject(change, docket, verdict, ruleset)

    # ---- facts ---------------------------------------------------------------------------------

    def _nonce_state(
        self, change: Change, case: Case, nonce_key: bytes
    ) -> tuple[NonceState, FirstOutcome | None]:
        """(5) What the store knows of the nonce, and the first outcome for an equal request."""
        if case.held is not None:
            return NonceState.OWN, None
        candidate = case.submission.candidate
        incarnation = named_incarnation(candidate.nonce)
        if incarnation is None and change.before.restores > 0:
            # The nonces spent since the backup are not in it: an unbound one may be a replay.
            return NonceState.FOREIGN_INCARNATION, None
        if incarnation is not None and incarnation != change.before.incarnation_name:
            return NonceState.FOREIGN_INCARNATION, None
        payload = change.draft.get(NONCES, nonce_key)
        if payload is None:
            return NonceState.FRESH, None
        record = decode_nonce(payload)
        if record.binding == self._names.binding(candidate, case.submission.digest):
            return NonceState.SPENT, record.outcome
        return NonceState.SPENT, None

    def _facts(self, change: Change, docket: _Docket) -> Facts:
        case, submission = docket.case, docket.case.submission
        return Facts(
            candidate_id=submission.candidate_id,
            now_ms=change.now_ms,
            staged_digest=None if case.staged is None else digest_of(case.staged),
            intercept=case.intercept,
            provenance=submission.provenance,
            reading=submission.reading,
            trust=docket.trust,
            nonce=docket.nonce_state,
            token=self._token_state(change, submission),
            shadow=submission.shadow,
            budget=submission.budget,
            drift_alarms=(),
            stored=self._stored(change, docket.candidate),
            lineage=self._lineage(change, docket.candidate),
            approval=case.held.approval if case.held else None,
        )

    def _token_state(self, change: Change, submission: Submission) -> TokenState:
        # (6) A token is single-use: its spending is in this very store, in the same transaction as
        #     the commit that used it.
        if submission.token is TokenState.VALID and (
            submission.token_key is None
            or change.draft.has(TOKENS, self._names.token(submission.token_key))
        ):
            return TokenState.SPENT
        return submission.token

    def _stored(self, change: Change, candidate: Candidate) -> TargetState | None:
        if candidate.memory_id is None:
            return None
        known = read_id(change.draft, self._names.memory(candidate.tenant, candidate.memory_id))
        if known is None or known.status is MemoryStatus.DELETED:
            # A deleted memory can still be purged: its text is in the history until then.
            if known is None or candidate.change is not ChangeKind.PURGE:
                return None
            if read_row(change.draft, known.ordinal).erased:
                return None
        row = read_row(change.draft, known.ordinal)
        return TargetState(source=row.source, memory_class=row.memory_class, status=known.status)

    def _lineage(self, change: Change, candidate: Candidate) -> SourceKind | None:
        lowest: SourceKind | None = None
        for memory_id in candidate.derived_from:
            known = read_id(change.draft, self._names.memory(candidate.tenant, memory_id))
            # What cannot be looked up was perhaps purged: nobody knows how far it was trusted.
            source = SourceKind.UNKNOWN
            if known is not None and known.status is MemoryStatus.LIVE:
                source = read_row(change.draft, known.ordinal).source
            lowest = source if lowest is None else meet(lowest, source)
        return lowest

    def trust(self, view: View, principal_id: PrincipalId) -> TrustState:
        """The trust of one principal."""
        payload = view.get(TRUST, self._names.principal(principal_id))
        return NEWCOMER if payload is None else trust_of(decode_trust(payload))

    def put_trust(self, change: Change, principal_id: PrincipalId, trust: TrustState) -> None:
        """Replace the trust of one principal."""
        record = TrustRecord(
            principal_id, trust.level, trust.violations_count, trust.good, trust.bad
        )
        change.draft.put(TRUST, self._names.principal(principal_id), encode(record))

    def _charge(self, change: Change, docket: _Docket) -> TrustState:
        """Count a structural violation; one (nonce, digest) counts once."""
        submission = docket.case.submission
        key = self._names.charge(submission.candidate, submission.digest)
        if change.draft.has(CHARGES, key):
            return docket.trust
        change.draft.put(CHARGES, key, b"")
        trust = after_violation(docket.trust)
        self.put_trust(change, submission.candidate.principal_id, trust)
        return trust

    # ---- applying ------------------------------------------------------------------------------

    def _log_intercepted(self, change: Change, docket: _Docket, ruleset: Ruleset) -> int:
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
                nonce_key=docket.nonce_key,
                claimed_source=candidate.claimed_source,
                claimed_class=candidate.memory_class,
                class_named=candidate.class_named,
                ruleset_digest=ruleset.digest[:_RULESET_DIGEST_LEN],
                trace_id=submission.trace_id,
            )
        )

    def _admit(self, change: Change, docket: _Docket, permit: Permit, ruleset: Ruleset) -> Outcome:
        submission = docket.case.submission
        if docket.case.staged is None or permit.candidate_id != submission.candidate_id:
            raise StalePermit("the permit is another candidate's")
        provenance = submission.provenance
        lowered = permit.source.trust < provenance.source.trust
        judged = Judged(
            candidate=docket.candidate,
            canonical=docket.case.staged,
            salt=docket.salt,
            basis=Basis.LINEAGE if lowered else provenance.basis,
            intercepted_index=docket.intercepted_index,
            trust_level=docket.trust.level.value,
            vector=submission.vector,
            embedder_id=submission.embedder_id,
            approved_by=docket.by,
        )
        landed = self._committer.commit(change, permit, judged, ruleset.epoch)
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
        return self._close(change, docket, first, landed)

    def _reject(
        self, change: Change, docket: _Docket, verdict: Reject, ruleset: Ruleset
    ) -> Outcome:
        if verdict.structural:
            docket.trust = self._charge(change, docket)
        first = self._refusal(change, docket, verdict, ruleset, Decision.REJECT)
        return self._close(change, docket, first, None)

    def _hold(self, change: Change, docket: _Docket, verdict: Hold, ruleset: Ruleset) -> Outcome:
        first = self._refusal(change, docket, verdict, ruleset, Decision.HOLD)
        submission = docket.case.submission
        candidate_id, candidate = submission.candidate_id, docket.candidate
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
            nonce_key=docket.nonce_key,
            intercepted_index=docket.intercepted_index,
            sealed=self._staging.seal(candidate_id, encode(intercept)),
        )
        change.draft.put(HELD, bytes.fromhex(candidate_id), encode(row))
        change.held_count += 1
        change.kept[candidate_id] = encode(_evidence_of(submission))
        return self._close(change, docket, first, None)

    def _refusal(
        self,
        change: Change,
        docket: _Docket,
        verdict: Hold | Reject,
        ruleset: Ruleset,
        decision: Decision,
    ) -> FirstOutcome:
        """Log a verdict that admits nothing; the outcome it stands for."""
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
                # The client's own words, of a candidate that is not a memory.
                memory_id=None,
                approved_by=docket.by,
                ruleset_epoch=ruleset.epoch,
                structural=structural,
                trust_level=docket.trust.level.value,
            )
        )
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

    def _close(
        self, change: Change, docket: _Docket, first: FirstOutcome, landed: Landed | None
    ) -> Outcome:
        """Spend the nonce, end the wait of a held candidate, and say what became of it."""
        submission = docket.case.submission
        if docket.nonce_state in {NonceState.FRESH, NonceState.OWN}:
            binding = self._names.binding(submission.candidate, submission.digest)
            record = NonceRecord(binding, first)
            change.draft.put(NONCES, docket.nonce_key, encode(record))
        if docket.case.held is not None:
            self._unhold(change, submission.candidate_id)
        if first.decision is not Decision.HOLD:
            change.finished.append(submission.candidate_id)
        return msgspec.structs.replace(
            _outcome(first, docket.trust),
            memory=None
            if landed is None or landed.row.erased or landed.row.change is ChangeKind.DELETE
            else memory_of(landed.row, landed.status),
            gate_us=docket.gate_us,
        )

    # ---- other ways to an outcome --------------------------------------------------------------

    def deny(
        self,
        change: Change,
        candidate_id: CandidateId,
        row: HeldRow,
        ruleset: Ruleset,
        by: PrincipalId,
    ) -> Outcome:
        """Refuse a held candidate without looking at it: a person said no, or it is lost."""
        trust = self.trust(change.draft, row.principal_id)
        leaf_index = change.log(
            VerdictLeaf(
                candidate_id=candidate_id,
                at_ms=change.now_ms,
                intercepted_index=row.intercepted_index,
                decision=Decision.REJECT,
                reason=Reason.DENIED_BY_PERSON,
                step=row.step,
                memory_class=row.memory_class,
                source=row.source,
                basis=row.basis,
                version=change.version,
                memory_id=None,
                approved_by=by,
                ruleset_epoch=ruleset.epoch,
                structural=False,
                trust_level=trust.level.value,
            )
        )
        first = FirstOutcome(
            candidate_id=candidate_id,
            decision=Decision.REJECT,
            reason=Reason.DENIED_BY_PERSON,
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
        spent = change.draft.get(NONCES, row.nonce_key)
        if spent is not None:
            record = NonceRecord(decode_nonce(spent).binding, first)
            change.draft.put(NONCES, row.nonce_key, encode(record))
        self._unhold(change, candidate_id)
        change.finished.append(candidate_id)
        return _outcome(first, trust)

    def _unhold(self, change: Change, candidate_id: CandidateId) -> None:
        if not change.draft.delete(HELD, bytes.fromhex(candidate_id)):
            raise InvariantBroken("a candidate was decided that is not held")
        change.held_count -= 1

    def replayed(self, view: View, first: FirstOutcome, principal_id: PrincipalId) -> Outcome:
        """The first verdict of an equal request, given again, with the memory as it was then."""
        outcome = _outcome(first, self.trust(view, principal_id), replayed=True)
        if first.ordinal == NO_ORDINAL:
            return outcome
        row = read_row(view, first.ordinal)
        if row.erased or row.change is ChangeKind.DELETE:
            return outcome
        known = read_id(view, self._names.memory(row.tenant, row.memory_id))
        if known is None or known.status is not MemoryStatus.LIVE:
            # Deleted or quarantined since: it does not exist for the agent any more.
            return outcome
        return msgspec.structs.replace(outcome, memory=memory_of(row, known.status))

    def first_outcome(self, view: View, submission: Submission) -> Outcome | None:
        """What the store recorded for this very submission; None if it never committed."""
        candidate = submission.candidate
        payload = view.get(NONCES, self._names.nonce(candidate.principal_id, candidate.nonce))
        if payload is None:
            return None
        record = decode_nonce(payload)
        if record.binding != self._names.binding(candidate, submission.digest):
            return None
        outcome = self.replayed(view, record.outcome, candidate.principal_id)
        mine = record.outcome.candidate_id == submission.candidate_id
        return msgspec.structs.replace(outcome, replayed=not mine)


def _staged_candidate(case: Case) -> Candidate:
    """What staging holds is what is judged; its digest decides whether it is what was sent."""
    submission = case.submission
    if case.staged is None or case.staged == submission.canonical:
        return submission.candidate
    try:
        return decode_canonical(case.staged)
    except msgspec.MsgspecError:
        return submission.candidate


def _evidence_of(submission: Submission) -> HeldEvidence:
    return HeldEvidence(
        provenance=submission.provenance,
        intercepted_at_ms=submission.intercepted_at_ms,
        token=submission.token,
        token_key=submission.token_key,
        shadow=submission.shadow,
        budget=submission.budget,
        vector=submission.vector,
        embedder_id=submission.embedder_id,
        trace_id=submission.trace_id,
    )


def _outcome(first: FirstOutcome, trust: TrustState, *, replayed: bool = False) -> Outcome:
    return Outcome(
        candidate_id=first.candidate_id,
        decision=first.decision,
        reason=first.reason,
        step=first.step,
        memory_class=first.memory_class,
        source=first.source,
        basis=first.basis,
        passed=first.passed,
        structural=first.structural,
        version=first.version,
        leaf_index=first.leaf_index,
        memory=None,
        trust=trust,
        replayed=replayed,
    )
