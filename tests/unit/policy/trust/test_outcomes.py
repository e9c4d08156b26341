"""The closed list of outcomes: what each weighs, how often it counts, what never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.trust.ladder import NEWCOMER
from policy.trust.outcomes import (
    RULES,
    OutcomeKind,
    counts_again,
)
from policy.trust.score import RATE_OUTCOMES_MIN, SOFT_SCORING, after_outcome

ROOT = Path(__file__).resolve().parents[4]
DAY = 86_400_000


def test_every_kind_has_a_rule_and_only_one_is_good() -> None:
    assert set(RULES) == set(OutcomeKind)
    good = {kind for kind, rule in RULES.items() if rule.good}
    assert good == {OutcomeKind.RELEASE_STOOD}
    assert {rule.weight for rule in RULES.values()} == {0.5, 1.0}


@pytest.mark.parametrize("kind", OutcomeKind)
def test_an_outcome_about_one_subject_counts_once_or_once_a_day(kind: OutcomeKind) -> None:
    daily = kind in {OutcomeKind.CONTRADICTED_ANCHOR, OutcomeKind.SUSTAINED_BURST}
    assert counts_again(kind, None, 0)
    assert not counts_again(kind, DAY, 2 * DAY - 1)
    assert counts_again(kind, DAY, 2 * DAY) is daily


# Each outcome that counts, as docs/operations.md names it.
_NAMED = {
    OutcomeKind.RELEASE_STOOD: "a release stood for seven days",
    OutcomeKind.CONVICTED: "named as the cause of a wrong answer",
    OutcomeKind.DENIED_BY_PERSON: "denied by a person",
    OutcomeKind.STRUCTURAL_REFUSAL: "structural refusal",
    OutcomeKind.CONTRADICTED_ANCHOR: "contradicts an anchor",
    OutcomeKind.QUARANTINED_BY_HAND: "quarantined by hand",
    OutcomeKind.SUSTAINED_BURST: "ten rate windows in a row were full",
}


def test_the_page_about_trust_has_each_outcome_that_counts_and_its_weight() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition("\n## Trust\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert RULES.keys() == _NAMED.keys()
    assert len(rows) == len(RULES)
    for kind, rule in RULES.items():
        (row,) = (line for line in rows if line.startswith(f"| {_NAMED[kind]}"))
        assert f"| {'good' if rule.good else 'bad'} {rule.weight:g} |" in row
    bad = after_outcome(NEWCOMER, RULES[OutcomeKind.DENIED_BY_PERSON], 0)
    lower = after_outcome(bad, RULES[OutcomeKind.RELEASE_STOOD], 0).cusum
    said = f"adds {bad.bad:g} to `bad` and {bad.cusum:.2f} to the evidence"
    assert said in section
    assert f"takes {bad.cusum - lower:.2f} from the evidence" in section
    assert f"leaves {SOFT_SCORING.forgetting} of the sums" in section
    assert RATE_OUTCOMES_MIN == 5.0
    assert "until five outcomes make a rate" in section
