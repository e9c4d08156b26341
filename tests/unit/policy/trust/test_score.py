"""Outcomes and the score: a row of good ones buys no row of bad ones; the ladder goes down."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.trust.score import (
    GOOD_PER_DAY_MAX,
    NEWCOMER,
    PROBATION_MS,
    PROBATION_OUTCOMES,
    RATE_OUTCOMES_MIN,
    RULES,
    SOFT_SCORING,
    OutcomeKind,
    SoftScoring,
    TrustLevel,
    TrustState,
    after_outcome,
    after_violation,
    counts_again,
    has_room,
    restored,
    soft_score,
)

GOOD = RULES[OutcomeKind.RELEASE_STOOD]
BAD = RULES[OutcomeKind.DENIED_BY_PERSON]
HALF = RULES[OutcomeKind.CONTRADICTED_ANCHOR]
HOUR = 3_600_000
NO_FORGETTING = SoftScoring(forgetting=1.0, bad_weight=1.0)

# Most trusted first.
RUNGS = [*TrustLevel]


def fed(state: TrustState, *, good: int = 0, bad: int = 0, at_ms: int = 0) -> TrustState:
    """The state after so many good outcomes, then so many bad ones, two hours apart."""
    for number in range(good + bad):
        rule = GOOD if number < good else BAD
        state = after_outcome(state, rule, at_ms + number * 2 * HOUR)
    return state


def bad_until_latched(good: int) -> int:
    state, count = fed(NEWCOMER, good=good), 0
    while not state.latched:
        state, count = fed(state, bad=1), count + 1
    return count


@given(st.lists(st.sampled_from(("violation", *OutcomeKind)), max_size=40))
def test_the_ladder_never_rises_whatever_happens(events: list[str | OutcomeKind]) -> None:
    state = NEWCOMER
    for event in events:
        after = (
            after_violation(state)
            if isinstance(event, str)
            else after_outcome(state, RULES[event], 0)
        )
        assert RUNGS.index(after.level) >= RUNGS.index(state.level)
        assert after.violations_count >= state.violations_count
        assert 0 < soft_score(after) < 1
        state = after


def test_outcomes_move_the_score_and_never_the_ladder() -> None:
    state = fed(after_violation(NEWCOMER), good=1_000)
    assert soft_score(state) > 0.9
    assert state.level is TrustLevel.DEGRADED


@pytest.mark.parametrize(("threshold", "bad"), [(0.5, 4), (0.4, 6), (0.3, 8)])
def test_a_sleeper_falls_below_a_threshold_within_as_many_bad_outcomes(
    threshold: float, bad: int
) -> None:
    state, count = fed(NEWCOMER, good=500), 0
    while soft_score(state) >= threshold:
        state, count = after_outcome(state, BAD, 0), count + 1
    assert count == bad
    # Without forgetting it would take hundreds.
    hoarded = NEWCOMER
    for _ in range(500):
        hoarded = after_outcome(hoarded, GOOD, 0, NO_FORGETTING)
    for _ in range(100):
        hoarded = after_outcome(hoarded, BAD, 0, NO_FORGETTING)
    assert soft_score(hoarded) > threshold


@pytest.mark.parametrize("good", [0, 20, 100, 500, 5_000])
def test_a_sleeper_is_latched_by_the_sixth_whatever_it_banked(good: int) -> None:
    assert bad_until_latched(good) == 6
    assert not fed(fed(NEWCOMER, good=good), bad=5).latched


def test_half_an_outcome_adds_half_of_the_evidence() -> None:
    whole, half = after_outcome(NEWCOMER, BAD, 0), after_outcome(NEWCOMER, HALF, 0)
    assert half.cusum == pytest.approx(whole.cusum / 2)
    assert half.bad == pytest.approx(whole.bad / 2)


def test_a_latch_outlives_twenty_nine_good_outcomes_and_ends_with_the_thirtieth() -> None:
    latched = fed(NEWCOMER, bad=6)
    days = PROBATION_MS // (PROBATION_OUTCOMES - 1) + 1
    state = latched
    for number in range(PROBATION_OUTCOMES - 1):
        state = after_outcome(state, GOOD, number * days)
        assert state.latched
    assert state.probation_left == 1
    assert soft_score(state) > 0.5, "the score is back, and opens nothing"
    freed = after_outcome(state, GOOD, PROBATION_MS)
    assert not freed.latched
    assert (freed.cusum, freed.probation_left) == (0.0, 0)


def test_thirty_good_outcomes_in_a_day_are_no_probation() -> None:
    state = fed(NEWCOMER, bad=6)
    for number in range(60):
        state = after_outcome(state, GOOD, number)
    assert state.latched
    assert after_outcome(state, GOOD, PROBATION_MS).latched is False


def test_one_bad_outcome_begins_the_probation_again() -> None:
    state = fed(fed(NEWCOMER, bad=6), good=29)
    again = after_outcome(state, HALF, 0)
    assert (again.latched, again.probation_left) == (True, PROBATION_OUTCOMES)
    assert fed(again, good=29, at_ms=30 * PROBATION_MS).latched


def test_a_day_has_room_for_twenty_good_outcomes_and_any_number_of_bad_ones() -> None:
    state = NEWCOMER
    for _ in range(GOOD_PER_DAY_MAX):
        assert has_room(state, GOOD, HOUR)
        state = after_outcome(state, GOOD, HOUR)
    assert not has_room(state, GOOD, 2 * HOUR)
    assert has_room(state, BAD, 2 * HOUR)
    assert has_room(state, GOOD, 25 * HOUR)


def test_honest_agents_are_latched_seldom_and_an_on_off_attacker_is_not_above_one_in_nine() -> None:
    latched = 0
    for seed in range(20):
        draw, state = random.Random(seed), NEWCOMER  # noqa: S311 - a simulation
        for _ in range(1_000):
            state = after_outcome(state, BAD if draw.random() < 0.02 else GOOD, 0)
            latched += state.latched
    assert latched == 0
    on_off = NEWCOMER
    for number in range(2_000):
        on_off = after_outcome(on_off, GOOD if number % 8 else BAD, 0)
    assert on_off.latched


def test_only_restoring_leads_up_and_it_is_counted() -> None:
    fallen = fed(after_violation(after_violation(after_violation(NEWCOMER))), bad=6)
    assert (fallen.level, fallen.latched) == (TrustLevel.UNTRUSTED, True)
    assert restored(fallen) == TrustState(restores_count=1)
    assert restored(restored(fallen)).restores_count == 2


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
    prose = " ".join(section.split())
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert RULES.keys() == _NAMED.keys()
    assert len(rows) == len(RULES)
    for kind, rule in RULES.items():
        (row,) = (line for line in rows if line.startswith(f"| {_NAMED[kind]}"))
        assert f"| {'good' if rule.good else 'bad'} {rule.weight:g} |" in row
    bad = after_outcome(NEWCOMER, RULES[OutcomeKind.DENIED_BY_PERSON], 0)
    lower = after_outcome(bad, RULES[OutcomeKind.RELEASE_STOOD], 0).cusum
    said = f"adds {bad.bad:g} to `bad` and {bad.cusum:.2f} to the evidence"
    assert said in prose
    assert f"takes {bad.cusum - lower:.2f} from the evidence" in prose
    assert f"leaves {SOFT_SCORING.forgetting} of the sums" in prose
    assert RATE_OUTCOMES_MIN == 5.0
    assert "until five outcomes make a rate" in prose


def test_the_first_violation_degrades_and_the_third_makes_untrusted() -> None:
    levels: list[str] = []
    state = NEWCOMER
    for _ in range(5):
        levels.append(state.level.value)
        state = after_violation(state)
    assert levels == ["trusted", "degraded", "degraded", "untrusted", "untrusted"]
    assert state.violations_count == 5


@given(
    st.builds(TrustState, level=st.sampled_from(TrustLevel), violations_count=st.integers(0, 10**6))
)
def test_a_violation_never_lifts_any_state_there_could_be(state: TrustState) -> None:
    assert RUNGS.index(after_violation(state).level) >= RUNGS.index(state.level)
