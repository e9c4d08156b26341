"""Gates and a writer that are wrong on purpose: without some steps, or the paper's B0 and LateGate.

They show what each defence is worth by leaving it out. They are not installed with the program,
which imports nothing of `tests`: no flag, variable or file of it composes any of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from policy.canonical import canonical_bytes, digest_of
from policy.checks import STEPS, Aim, Finding, Step, digest_integrity
from policy.facts import Facts, TokenState
from policy.gate import GATE, Gate
from policy.labels.derive import NOTHING_READ
from policy.model import Basis, Candidate, CandidateId, ChangeKind, MemoryId, Provenance, SourceKind
from policy.ruleset import Ruleset
from policy.verdict import Admit, Hold, Reject, Verdict
from storage.interfaces import Store
from storage.values import Decision, Outcome, Submission

Verifier = Callable[[Submission], "Hold | Reject | None"]
Between = Callable[[Submission], Awaitable[None]]


def _passes(_candidate: Candidate, _facts: Facts, _aim: Aim) -> Finding:
    return None


def unsafe_gate_without(numbers: frozenset[int]) -> Gate:
    """A gate that leaves out the steps of the given numbers."""
    return Gate(tuple(step for step in STEPS if step.number not in numbers))


def unsafe_gate_that_admits_all() -> Gate:
    """B0: a gate with one step, which never objects."""
    return Gate((Step(number=0, name="nothing", check=_passes),))


class UnsafeLateGate(Gate):
    """LateGate's first half: it admits every write, and keeps the facts for judging after it."""

    __slots__ = ("_cases",)

    def __init__(self) -> None:
        super().__init__((Step(number=0, name="nothing", check=_passes),))
        self._cases: dict[CandidateId, tuple[Candidate, Facts, Ruleset]] = {}

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        """Admit the candidate, and keep it with its facts for `verify`."""
        if candidate.change is not ChangeKind.PURGE:
            self._cases[facts.candidate_id] = (candidate, facts, ruleset)
        return super().decide(candidate, facts, ruleset)

    def verify(self, submission: Submission) -> Hold | Reject | None:
        """The real gate's objection to the facts of a write that is durable by now.

        None for none.
        """
        case = self._cases.pop(submission.candidate_id, None)
        if case is None:
            return None
        verdict = GATE.decide(*case)
        return None if isinstance(verdict, Admit) else verdict


class UnsafeMislabelledGate(Gate):
    """The real gate steps, shown labels that noise has changed.

    Integrity is judged on the true ones.

    `noise` gives the candidate and facts that the steps are shown. It must not change the evidence
    about the bytes: digest, record and nonce.
    """

    __slots__ = ("_noise", "_true")

    def __init__(
        self, noise: Callable[[Candidate, Facts], tuple[Candidate, Facts]], steps: tuple[Step, ...]
    ) -> None:
        self._true: dict[CandidateId, Candidate] = {}
        self._noise = noise
        super().__init__(
            tuple(
                msgspec.structs.replace(step, check=self._digest)
                if step.check is digest_integrity
                else step
                for step in steps
            )
        )

    def _digest(self, _shown: Candidate, facts: Facts, aim: Aim) -> Finding:
        return digest_integrity(self._true[facts.candidate_id], facts, aim)

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        """Judge the candidate and facts as the noise has changed them."""
        self._true[facts.candidate_id] = candidate
        try:
            return super().decide(*self._noise(candidate, facts), ruleset)
        finally:
            del self._true[facts.candidate_id]


async def _nothing(_submission: Submission) -> None:
    return


class UnsafeLateWriter:
    """Writes first, then checks the durable memory, and rolls back a write that does not pass.

    Rolling back is the strongest thing the store has: a purge, which erases rows and vectors and
    rewrites the file. `between` runs after the write and before its verification.
    """

    def __init__(self, store: Store, verify: Verifier) -> None:
        self._store = store
        self._writer = store.writer
        self._verify = verify
        self.between: Between = _nothing

    async def submit(self, submission: Submission) -> Outcome:
        """Write, verify and perhaps roll back; the outcome as a client of such a system gets it."""
        written = await self._writer.submit(submission)
        if written.decision is not Decision.ADMIT or written.replayed:
            return written
        await self.between(submission)
        objection = self._verify(submission)
        if objection is None:
            return written
        memory = written.memory
        if memory is not None:
            await self._writer.submit(self._purge(submission, memory.memory_id))
        return msgspec.structs.replace(
            written,
            decision=Decision.REJECT if isinstance(objection, Reject) else Decision.HOLD,
            reason=objection.reason,
            step=objection.step,
            memory_class=objection.memory_class,
            passed=objection.passed,
            structural=isinstance(objection, Reject) and objection.structural,
            memory=None,
            version=self._store.reader.status().version,
        )

    def _purge(self, submission: Submission, memory_id: MemoryId) -> Submission:
        rejected = submission.candidate
        candidate = Candidate(
            change=ChangeKind.PURGE,
            principal_id=rejected.principal_id,
            tenant=rejected.tenant,
            nonce=f"rollback-{submission.candidate_id}",
            target=rejected.target,
            memory_id=memory_id,
        )
        canonical = canonical_bytes(candidate)
        return Submission(
            candidate_id=CandidateId(digest_of(canonical).hex()[:32]),
            candidate=candidate,
            canonical=canonical,
            digest=digest_of(canonical),
            provenance=Provenance(source=SourceKind.OPERATOR, basis=Basis.CHANNEL),
            intercepted_at_ms=submission.intercepted_at_ms,
            reading=NOTHING_READ,
            token=TokenState.ABSENT,
            token_key=None,
            shadow=(),
            budget=submission.budget,
            vector=b"",
            embedder_id=submission.embedder_id,
            trace_id=submission.trace_id,
        )
