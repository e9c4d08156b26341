"""One candidate with all that is known of it, and the outcome that was recorded for a candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from policy.canonical import decode_canonical
from policy.facts import Approval, InterceptRecord
from policy.labels.derive import read_candidate
from policy.model import (
    CandidateId,
    ChangeKind,
    Digest,
    Memory,
    MemoryStatus,
    PrincipalId,
)
from policy.trust.score import TrustState
from policy.verdict import Hold, Reason, Reject
from storage.ground.clock import Due
from storage.tables.codec import (
    NO_ORDINAL,
    FirstOutcome,
    HeldEvidence,
    HeldRow,
    StagedEvidence,
    decode_evidence,
    decode_staged,
    encode,
)
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.names import NONCES
from storage.tables.rows import is_expired, memory_of, read_id, read_row
from storage.values import Outcome, StagedContents, Submission

_BUDGETS: Final = 9


class HeldCase(msgspec.Struct, frozen=True, kw_only=True):
    """The stored facts about a held candidate at the time when it is judged again."""

    row: HeldRow
    salt: bytes
    approval: Approval


class ArrivedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate that waits for its verdict; its text is in staging alone.

    These fields are stored apart from staging (MWP 3.2, check 7). `nonce_key` and `binding` are
    keyed hashes of the candidate as it was intercepted. If they were computed from the staged
    bytes, an attacker in staging could spend the nonce of another principal.
    """

    candidate_id: CandidateId
    # (7) The interceptor's own record.
    intercept: InterceptRecord
    nonce_key: bytes
    binding: bytes
    due: Due | None = None
    welcome: Callable[[], bool] | None = None
    approved_by: PrincipalId | None = None

    @classmethod
    def of(
        cls, submission: Submission, intercept: InterceptRecord, names: KeyedNames
    ) -> ArrivedCandidate:
        """The fields of a submission that are stored apart from staging."""
        candidate = submission.candidate
        return cls(
            candidate_id=submission.candidate_id,
            intercept=intercept,
            nonce_key=names.nonce(candidate.principal_id, candidate.nonce),
            binding=names.binding(candidate, submission.digest),
            due=submission.due,
            welcome=submission.welcome,
            approved_by=submission.approved_by,
        )


class CandidateCase(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate before the gate, with all that is known of it, as read back from staging.

    `arrived` was stored apart from staging. `staged` is None if the staged bytes must not be
    judged.
    """

    submission: Submission
    staged: bytes | None
    arrived: ArrivedCandidate
    held: HeldCase | None = None
    # The approval of a candidate whose lines a person released before the candidate came.
    let_in: Approval | None = None

    @property
    def approval(self) -> Approval | None:
        """The approval by a person who was shown these bytes; None if no person was asked."""
        if self.held is not None:
            return self.held.approval
        if self.let_in is not None:
            return self.let_in
        if self.arrived.approved_by is None:
            return None
        return Approval(
            by=self.arrived.approved_by,
            digest=self.arrived.intercept.digest,
            target_version=self.submission.seen_version,
        )


def contents_of(submission: Submission) -> StagedContents:
    """The content of a submission for staging: all that a verdict, a row and a leaf are made of."""
    evidence = StagedEvidence(
        held=evidence_of(submission, submission.seen_version),
        reading=submission.reading,
        text_after=submission.text_after,
        repeats_hidden=submission.repeats_hidden,
    )
    return StagedContents(canonical=submission.canonical, evidence=encode(evidence))


def staged_submission(arrived: ArrivedCandidate, contents: StagedContents) -> Submission:
    """The submission as read from staging, with the digest that the interceptor recorded.

    Raises:
        msgspec.MsgspecError: The staged bytes are no candidate.
    """
    digest = arrived.intercept.digest
    evidence = decode_staged(contents.evidence)
    return _submission(arrived.candidate_id, contents.canonical, digest, evidence, arrived.due)


def held_submission(
    candidate_id: CandidateId, contents: StagedContents, digest: Digest
) -> Submission:
    """The submission of a held candidate, with a new reading of its text.

    Raises:
        msgspec.MsgspecError: The held bytes are no candidate.
    """
    held = decode_evidence(contents.evidence)
    reading = read_candidate(decode_canonical(contents.canonical))
    evidence = StagedEvidence(held=held, reading=reading, text_after=None)
    return _submission(candidate_id, contents.canonical, digest, evidence)


def _submission(
    candidate_id: CandidateId,
    canonical: bytes,
    digest: Digest,
    staged: StagedEvidence,
    due: Due | None = None,
) -> Submission:
    evidence = staged.held
    return Submission(
        candidate_id=candidate_id,
        candidate=decode_canonical(canonical),
        canonical=canonical,
        digest=digest,
        provenance=evidence.provenance,
        intercepted_at_ms=evidence.intercepted_at_ms,
        reading=staged.reading,
        text_after=staged.text_after,
        repeats_hidden=staged.repeats_hidden,
        due=due,
        token=evidence.token,
        token_key=evidence.token_key,
        shadow=evidence.shadow,
        budget=evidence.budget,
        vector=evidence.vector,
        embedder_id=evidence.embedder_id,
        trace_id=evidence.trace_id,
        guarded_key=evidence.guarded_key,
        guarded_blob=evidence.guarded_blob,
        seen_version=evidence.target_version,
    )


def evidence_of(submission: Submission, target_version: int) -> HeldEvidence:
    """The evidence that is stored with a submission that waits for a person."""
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
        target_version=target_version,
        guarded_key=submission.guarded_key,
        guarded_blob=submission.guarded_blob,
    )


def outcome_of(
    first: FirstOutcome,
    trust: TrustState,
    *,
    memory: Memory | None = None,
    objection: Hold | Reject | None = None,
    replayed: bool = False,
    gate_us: int = 0,
) -> Outcome:
    """The outcome to return for a first verdict that was recorded under its nonce."""
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
        memory=memory,
        trust=trust,
        objection=objection,
        replayed=replayed,
        gate_us=gate_us,
    )


def not_held(verdict: Hold) -> Reject:
    """The refusal of a candidate that would be held if its principal had room for more (step 9)."""
    return Reject(
        reason=Reason.QUOTA_EXCEEDED,
        step=_BUDGETS,
        memory_class=verdict.memory_class,
        passed=tuple(number for number in verdict.passed if number != _BUDGETS),
    )


def replayed(
    view: View, names: KeyedNames, first: FirstOutcome, trust: TrustState, now_ms: int
) -> Outcome:
    """The recorded verdict for a repeated request, with the memory as the verdict wrote it."""
    outcome = outcome_of(first, trust, replayed=True)
    if first.ordinal == NO_ORDINAL:
        return outcome
    row = read_row(view, first.ordinal)
    if row.erased or row.change is ChangeKind.DELETE:
        return outcome
    known = read_id(view, names.memory(row.tenant, row.memory_id))
    if known is None or known.status is not MemoryStatus.LIVE or is_expired(row, now_ms):
        # A memory that was deleted, quarantined or expired since its verdict is not returned,
        # because it does not exist for the agent any more.
        return outcome
    return msgspec.structs.replace(
        outcome, memory=memory_of(row, known.status, ordinal=first.ordinal)
    )


def recorded(view: View, arrived: ArrivedCandidate) -> FirstOutcome | None:
    """The store's record of this very request; None if the request was never committed."""
    record = view.read(NONCES, arrived.nonce_key)
    return None if record is None or record.binding != arrived.binding else record.outcome
