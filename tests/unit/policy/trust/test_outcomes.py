"""The closed list of outcomes: what each weighs, how often it counts, what never does."""

from __future__ import annotations

import pytest

from policy.model import PrincipalId, Tenant
from policy.trust.outcomes import (
    NOT_FED,
    RULES,
    OutcomeKind,
    Reported,
    counts_again,
    may_count,
)

DAY = 86_400_000
WRITER, OTHER = PrincipalId("writer"), PrincipalId("other")


def recalled(*by: PrincipalId) -> Reported:
    return Reported(
        kind=OutcomeKind.RECALLED_BY_OTHERS,
        principal_id=WRITER,
        tenant=Tenant("default"),
        subject="memory",
        recalled_by=by,
    )


def test_every_kind_has_a_rule_and_only_two_are_good() -> None:
    assert set(RULES) == set(OutcomeKind)
    good = {kind for kind, rule in RULES.items() if rule.good}
    assert good == {OutcomeKind.RELEASE_STOOD, OutcomeKind.RECALLED_BY_OTHERS}
    assert {rule.weight for rule in RULES.values()} == {0.5, 1.0}
    assert NOT_FED == ("recalled_by_others", "drift_alarm")


def test_recalls_of_three_sessions_of_others_count_and_own_ones_never() -> None:
    assert may_count(recalled(OTHER, OTHER, OTHER))
    assert not may_count(recalled(OTHER, OTHER, WRITER, WRITER))
    assert not may_count(recalled(*[WRITER] * 100))


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_outcome_about_one_subject_counts_once_or_once_a_day(kind: OutcomeKind) -> None:
    daily = kind in {OutcomeKind.CONTRADICTED_ANCHOR, OutcomeKind.SUSTAINED_BURST}
    assert counts_again(kind, None, 0)
    assert not counts_again(kind, DAY, 2 * DAY - 1)
    assert counts_again(kind, DAY, 2 * DAY) is daily
