"""Trust of a principal: the ladder that only goes down, and the soft score that outcomes move.

Only structural violations move a principal down the ladder: acts that its program must have done
itself, because no page can make a model do them. Only the ladder leads to refusals. Score and latch
hold writes for a person, and never permit anything.

The score forgets, so it measures how a principal behaves now. The latch adds up evidence (CUSUM,
Page 1954: the log-likelihood of one bad outcome in five against one in twenty), so good outcomes in
advance do not make up for bad ones later. An operator or a probation releases a latched principal.

The list of outcomes is closed: a hold for a label, one rate limit and a text that is too long
happen to honest agents, and move nothing. Nothing here is taken from a request: the gate, a person,
the passing of time or an incident reports each outcome.
"""

from __future__ import annotations

import enum
import math
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import PrincipalId, Tenant


class OutcomeKind(enum.Enum):
    """How something that a principal wrote turned out; values are stable."""

    RELEASE_STOOD = "release_stood"
    CONVICTED = "convicted"
    DENIED_BY_PERSON = "denied_by_person"
    STRUCTURAL_REFUSAL = "structural_refusal"
    CONTRADICTED_ANCHOR = "contradicted_anchor"
    QUARANTINED_BY_HAND = "quarantined_by_hand"
    SUSTAINED_BURST = "sustained_burst"


class Cap(enum.Enum):
    """How often one outcome about one subject counts for one principal or origin."""

    ONCE = "once"
    DAILY = "daily"


class OutcomeRule(msgspec.Struct, frozen=True, kw_only=True):
    """How much one kind of outcome weighs, and how often it may count."""

    good: bool = False
    weight: float
    cap: Cap = Cap.ONCE


RULES: Final[dict[OutcomeKind, OutcomeRule]] = {
    OutcomeKind.RELEASE_STOOD: OutcomeRule(good=True, weight=1.0),
    OutcomeKind.CONVICTED: OutcomeRule(weight=1.0),
    OutcomeKind.DENIED_BY_PERSON: OutcomeRule(weight=1.0),
    OutcomeKind.STRUCTURAL_REFUSAL: OutcomeRule(weight=1.0),
    OutcomeKind.CONTRADICTED_ANCHOR: OutcomeRule(weight=0.5, cap=Cap.DAILY),
    OutcomeKind.QUARANTINED_BY_HAND: OutcomeRule(weight=0.5),
    OutcomeKind.SUSTAINED_BURST: OutcomeRule(weight=0.5, cap=Cap.DAILY),
}

STANDS_AFTER_MS: Final = 7 * 86_400_000
"""A release that is not taken back for so long counts as a good outcome."""
BURST_WINDOWS: Final = 10
"""A burst of writes counts as a bad outcome if it fills so many rate windows in a row."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome, as it is reported to the store.

    `subject` is the memory, anchor or incident that the outcome is about; the cap limits how often
    one subject counts. The subject is stored only as a keyed hash. `server` and `tool` name the
    origin, where there is one; these names may be logged.
    """

    kind: OutcomeKind
    principal_id: PrincipalId
    tenant: Tenant
    subject: str = ""
    server: str | None = None
    tool: str | None = None


def counts_again(kind: OutcomeKind, last_ms: int | None, now_ms: int) -> bool:
    """Whether another outcome about a subject counts, if the one before counted at `last_ms`."""
    if last_ms is None:
        return True
    return RULES[kind].cap is Cap.DAILY and day_of(last_ms) != day_of(now_ms)


def day_of(at_ms: int) -> int:
    """The day that a time falls on, as a number of days since 1970 (UTC)."""
    return at_ms // 86_400_000


class TrustLevel(enum.Enum):
    """Rung of the ladder (MWP 3.4), most trusted first."""

    TRUSTED = "trusted"
    DEGRADED = "degraded"
    UNTRUSTED = "untrusted"


class TrustScore(msgspec.Struct, frozen=True, kw_only=True):
    """Score and latch, of a principal or of an origin (a server's tool).

    `good` and `bad` are the summed weights of good and bad outcomes, of which old ones count less.
    `cusum` is the sum of the evidence of bad outcomes. While the latch is closed, `probation_left`
    is how many good outcomes in a row are still missing, in a probation that began at
    `probation_since_ms`. `good_today` is how many good outcomes counted on the day `good_day`.
    Times are Unix milliseconds.
    """

    good: float = 0.0
    bad: float = 0.0
    cusum: float = 0.0
    latched_at_ms: int | None = None
    probation_left: int = 0
    probation_since_ms: int | None = None
    good_day: int = 0
    good_today: int = 0
    restores_count: int = 0

    @property
    def latched(self) -> bool:
        """Whether the principal's changes wait for a person and few of its memories are shown."""
        return self.latched_at_ms is not None


class TrustState(TrustScore, frozen=True, kw_only=True):
    """The trust in one principal, or in one origin, which has no ladder."""

    level: TrustLevel = TrustLevel.TRUSTED
    violations_count: int = 0


NEWCOMER = TrustState()

# The whole ladder (MWP Table 6). Rows: the level before a violation. Columns: the number of
# violations including this one. Cells: the level afterwards. Counts beyond the last column stay in
# that column.
_TRANSITIONS: dict[TrustLevel, tuple[TrustLevel, TrustLevel, TrustLevel]] = {
    # The columns are the first, second, third and any later violation.
    TrustLevel.TRUSTED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED),
    TrustLevel.DEGRADED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED),
    TrustLevel.UNTRUSTED: (TrustLevel.UNTRUSTED, TrustLevel.UNTRUSTED, TrustLevel.UNTRUSTED),
}


def after_violation(state: TrustState) -> TrustState:
    """The trust state after one structural violation; the level never rises.

    The caller must count each pair of nonce and digest only once.
    """
    count = state.violations_count + 1
    column = min(count, 3) - 1
    return msgspec.structs.replace(
        state, level=_TRANSITIONS[state.level][column], violations_count=count
    )


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
    """The soft score that the gate compares: a newcomer's, until there are enough outcomes.

    One or two denials prove little about a principal of whom nothing else is known. If they held
    all that it writes, a page that provokes denials could stop an agent's memory.
    """
    bad_count = state.bad / scoring.bad_weight if scoring.bad_weight else 0.0
    return soft_score(state if state.good + bad_count >= RATE_OUTCOMES_MIN else NEWCOMER)


def restored(state: TrustState) -> TrustState:
    """The trust after an operator restored it: a newcomer's, with the count of restores kept."""
    return msgspec.structs.replace(NEWCOMER, restores_count=state.restores_count + 1)
