"""Each step decides through the gate: a step that is there and asked in vain would be none."""

from __future__ import annotations

import msgspec
import pytest

from policy.facts import BudgetState
from policy.gate import GATE
from policy.model import CandidateId, PrincipalId, Tenant
from policy.verdict import Admit, Hold, Reason, Reject
from tests.property.gate_cases import RULESET, Labels, case_of

CANDIDATE, FACTS = case_of(Labels())


def test_control_the_case_is_admitted_as_it_is() -> None:
    assert isinstance(GATE.decide(CANDIDATE, FACTS, RULESET), Admit)


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


def test_a_candidate_in_a_cell_under_alarm_is_held_by_step_10() -> None:
    alarmed = msgspec.structs.replace(FACTS, drift_alarms=("unknown x L3",))
    verdict = GATE.decide(CANDIDATE, alarmed, RULESET)
    assert isinstance(verdict, Hold)
    assert (verdict.step, verdict.reason) == (10, Reason.DRIFT_ALARM)
