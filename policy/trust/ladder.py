"""Trust of one principal: a ladder that only goes down, and a soft score beside it.

The ladder is fed by structural violations alone: what the principal's program must have done, and
no page can have its model do. The score is fed by outcomes; it throttles and holds, and never
unlocks anything the ladder has closed.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta


class TrustLevel(enum.Enum):
    """Rung of the ladder (MWP 3.4), most trusted first."""

    TRUSTED = "trusted"
    DEGRADED = "degraded"
    UNTRUSTED = "untrusted"

    @property
    def rung(self) -> int:
        """2 for `TRUSTED`, 1 for `DEGRADED`, 0 for `UNTRUSTED`; it can only go down."""
        return _RUNG[self]


_RUNG = {TrustLevel.TRUSTED: 2, TrustLevel.DEGRADED: 1, TrustLevel.UNTRUSTED: 0}


class TrustState(msgspec.Struct, frozen=True, kw_only=True):
    """One principal's standing. `good` and `bad` are discounted weights of outcomes."""

    level: TrustLevel = TrustLevel.TRUSTED
    violations_count: int = 0
    good: float = 0.0
    bad: float = 0.0


class SoftScoring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast outcomes are forgotten, and how much heavier a bad one weighs."""

    forgetting: Annotated[float, Meta(ge=0.0, le=1.0)]
    bad_weight: Annotated[float, Meta(ge=0.0, le=1_000.0)]


NEWCOMER = TrustState()
SOFT_SCORING = SoftScoring(forgetting=0.95, bad_weight=5.0)

# The whole ladder (MWP Table 6). Rows: the level before a violation. Columns: the number of
# violations including this one. Cells: the level afterwards. Counts beyond the last column stay in
# that column.
_TRANSITIONS: dict[TrustLevel, tuple[TrustLevel, TrustLevel, TrustLevel]] = {
    # columns: first, second, third and later violation
    TrustLevel.TRUSTED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED),
    TrustLevel.DEGRADED: (TrustLevel.DEGRADED, TrustLevel.DEGRADED, TrustLevel.UNTRUSTED),
    TrustLevel.UNTRUSTED: (TrustLevel.UNTRUSTED, TrustLevel.UNTRUSTED, TrustLevel.UNTRUSTED),
}


def after_violation(state: TrustState) -> TrustState:
    """The state after one structural violation; the level never rises.

    The caller must count each (nonce, digest) only once.
    """
    count = state.violations_count + 1
    column = min(count, 3) - 1
    return msgspec.structs.replace(
        state, level=_TRANSITIONS[state.level][column], violations_count=count
    )


def after_outcome(state: TrustState, good: bool, scoring: SoftScoring = SOFT_SCORING) -> TrustState:  # noqa: FBT001 - the outcome is this one bit
    """The state after an outcome: older ones are discounted, then this one is added."""
    keep = scoring.forgetting
    return msgspec.structs.replace(
        state,
        good=state.good * keep + (1.0 if good else 0.0),
        bad=state.bad * keep + (0.0 if good else scoring.bad_weight),
    )


def soft_score(state: TrustState) -> float:
    """Mean of the Beta distribution over good outcomes, in (0, 1); 0.5 for a newcomer."""
    return (1.0 + state.good) / (2.0 + state.good + state.bad)


def restored(_state: TrustState) -> TrustState:
    """The state after an operator restored trust: that of a newcomer. The only way up."""
    return NEWCOMER
