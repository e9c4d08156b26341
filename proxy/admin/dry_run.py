"""Dry run: the gate's answer to a write, without staging, logging or storing it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from policy.canonical import canonical_bytes, digest_of
from policy.checks import STEPS
from policy.facts import AnchorProbe, BudgetState, Facts, InterceptRecord, NonceState, TokenState
from policy.gate import Gate
from policy.labels.derive import derive_provenance, is_lowered, named_class, read_text
from policy.labels.seen import Seen
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    MemoryClass,
    Principal,
    PrincipalId,
    SourceKind,
    Tenant,
)
from policy.ruleset import Ruleset
from policy.text.language import words_that_fired
from policy.trust.score import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reason, Reject, Verdict
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.dry_run import EXPLAIN, ExplainRequest, ExplainStep, ExplainView
from proxy.seams.observations import observation_for

# The id that a dry run gives its candidate. Real candidates have random ids, so 32 zeros are never
# one of theirs.
NOBODY: Final = CandidateId("0" * 32)


class Explainer(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the gate itself about a hypothetical write.

    The gate may answer with a permit to commit. It is dropped, because only the writer can use one.
    """

    gate: Gate
    probe: Callable[[Tenant, str, float], tuple[AnchorProbe, ...] | None]

    def explain(self, asked: ExplainRequest, rules: Ruleset, now_ms: int) -> ExplainView:
        """Verdict and steps for a hypothetical write with a fresh nonce and an empty budget."""
        principal = Principal(
            principal_id=PrincipalId("explain"),
            tenant=Tenant(asked.tenant),
            channel=asked.channel,
            claims=asked.claims,
        )
        candidate = Candidate(
            change=ChangeKind.CREATE,
            principal_id=principal.principal_id,
            tenant=principal.tenant,
            nonce="explain",
            text=asked.text,
            memory_class=asked.memory_class,
            class_named=asked.class_named,
            claimed_source=asked.source,
        )
        facts = self._facts(asked, principal, candidate, rules, now_ms)
        verdict = self.gate.decide(candidate, facts, rules)
        return _view(verdict, candidate, facts)

    def _facts(
        self,
        asked: ExplainRequest,
        principal: Principal,
        candidate: Candidate,
        rules: Ruleset,
        now_ms: int,
    ) -> Facts:
        digest = digest_of(canonical_bytes(candidate))
        reading = read_text(asked.text, None)
        margin = rules.anchors.outrank_margin
        return Facts(
            candidate_id=NOBODY,
            now_ms=now_ms,
            staged_digest=digest,
            intercept=InterceptRecord(
                candidate_id=NOBODY,
                digest=digest,
                principal_id=principal.principal_id,
                tenant=principal.tenant,
                target=candidate.target,
            ),
            provenance=derive_provenance(
                principal,
                candidate,
                None,
                Seen(called=True) if asked.called else None,
            ),
            reading=reading,
            trust=TrustState(level=TrustLevel(asked.trust)),
            origin_trust=None,
            nonce=NonceState.FRESH,
            token=TokenState.VALID if asked.token else TokenState.ABSENT,
            shadow=self.probe(principal.tenant, asked.text, margin),
            budget=BudgetState(
                writes_in_window_count=0, text_bytes=len(asked.text.encode()), metadata_bytes=0
            ),
            overdue=False,
            denied=False,
            denied_today=False,
            repeats_hidden=False,
        )


def _view(verdict: Verdict, candidate: Candidate, facts: Facts) -> ExplainView:
    passed = frozenset(verdict.permit.passed if isinstance(verdict, Admit) else verdict.passed)
    failed = None if isinstance(verdict, Admit) else verdict.step
    stopped = isinstance(verdict, Reject)
    steps: list[ExplainStep] = []
    for step in STEPS:
        if step.number == failed:
            outcome = "failed"
        elif step.number in passed:
            outcome = "passed"
        else:
            # The gate names a step that failed, and none behind a rejection. After a hold the later
            # steps run on, so a step that is neither passed nor named would hold as well.
            outcome = "not_reached" if stopped else "failed"
        steps.append(ExplainStep(step=step.number, name=step.name, outcome=outcome))
    source = facts.provenance.source if facts.provenance else None
    basis = facts.provenance.basis if facts.provenance else None
    decision, reason, memory_class = _said(verdict)
    lowered = is_lowered(candidate.change, named_class(candidate), memory_class)
    return ExplainView(
        remedy=None if reason is None else _remedy(reason, source, memory_class),
        decision=decision,
        reason=reason.value if reason else None,
        step=failed,
        memory_class=memory_class,
        source=source,
        basis=basis,
        steps=tuple(steps),
        observation=observation_for(decision, reason, memory_class, lowered=lowered),
    )


class DryRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Judges hypothetical writes by the rules in force. Event loop only."""

    explainer: Explainer
    in_force: Callable[[], Ruleset]
    now_ms: Callable[[], int]

    @route(EXPLAIN)
    async def explain(self, call: OperatorCall[ExplainRequest]) -> ExplainView:
        """Judge a hypothetical write; nothing is staged, logged or stored."""
        view = self.explainer.explain(call.asked, self.in_force(), self.now_ms())
        return await asyncio.to_thread(with_words, view, call.asked)


def with_words(view: ExplainView, asked: ExplainRequest) -> ExplainView:
    """The view with the words for which a refused text counts as an order. Run it in a thread.

    Long texts take long to search.
    """
    fired = None if view.decision == "admit" else words_that_fired(asked.text)
    return msgspec.structs.replace(view, fired=fired)


def fired_in(candidate: Candidate) -> str | None:
    """The words that make a candidate count as an order, from any of its texts and names."""
    scope = candidate.scope
    for text in (
        *(candidate.text, candidate.metadata_json, candidate.target, candidate.role),
        *(candidate.actor, scope.user_id, scope.agent_id, scope.run_id, scope.app_id),
    ):
        fired = None if text is None else words_that_fired(text)
        if fired is not None:
            return fired
    return None


_NO_SETTING: Final = "what counts as an order is no setting: reword it as a fact"
REMEDIES: Final[dict[Reason, str]] = {
    Reason.CLASS_FLOOR: f"{_NO_SETTING}, or let a person release it (`mnemogate review`)",
    Reason.DIRECTIVE_LANGUAGE: _NO_SETTING,
    Reason.INJECTION_LANGUAGE: _NO_SETTING,
    Reason.TRUST_INSUFFICIENT: "mend its program, then `mnemogate trust restore PRINCIPAL`",
    Reason.TRUST_SOFT_SCORE: "`[trust.soft_score_min]` of the ruleset, or `trust restore`",
    Reason.TRUST_LATCHED: "`trust show --history` says why; a probation, or `trust restore`",
    Reason.PROMOTION_TOKEN_MISSING: "`mnemogate token mint`, or a person's confirmation",
    Reason.REPEATS_HIDDEN: "`mnemogate memory parole`, or a person's own word",
    Reason.CONTRADICTS_ANCHOR: "the anchor: `mnemogate anchor list`, `mnemogate anchor put`",
    Reason.OUTRANKS_ANCHOR: "the anchor, or `outrank_margin` of [anchors] of the ruleset",
    Reason.OVERSIZE: "`text_bytes_max` of [budgets] of the ruleset",
}
"""What lets an honest text in, for the reasons that a text of one's own can meet."""


def _remedy(reason: Reason, source: SourceKind | None, memory_class: MemoryClass) -> str:
    if reason is Reason.SOURCE_CLASS_FORBIDDEN and source is not None:
        cell = f"`{source.value}.{memory_class.value}` in [matrix] of the ruleset"
        return f"name no class, or L3; or change {cell}"
    return REMEDIES.get(reason, "docs/reasons.md says what it means")


def _said(verdict: Verdict) -> tuple[str, Reason | None, MemoryClass]:
    match verdict:
        case Admit(permit=permit):
            return "admit", None, permit.memory_class
        case Hold(reason=reason, memory_class=memory_class):
            return "hold", reason, memory_class
        case Reject(reason=reason, memory_class=memory_class):
            return "reject", reason, memory_class
