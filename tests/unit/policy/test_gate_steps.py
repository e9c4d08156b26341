"""Each step decides through the gate: a step that is there and asked in vain would be none."""

from __future__ import annotations

import msgspec
import pytest

from policy.checks import STEPS, Step
from policy.facts import BudgetState
from policy.gate import GATE
from policy.model import CandidateId, MemoryClass, PrincipalId, SourceKind, Tenant
from policy.ruleset import Cell
from policy.trust.ladder import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reason, Reject
from tests.property.gate_cases import RULESET, Labels, case_of, finding_of

CANDIDATE, FACTS = case_of(Labels())


def test_control_the_case_is_admitted_as_it_is() -> None:
    assert isinstance(GATE.decide(CANDIDATE, FACTS, RULESET), Admit)
    assert not GATE.observing


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("candidate_id", CandidateId("1" * 32)),
        ("principal_id", PrincipalId("mallory")),
        ("tenant", Tenant("other")),
        ("target", "elsewhere"),
    ],
)
def test_an_intercept_record_of_anything_else_is_refused_by_step_7(
    field: str, value: object
) -> None:
    assert FACTS.intercept is not None
    record = msgspec.structs.replace(FACTS.intercept, **{field: value})
    assert record != FACTS.intercept
    verdict = GATE.decide(CANDIDATE, msgspec.structs.replace(FACTS, intercept=record), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.step, verdict.reason) == (7, Reason.AUDIT_MISMATCH)


def test_a_candidate_over_its_budget_is_refused_by_step_9() -> None:
    most = RULESET.budgets.writes_per_window_max
    full = BudgetState(writes_in_window_count=most, text_bytes=0, metadata_bytes=0)
    verdict = GATE.decide(CANDIDATE, msgspec.structs.replace(FACTS, budget=full), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.step, verdict.reason) == (9, Reason.RATE_LIMITED)
    room = msgspec.structs.replace(full, writes_in_window_count=most - 1)
    assert isinstance(
        GATE.decide(CANDIDATE, msgspec.structs.replace(FACTS, budget=room), RULESET), Admit
    )


def test_a_latched_principal_or_origin_is_held_by_step_10() -> None:
    latched = TrustState(latched_at_ms=0)
    for whose in ("trust", "origin_trust"):
        verdict = GATE.decide(
            CANDIDATE, msgspec.structs.replace(FACTS, **{whose: latched}), RULESET
        )
        assert isinstance(verdict, Hold)
        assert (verdict.step, verdict.reason) == (10, Reason.TRUST_LATCHED)


def test_a_latch_is_told_before_a_bad_score_and_after_what_the_ladder_refuses() -> None:
    latched = TrustState(latched_at_ms=0, bad=1_000.0)
    verdict = GATE.decide(CANDIDATE, msgspec.structs.replace(FACTS, trust=latched), RULESET)
    assert isinstance(verdict, Hold)
    assert verdict.reason is Reason.TRUST_LATCHED
    fallen = msgspec.structs.replace(latched, level=TrustLevel.UNTRUSTED)
    refused = GATE.decide(CANDIDATE, msgspec.structs.replace(FACTS, trust=fallen), RULESET)
    assert isinstance(refused, Reject)
    assert (refused.step, refused.reason) == (3, Reason.TRUST_INSUFFICIENT)


NEEDS = {
    7: ("intercept",),
    4: ("intercept", "staged_digest"),
    5: ("nonce",),
    1: ("provenance", "reading"),
    6: ("provenance", "reading", "token"),
    2: ("provenance", "reading"),
    3: ("trust", "reading"),
    8: ("reading",),
    9: ("budget",),
    10: ("trust", "reading"),
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_without_a_fact_it_needs_objects_whatever_stood_before_it(step: Step) -> None:
    """Through the gate an earlier step speaks first; each one is a wall of its own."""
    assert finding_of(step.check, CANDIDATE, FACTS, RULESET) is None
    for fact in NEEDS[step.number]:
        missing = msgspec.structs.replace(FACTS, **{fact: None})
        finding = finding_of(step.check, CANDIDATE, missing, RULESET)
        assert finding is not None, fact
        assert not finding.holds, fact


def test_a_shadow_that_could_not_be_asked_is_no_consent() -> None:
    candidate, facts = case_of(Labels(memory_class=MemoryClass.L2, source=SourceKind.USER_INPUT))
    (shadowed,) = [step for step in STEPS if step.number == 8]
    assert finding_of(shadowed.check, candidate, facts, RULESET) is None
    missing = msgspec.structs.replace(facts, shadow=None)
    assert finding_of(shadowed.check, candidate, missing, RULESET) is not None


def test_a_pair_that_the_matrix_holds_waits_for_a_person() -> None:
    row = {**RULESET.matrix[SourceKind.UNKNOWN], MemoryClass.L3: Cell.HOLD}
    rules = msgspec.structs.replace(RULESET, matrix={**RULESET.matrix, SourceKind.UNKNOWN: row})
    verdict = GATE.decide(CANDIDATE, FACTS, rules)
    assert isinstance(verdict, Hold)
    assert (verdict.step, verdict.reason) == (1, Reason.SOURCE_CLASS_FORBIDDEN)
