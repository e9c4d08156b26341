"""Which agents the trust rules latch: sleepers, on-off attackers and honest agents.

Outcomes are given to `policy.trust.score` directly, as `trust_intake` does in a
running sidecar; there is no network and no store. Outcomes are two hours apart, so that no day is
full.
"""

from __future__ import annotations

from typing import Final

from policy.trust.score import (
    NEWCOMER,
    PROBATION_OUTCOMES,
    RULES,
    SOFT_SCORING,
    OutcomeKind,
    SoftScoring,
    TrustState,
    after_outcome,
    soft_score,
)
from tests.evaluate.book import Book
from tests.evaluate.figures import Figure, share
from tests.evaluate.tables import Tables

AGENTS: Final = 400
OUTCOMES: Final = 5_000
BANKED: Final = (20, 100, 500, 5_000)
"""Good outcomes before the first bad one."""
LATCHED_BY: Final = 6
ON_OFF_MIN: Final = 9
_HONEST_MAX: Final = {2: 0.5, 5: 10.0}
_GOOD: Final = RULES[OutcomeKind.RELEASE_STOOD]
_BAD: Final = RULES[OutcomeKind.DENIED_BY_PERSON]
_APART_MS: Final = 7_200_000
_HOARDING: Final = SoftScoring(forgetting=1.0, bad_weight=1.0)
_LOCKED_BELOW: Final = 0.3
_NEVER: Final = 100_000
_SLEEPER: Final = 500
PRINTED: Final = {"sleeper_score_before": 90.2, "sleeper_score_after_6_bad": 24.9}
"""What SuperLocalMemory's paper prints of its own sleeper, in percent of full trust."""


async def trust(book: Book) -> None:
    """Measure sleepers, agents that lie now and then, and honest agents."""
    found: dict[str, Figure] = {}
    for good in BANKED:
        found[f"latched_after_{good}"] = _exactly(_latched_by(good), "bad outcomes")
        locked = _exactly(_locked_by(good, SOFT_SCORING), "bad outcomes")
        found[f"score_below_0.3_after_{good}"] = locked
        hoarded = _exactly(_locked_by(good, _HOARDING), "bad outcomes")
        found[f"score_below_0.3_after_{good}_without_forgetting"] = hoarded
    before = _banked(_SLEEPER)
    after = before
    for _ in range(LATCHED_BY):
        after = after_outcome(after, _BAD, 0)
    found["sleeper_score_before"] = _exactly(100 * soft_score(before), "%")
    found["sleeper_score_after_6_bad"] = _exactly(100 * soft_score(after), "%")
    found["still_latched_29_good_later"] = share(_latched_after_29(), len(BANKED))
    found["good_until_score_is_back"] = _exactly(_back_after(), "good outcomes")
    found["on_off"] = _exactly(_least_period(), "outcomes for one bad")
    for percent in (1, 2, 5):
        found[f"honest_{percent}_percent_latched"] = _honest(book, percent)
    _judge(book, found)
    book.found(Tables(trust=found))


def _judge(book: Book, found: dict[str, Figure]) -> None:
    for good in BANKED:
        by = found[f"latched_after_{good}"].value
        book.holds(
            f"trust: a sleeper of {good} good outcomes is latched by the sixth bad one",
            held=by is not None and by <= LATCHED_BY,
            detail=f"latched by number {by}",
        )
    later = found["still_latched_29_good_later"]
    book.promise("trust: latched still, 29 good outcomes later", later, 100.0)
    period = found["on_off"].value
    book.holds(
        "trust: nobody lies more often than once in nine outcomes for long",
        held=period is not None and period >= ON_OFF_MIN,
        detail=f"one in {period}",
    )
    for percent, most in _HONEST_MAX.items():
        cell = found[f"honest_{percent}_percent_latched"]
        book.holds(
            f"trust: of honest agents with {percent} % errors at most {most} % are latched",
            # Random draws differ by seed, so a promise counts as broken only if the whole interval
            # misses the bar.
            held=cell.low is not None and cell.low <= most,
            detail=f"{cell.value} % within {OUTCOMES} outcomes",
        )
    hoarded = found["score_below_0.3_after_500_without_forgetting"].value
    book.control(
        "trust: without forgetting a sleeper banks hundreds of lies",
        fired=hoarded is not None and hoarded > _SLEEPER,
        detail=f"{hoarded} bad outcomes after 500 good ones",
    )
    back = found["good_until_score_is_back"].value
    book.control(
        "trust: a score without a latch is back after one good outcome",
        fired=back == 1,
        detail=f"{back} good outcomes",
    )


def _exactly(count: float, unit: str) -> Figure:
    """A figure for a count that involves no random draws, and so is the same each time."""
    value = round(count, 3)
    return Figure(value=value, n=1, low=value, high=value, unit=unit)


def _banked(good: int, scoring: SoftScoring = SOFT_SCORING) -> TrustState:
    state = NEWCOMER
    for number in range(good):
        state = after_outcome(state, _GOOD, number * _APART_MS, scoring)
    return state


def _latched_by(good: int) -> int:
    state, count = _banked(good), 0
    while not state.latched and count < _NEVER:
        count += 1
        state = after_outcome(state, _BAD, (good + count) * _APART_MS)
    return count


def _locked_by(good: int, scoring: SoftScoring) -> int:
    state, count = _banked(good, scoring), 0
    while soft_score(state) >= _LOCKED_BELOW and count < _NEVER:
        count += 1
        state = after_outcome(state, _BAD, (good + count) * _APART_MS, scoring)
    return count


def _latched_after_29() -> int:
    """How many sleepers are still latched one good outcome before their probation ends."""
    latched = 0
    for good in BANKED:
        state, at_ms = _banked(good), good * _APART_MS
        for _ in range(_latched_by(good)):
            state = after_outcome(state, _BAD, at_ms)
        for number in range(PROBATION_OUTCOMES - 1):
            state = after_outcome(state, _GOOD, at_ms + number * 12 * _APART_MS)
        latched += state.latched
    return latched


def _back_after() -> int:
    """The number of good outcomes that bring a fallen score back, where only the score decides."""
    state, count = _banked(500), 0
    while soft_score(state) >= _LOCKED_BELOW:
        state = after_outcome(state, _BAD, 0)
    while soft_score(state) < _LOCKED_BELOW:
        state, count = after_outcome(state, _GOOD, 0), count + 1
    return count


def _least_period() -> int:
    """The smallest run of outcomes of which one may be bad without the agent being latched."""
    for period in range(2, 60):
        state = _banked(200)
        for number in range(OUTCOMES):
            state = after_outcome(state, _GOOD if number % period else _BAD, number * _APART_MS)
            if state.latched:
                break
        else:
            return period
    return _NEVER


def _honest(book: Book, percent: int) -> Figure:
    draws = book.draws(f"trust/honest/{percent}")
    draw = book.progress(f"trust: honest agents, {percent} % errors")
    latched = 0
    for number in range(AGENTS):
        state = NEWCOMER
        for outcome in range(OUTCOMES):
            rule = _BAD if draws.random() < percent / 100 else _GOOD
            state = after_outcome(state, rule, outcome * _APART_MS)
            if state.latched:
                latched += 1
                break
        draw(number + 1, AGENTS)
    return share(latched, AGENTS)
