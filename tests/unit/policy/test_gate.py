"""Default deny: what is missing, empty or broken is refused; only the gate makes permits."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import msgspec
import pytest

from policy.checks import STEPS, Aim, Finding, Step
from policy.facts import BudgetState, Facts, NonceState, TokenState
from policy.gate import GATE, Gate
from policy.model import Basis, Candidate, CandidateId, MemoryClass, PrincipalId, SourceKind, Tenant
from policy.trust.score import TrustLevel, TrustState
from policy.verdict import Admit, Hold, InvariantBroken, Permit, Reason, Reject
from tests.evaluate.unsafe import unsafe_gate_without
from tests.property.gate_cases import (
    CANDIDATE_ID,
    OTHER_DIGEST,
    READINGS,
    RULESET,
    Labels,
    case_of,
    finding_of,
)

# A write at L1 by an operator: it needs every fact there is, and lands when all are there.
FULL = Labels(
    source=SourceKind.OPERATOR, basis=Basis.CHANNEL, memory_class=MemoryClass.L1, class_named=True
)


def test_an_operator_policy_with_every_fact_lands() -> None:
    candidate, facts = case_of(FULL)
    verdict = GATE.decide(candidate, facts, RULESET)
    assert isinstance(verdict, Admit)
    permit = verdict.permit
    assert permit.passed == GATE.required == frozenset(range(1, 11))
    assert (permit.candidate_id, permit.digest) == (CANDIDATE_ID, facts.staged_digest)
    assert (permit.epoch, permit.memory_class) == (RULESET.epoch, MemoryClass.L1)
    assert permit.source is SourceKind.OPERATOR


@pytest.mark.parametrize(
    ("fact", "reason", "step"),
    [
        ("staged_digest", Reason.GATE_UNAVAILABLE, 4),
        ("intercept", Reason.NOT_INTERCEPTED, 7),
        ("provenance", Reason.GATE_UNAVAILABLE, 1),
        ("reading", Reason.GATE_UNAVAILABLE, 1),
        ("trust", Reason.GATE_UNAVAILABLE, 10),
        ("nonce", Reason.GATE_UNAVAILABLE, 5),
        ("token", Reason.GATE_UNAVAILABLE, 6),
        ("shadow", Reason.GATE_UNAVAILABLE, 8),
        ("budget", Reason.GATE_UNAVAILABLE, 9),
    ],
)
def test_each_missing_fact_rejects(fact: str, reason: Reason, step: int) -> None:
    candidate, facts = case_of(FULL)
    verdict = GATE.decide(candidate, msgspec.structs.replace(facts, **{fact: None}), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.reason, verdict.step, verdict.structural) == (reason, step, False)


def test_an_empty_ruleset_rejects() -> None:
    candidate, facts = case_of(FULL)
    verdict = GATE.decide(candidate, facts, msgspec.structs.replace(RULESET, matrix={}))
    assert verdict == Reject(reason=Reason.GATE_UNAVAILABLE, step=0, memory_class=MemoryClass.L1)


def test_a_pair_the_ruleset_does_not_name_is_refused() -> None:
    candidate, facts = case_of(FULL)
    silent = msgspec.structs.replace(RULESET, matrix={SourceKind.USER_INPUT: {}})
    verdict = GATE.decide(candidate, facts, silent)
    assert isinstance(verdict, Reject)
    assert verdict.reason is Reason.SOURCE_CLASS_FORBIDDEN


def test_a_gate_without_steps_rejects() -> None:
    candidate, facts = case_of(FULL)
    for gate in (Gate(()), unsafe_gate_without(GATE.required)):
        verdict = gate.decide(candidate, facts, RULESET)
        assert isinstance(verdict, Reject)
        assert (verdict.reason, verdict.step) == (Reason.GATE_UNAVAILABLE, 0)


class SilentlyBrokenError(Exception):
    """What a step with a fault in it might raise."""


def broken(_candidate: Candidate, _facts: Facts, _aim: Aim) -> Finding:
    raise SilentlyBrokenError


def test_a_step_that_raises_is_a_step_that_refused() -> None:
    candidate, facts = case_of(FULL)
    for at in range(len(STEPS)):
        steps = (*STEPS[:at], Step(number=STEPS[at].number, name="broken", check=broken))
        verdict = Gate((*steps, *STEPS[at + 1 :])).decide(candidate, facts, RULESET)
        assert isinstance(verdict, Reject)
        assert (verdict.reason, verdict.step) == (Reason.GATE_UNAVAILABLE, STEPS[at].number)


def test_a_step_that_answers_nonsense_admits_nothing() -> None:
    candidate, facts = case_of(FULL)

    def nonsense(_candidate: Candidate, _facts: Facts, _aim: Aim) -> Finding:
        return True  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    gate = Gate((*STEPS, Step(number=11, name="nonsense", check=nonsense)))
    verdict = gate.decide(candidate, facts, RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.reason is Reason.GATE_UNAVAILABLE


def test_every_step_has_its_number_once_and_integrity_comes_first() -> None:
    numbers = [step.number for step in STEPS]
    assert sorted(numbers) == list(range(1, 11))
    assert numbers[:3] == [7, 4, 5]


def test_a_later_reject_wins_over_an_earlier_hold_and_the_first_hold_is_told() -> None:
    held = Labels(instructions=True)
    candidate, facts = case_of(held)
    latched = msgspec.structs.replace(facts, trust=TrustState(latched_at_ms=0))
    verdict = GATE.decide(candidate, latched, RULESET)
    assert isinstance(verdict, Hold)
    assert (verdict.reason, verdict.step) == (Reason.INSTRUCTION_PLACE, 1)
    assert verdict.passed == (7, 4, 5, 6, 2, 3, 8, 9), "10 would hold as well"
    refused = GATE.decide(*case_of(held._replace(trust=TrustLevel.UNTRUSTED)), RULESET)
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.TRUST_INSUFFICIENT


def test_a_confirmation_passes_what_was_held_and_nothing_that_was_refused() -> None:
    held = Labels(instructions=True, nonce=NonceState.OWN, approval="same")
    verdict = GATE.decide(*case_of(held), RULESET)
    assert isinstance(verdict, Admit)
    label = verdict.permit.source, verdict.permit.basis
    assert label == (SourceKind.USER_INPUT, Basis.CONFIRMATION)
    named = held._replace(memory_class=MemoryClass.L1, class_named=True)
    refused = GATE.decide(*case_of(named), RULESET)
    assert isinstance(refused, Reject)


def test_a_confirmation_of_other_bytes_counts_for_nothing() -> None:
    held = Labels(instructions=True, approval="other")
    assert isinstance(GATE.decide(*case_of(held), RULESET), Hold)
    again = held._replace(nonce=NonceState.OWN)
    verdict = GATE.decide(*case_of(again), RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.reason is Reason.NONCE_REPLAYED


@pytest.mark.parametrize(
    ("attack", "labels", "step"),
    [
        (
            "A1 source-class",
            Labels(
                source=SourceKind.TOOL_RESULT,
                basis=Basis.VOUCHED,
                memory_class=MemoryClass.L1,
                class_named=True,
            ),
            1,
        ),
        (
            "A2 laundering",
            Labels(
                source=SourceKind.MODEL_INFERENCE,
                basis=Basis.VOUCHED,
                memory_class=MemoryClass.L1,
                class_named=True,
            ),
            1,
        ),
        (
            "A3 promotion",
            Labels(source=SourceKind.USER_INPUT, basis=Basis.VOUCHED, memory_class=MemoryClass.L1),
            6,
        ),
        ("A3 forged token", Labels(token=TokenState.INVALID), 6),
        ("A4 replay", Labels(nonce=NonceState.SPENT), 5),
        ("A5 tampering", Labels(digest="other"), 4),
    ],
)
def test_each_attack_is_refused_by_its_step_and_lands_without_it(
    attack: str, labels: Labels, step: int
) -> None:
    candidate, facts = case_of(labels)
    verdict = GATE.decide(candidate, facts, RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.step == step
    without = unsafe_gate_without(frozenset({step}))
    assert isinstance(without.decide(candidate, facts, RULESET), Admit), attack


def test_flagged_language_in_a_checked_pair_is_refused_by_step_2() -> None:
    floored = unsafe_gate_without(frozenset({1}))
    open_l1 = {source: dict(row) for source, row in RULESET.matrix.items()}
    open_l1[SourceKind.UNKNOWN][MemoryClass.L1] = RULESET.matrix[SourceKind.UNKNOWN][MemoryClass.L3]
    ruleset = msgspec.structs.replace(RULESET, matrix=open_l1)
    reasons: list[Reason | None] = []
    for reading in READINGS[:3]:
        for gate in (GATE, floored):
            verdict = gate.decide(*case_of(Labels(reading=reading)), ruleset)
            reasons.append(None if isinstance(verdict, Admit) else verdict.reason)
    assert reasons == [
        None,
        None,
        Reason.DIRECTIVE_LANGUAGE,
        Reason.DIRECTIVE_LANGUAGE,
        Reason.INJECTION_LANGUAGE,
        Reason.INJECTION_LANGUAGE,
    ]


def test_the_gate_judges_the_bytes_it_was_given_not_those_it_was_told_of() -> None:
    candidate, facts = case_of(FULL)
    other = msgspec.structs.replace(candidate, text="another text")
    verdict = GATE.decide(other, facts, RULESET)
    assert isinstance(verdict, Reject)
    assert verdict.reason is Reason.DIGEST_MISMATCH
    assert verdict.structural


def test_a_mismatch_in_staging_does_not_charge_the_person_whose_name_was_put_there() -> None:
    verdict = GATE.decide(*case_of(FULL._replace(intercept="other person")), RULESET)
    assert isinstance(verdict, Reject)
    assert (verdict.reason, verdict.structural) == (Reason.AUDIT_MISMATCH, False)


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


ROOT = Path(__file__).resolve().parents[3]


def test_only_the_gate_makes_permits() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for package in ("policy", "storage", "telemetry", "proxy")
        for path in (ROOT / package).rglob("*.py")
        if "_SEAL" in (text := path.read_text()) and "_SEAL" in _names(ast.parse(text))
    }
    assert users == {"policy/verdict.py", "policy/gate.py"}


def _names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_a_permit_is_neither_forged_nor_copied_nor_spent_twice() -> None:
    verdict = GATE.decide(*case_of(Labels()), RULESET)
    assert isinstance(verdict, Admit)
    with pytest.raises(InvariantBroken):
        Permit(
            object(),
            candidate_id=CANDIDATE_ID,
            digest=OTHER_DIGEST,
            epoch=0,
            memory_class=MemoryClass.L1,
            source=SourceKind.OPERATOR,
            basis=Basis.CHANNEL,
            passed=frozenset(),
        )
    with pytest.raises(InvariantBroken):
        copy.copy(verdict.permit)
    with pytest.raises(InvariantBroken):
        copy.deepcopy(verdict.permit)
    with pytest.raises(InvariantBroken):
        pickle.dumps(verdict.permit)
    verdict.permit.spend()
    with pytest.raises(InvariantBroken):
        verdict.permit.spend()


def test_a_permit_cannot_be_subclassed() -> None:
    with pytest.raises(InvariantBroken):
        type("Forged", (Permit,), {})


# What need not be there: none of these can admit a candidate by being left out.
OPTIONAL = {"stored", "lineage", "approval", "guarded"}


@pytest.mark.parametrize("name", sorted(set(Facts.__struct_fields__) - OPTIONAL))
def test_no_fact_that_a_step_needs_has_a_default(name: str) -> None:
    _, facts = case_of(Labels())
    values = {field: getattr(facts, field) for field in Facts.__struct_fields__ if field != name}
    with pytest.raises(TypeError):
        Facts(**values)
