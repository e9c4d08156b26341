"""The ladder only goes down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.trust.ladder import NEWCOMER, TrustLevel, TrustState, after_violation


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
    assert after_violation(state).level.rung <= state.level.rung
