"""The soft score and the latch of a principal: what outcomes make of trust.

Neither the score nor the latch ever permits anything.

The score forgets, so it says how a principal behaves now. The latch adds up evidence (CUSUM, Page
1954: the log-likelihood of one bad outcome in five against one in twenty), so a row of good
outcomes buys no row of bad ones. A latched principal is released by an operator, or by a probation.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.trust.ladder import NEWCOMER, TrustState
from policy.trust.outcomes import OutcomeRule, day_of


class SoftScoring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast outcomes are forgotten, and how much heavier a bad one weighs."""

    forgetting: Annotated[float, Meta(ge=0.0, le=1.0)]
    bad_weight: Annotated[float, Meta(ge=0.0, le=1_000.0)]


SOFT_SCORING: Final = SoftScoring(forgetting=0.95, bad_weight=5.0)
RATE_OUTCOMES_MIN: Final = 5.0
LATCH_AT: Final = 8.0
PROBATION_OUTCOMES: Final = 30
PROBATION_MS: Final = 7 * 86_400_000
GOOD_PER_DAY_MAX: Final = 20
_BAD_SHARE: Final = 0.20  # The assumed share of bad outcomes of a principal that has gone bad.
_HONEST_SHARE: Final = 0.05
_BAD_EVIDENCE: Final = math.log(_BAD_SHARE / _HONEST_SHARE)
_GOOD_EVIDENCE: Final = math.log((1 - _BAD_SHARE) / (1 - _HONEST_SHARE))


def has_room(state: TrustState, rule: OutcomeRule, at_ms: int) -> bool:
    """Whether one more good outcome may count today: many of them in one day must not buy trust."""
    if not rule.good or day_of(at_ms) != state.good_day:
        return True
    return state.good_today < GOOD_PER_DAY_MAX


def after_outcome(
    state: TrustState, rule: OutcomeRule, at_ms: int, scoring: SoftScoring = SOFT_SCORING
) -> TrustState:
    """The trust state after an outcome: older ones are discounted, then the new one is added."""
    keep, weight = scoring.forgetting, rule.weight
    evidence = _GOOD_EVIDENCE if rule.good else _BAD_EVIDENCE * weight
    today = state.good_today if day_of(at_ms) == state.good_day else 0
    after = msgspec.structs.replace(
        state,
        good=state.good * keep + (weight if rule.good else 0.0),
        bad=state.bad * keep + (0.0 if rule.good else weight * scoring.bad_weight),
        cusum=max(0.0, state.cusum + evidence),
        good_day=day_of(at_ms) if rule.good else state.good_day,
        good_today=today + 1 if rule.good else state.good_today,
    )
    return _on_probation(after, at_ms) if rule.good else _charged(after, at_ms)


def _charged(state: TrustState, at_ms: int) -> TrustState:
    """The trust after a bad outcome.

    A probation begins anew, and enough evidence closes the latch.
    """
    if state.latched:
        return msgspec.structs.replace(
            state, probation_left=PROBATION_OUTCOMES, probation_since_ms=None
        )
    if state.cusum < LATCH_AT:
        return state
    return msgspec.structs.replace(
        state, latched_at_ms=at_ms, probation_left=PROBATION_OUTCOMES, probation_since_ms=None
    )


def _on_probation(state: TrustState, at_ms: int) -> TrustState:
    """The trust after a good outcome.

    The last good outcome of a probation releases the latch.
    """
    if not state.latched:
        return state
    since_ms = at_ms if state.probation_since_ms is None else state.probation_since_ms
    left = max(0, state.probation_left - 1)
    if left == 0 and at_ms - since_ms >= PROBATION_MS:
        return msgspec.structs.replace(
            state, cusum=0.0, latched_at_ms=None, probation_left=0, probation_since_ms=None
        )
    return msgspec.structs.replace(state, probation_left=left, probation_since_ms=since_ms)


def soft_score(state: TrustState) -> float:
    """The soft score: the mean of the Beta distribution over outcomes, 0.5 for a newcomer."""
    return (1.0 + state.good) / (2.0 + state.good + state.bad)


def known_score(state: TrustState, scoring: SoftScoring = SOFT_SCORING) -> float:
    """The soft score that the gate goes by: a newcomer's, until enough outcomes make a rate.

    One or two denials say little of a principal of whom nothing else is known. If they held all
    that it writes, a page that provokes denials could stop an agent's memory.
    """
    bad_count = state.bad / scoring.bad_weight if scoring.bad_weight else 0.0
    return soft_score(state if state.good + bad_count >= RATE_OUTCOMES_MIN else NEWCOMER)


def restored(state: TrustState) -> TrustState:
    """The trust after an operator restored it: a newcomer's, with the count of restores kept."""
    return msgspec.structs.replace(NEWCOMER, restores_count=state.restores_count + 1)
