"""The closed list of what may move trust, what each outcome weighs, and how often it may count.

Events that are not on the list move nothing: a hold for a label, one rate limit and a text that is
too long happen to honest agents. Nothing here is taken from a request: the gate, a person, the
passing of time or an incident reports each outcome.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

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
"""A release that nobody takes back for so long counts as a good outcome."""
BURST_WINDOWS: Final = 10
"""A burst of writes counts as a bad outcome if it fills so many rate windows in a row."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome, as it is reported to the store.

    `subject` is the memory, anchor or incident that the outcome is about; the cap counts by it. It
    is kept only as a keyed hash. `server` and `tool` name the origin, where there is one; these
    names may be logged.
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
