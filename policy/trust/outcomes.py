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
    RECALLED_BY_OTHERS = "recalled_by_others"
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
    """How much one kind of outcome weighs.

    `fed` says whether some part of this version reports such outcomes.
    """

    good: bool
    weight: float
    cap: Cap
    fed: bool
    said_by: str


def _bad(weight: float, said_by: str, *, cap: Cap = Cap.ONCE) -> OutcomeRule:
    return OutcomeRule(good=False, weight=weight, cap=cap, fed=True, said_by=said_by)


def _good(said_by: str, *, fed: bool = True) -> OutcomeRule:
    return OutcomeRule(good=True, weight=1.0, cap=Cap.ONCE, fed=fed, said_by=said_by)


RULES: Final[dict[OutcomeKind, OutcomeRule]] = {
    OutcomeKind.RELEASE_STOOD: _good("a person and time"),
    OutcomeKind.RECALLED_BY_OTHERS: _good("time and the ledger", fed=False),
    OutcomeKind.CONVICTED: _bad(1.0, "an incident"),
    OutcomeKind.DENIED_BY_PERSON: _bad(1.0, "a person"),
    OutcomeKind.STRUCTURAL_REFUSAL: _bad(1.0, "the gate"),
    OutcomeKind.CONTRADICTED_ANCHOR: _bad(0.5, "the gate", cap=Cap.DAILY),
    OutcomeKind.QUARANTINED_BY_HAND: _bad(0.5, "an operator"),
    OutcomeKind.SUSTAINED_BURST: _bad(0.5, "the rate window", cap=Cap.DAILY),
}

NOT_FED: Final = tuple(kind.value for kind, rule in RULES.items() if not rule.fed)
"""Kinds of outcome that nothing in this version reports."""

STANDS_AFTER_MS: Final = 7 * 86_400_000
"""A release that nobody takes back for so long counts as a good outcome."""
BURST_WINDOWS: Final = 10
"""A burst of writes counts as a bad outcome if it fills so many rate windows in a row."""
_SESSIONS_MIN: Final = 3


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome, as it is reported to the store.

    `subject` is the memory, anchor or incident that the outcome is about; the cap counts by it. It
    is kept only as a keyed hash. `server` and `tool` name the origin, where there is one; these
    names may be logged. `recalled_by` are the principals of the sessions that recalled the memory,
    one for each session.
    """

    kind: OutcomeKind
    principal_id: PrincipalId
    tenant: Tenant
    subject: str = ""
    server: str | None = None
    tool: str | None = None
    recalled_by: tuple[PrincipalId, ...] = ()


def may_count(reported: Reported) -> bool:
    """Whether the outcome may count: recalls count only by sessions of enough other principals.

    An agent that could raise its trust by reading its own memories would save it up for a later
    attack.
    """
    if reported.kind is not OutcomeKind.RECALLED_BY_OTHERS:
        return True
    others = [one for one in reported.recalled_by if one != reported.principal_id]
    return len(others) >= _SESSIONS_MIN


def counts_again(kind: OutcomeKind, last_ms: int | None, now_ms: int) -> bool:
    """Whether another outcome about a subject counts, if the one before counted at `last_ms`."""
    if last_ms is None:
        return True
    return RULES[kind].cap is Cap.DAILY and day_of(last_ms) != day_of(now_ms)


def day_of(at_ms: int) -> int:
    """The day that a time falls on, as a number of days since 1970 (UTC)."""
    return at_ms // 86_400_000
