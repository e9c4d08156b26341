"""The trust ladder of a principal, which only goes down, and all else that is known of its trust.

Only structural violations move a principal down: acts that its program must have done itself,
because no page can make a model do them. Only the ladder leads to refusals. Score and latch
(`policy.trust.score`) are fed by outcomes; they hold writes for a person, and never unlock anything
that the ladder has closed.
"""

from __future__ import annotations

import enum

import msgspec


class TrustLevel(enum.Enum):
    """Rung of the ladder (MWP 3.4), most trusted first."""

    TRUSTED = "trusted"
    DEGRADED = "degraded"
    UNTRUSTED = "untrusted"

    @property
    def rung(self) -> int:
        """The rung as a number: 2 for `TRUSTED`, 1 for `DEGRADED`, 0 for `UNTRUSTED`."""
        return _RUNG[self]


_RUNG = {TrustLevel.TRUSTED: 2, TrustLevel.DEGRADED: 1, TrustLevel.UNTRUSTED: 0}


class TrustScore(msgspec.Struct, frozen=True, kw_only=True):
    """Score and latch, of a principal or of an origin (a server's tool).

    `good` and `bad` are the weights of its good and bad outcomes, of which old ones count less.
    `cusum` is the sum of the evidence against it. While it is latched, `probation_left` is how many
    good outcomes in a row are still missing, in a probation that began at `probation_since_ms`.
    `good_today` outcomes counted on `good_day`. Times are Unix milliseconds.
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
