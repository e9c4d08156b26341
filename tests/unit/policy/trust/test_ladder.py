"""The ladder only goes down, and the soft score forgets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.trust.ladder import (
    NEWCOMER,
    TrustLevel,
    TrustState,
    after_outcome,
    after_violation,
    restored,
    soft_score,
)


def test_the_first_violation_degrades_and_the_third_makes_untrusted() -> None:
    levels: list[str] = []
    state = NEWCOMER
    for _ in range(5):
        levels.append(state.level.value)
        state = after_violation(state)
    assert levels == ["trusted", "degraded", "degraded", "untrusted", "untrusted"]
    assert state.violations_count == 5


@given(st.lists(st.sampled_from(("violation", "good", "bad")), max_size=40))
def test_trust_never_rises_whatever_happens(events: list[str]) -> None:
    state = NEWCOMER
    for event in events:
        after = (
            after_violation(state)
            if event == "violation"
            else after_outcome(state, good=event == "good")
        )
        assert after.level.rung <= state.level.rung
        assert after.violations_count >= state.violations_count
        assert 0 < soft_score(after) < 1
        state = after


@given(
    st.builds(TrustState, level=st.sampled_from(TrustLevel), violations_count=st.integers(0, 10**6))
)
def test_a_violation_never_lifts_any_state_there_could_be(state: TrustState) -> None:
    assert after_violation(state).level.rung <= state.level.rung


def test_outcomes_move_the_score_and_never_the_ladder() -> None:
    state = after_violation(NEWCOMER)
    for _ in range(1000):
        state = after_outcome(state, good=True)
    assert soft_score(state) > 0.9
    assert state.level is TrustLevel.DEGRADED


def test_a_sleeper_with_five_thousand_good_writes_falls_below_the_threshold_within_eight() -> None:
    state = NEWCOMER
    for _ in range(5000):
        state = after_outcome(state, good=True)
    bad_count = 0
    while soft_score(state) >= 0.3:
        state = after_outcome(state, good=False)
        bad_count += 1
    assert 6 <= bad_count <= 8


def test_only_restoring_leads_up() -> None:
    fallen = after_violation(after_violation(after_violation(NEWCOMER)))
    assert fallen.level is TrustLevel.UNTRUSTED
    assert restored(fallen) == NEWCOMER
