"""The gate asked about a write that never happens, on facts made up for it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from policy.canonical import canonical_bytes, digest_of
from policy.checks import STEPS
from policy.facts import BudgetState, Facts, InterceptRecord, NonceState, TokenState
from policy.gate import GATE
from policy.labels import derive_provenance, effective_class, read_text
from policy.model import (
    Basis,
    Candidate,
    CandidateId,
    ChangeKind,
    Claims,
    Principal,
    PrincipalId,
    Provenance,
    SourceKind,
    Tenant,
)
from policy.trust import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reject
from proxy.admin_wire import ExplainStep, ExplainView
from proxy.observations import observation_for

if TYPE_CHECKING:
    from policy.labels import Reading
    from policy.ruleset import Ruleset
    from policy.verdict import Verdict
    from proxy.admin_wire import ExplainRequest

_WHO: Final = PrincipalId("hypothetical")


def judge(request: ExplainRequest, ruleset: Ruleset) -> ExplainView:
    """The verdict of the real gate, with every other fact as good as it can be.

    No anchors, no budget used, a fresh nonce; label, class, trust and token are the request's.
    """
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=_WHO,
        tenant=Tenant(request.tenant),
        nonce="hypothetical",
        text=request.text,
        memory_class=request.memory_class,
        class_named=request.class_named,
    )
    reading = read_text(request.text, None)
    provenance = _provenance(request, candidate)
    verdict = GATE.decide(candidate, _facts(request, candidate, reading, provenance), ruleset)
    decision = _DECISIONS[type(verdict)]
    reason = None if isinstance(verdict, Admit) else verdict.reason
    landing = effective_class(candidate, reading, None)
    return ExplainView(
        decision=decision,
        reason=None if reason is None else reason.value,
        step=None if isinstance(verdict, Admit) else verdict.step,
        memory_class=landing,
        source=provenance.source,
        basis=provenance.basis,
        steps=_steps(verdict),
        observation=None if reason is None else observation_for(decision, reason, landing),
    )


_DECISIONS: Final = {Admit: "admit", Hold: "hold", Reject: "reject"}


def _facts(
    request: ExplainRequest, candidate: Candidate, reading: Reading, provenance: Provenance
) -> Facts:
    data = canonical_bytes(candidate)
    candidate_id = CandidateId(secrets.token_hex(16))
    return Facts(
        candidate_id=candidate_id,
        now_ms=0,
        staged_digest=digest_of(data),
        intercept=InterceptRecord(
            candidate_id=candidate_id,
            digest=digest_of(data),
            principal_id=candidate.principal_id,
            tenant=candidate.tenant,
            target=candidate.target,
        ),
        provenance=provenance,
        reading=reading,
        trust=TrustState(level=TrustLevel(request.trust)),
        nonce=NonceState.FRESH,
        token=TokenState.VALID if request.token else TokenState.ABSENT,
        shadow=(),
        budget=BudgetState(
            writes_in_window_count=0, text_bytes=len(request.text.encode()), metadata_bytes=0
        ),
        drift_alarms=(),
    )


def _provenance(request: ExplainRequest, candidate: Candidate) -> Provenance:
    principal = Principal(
        principal_id=_WHO,
        tenant=candidate.tenant,
        channel=request.channel,
        claims=request.claims,
    )
    derived = derive_provenance(principal, candidate, None)
    if request.source is None:
        return derived
    basis = derived.basis
    if request.claims is Claims.TRUSTED:
        basis = Basis.VOUCHED
    elif request.source is SourceKind.UNKNOWN:
        basis = Basis.UNJOINED
    elif basis is Basis.UNJOINED:
        # What a model front would have seen: the source is known from the session.
        basis = Basis.TAINT
    return Provenance(source=request.source, basis=basis)


def _steps(verdict: Verdict) -> tuple[ExplainStep, ...]:
    """Every step in the order the gate runs them."""
    if isinstance(verdict, Admit):
        passed = verdict.permit.passed
        stopped = None
    else:
        passed = frozenset(verdict.passed)
        stopped = verdict.step if isinstance(verdict, Reject) else None
    steps: list[ExplainStep] = []
    over = False
    for step in STEPS:
        outcome = "passed" if step.number in passed else "not_reached" if over else "failed"
        steps.append(ExplainStep(step=step.number, name=step.name, outcome=outcome))
        over = over or step.number == stopped
    return tuple(steps)
