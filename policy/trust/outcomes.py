"""The closed list of what may move trust, what each outcome weighs, and how often it may count.

What is not in it moves nothing: a hold for taint alone, one rate limit and a text that is too long
happen to honest agents. Nothing here is taken from a request; each outcome is said by the gate, by
a person, by time, or by an incident.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
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
    DRIFT_ALARM = "drift_alarm"
    SUSTAINED_BURST = "sustained_burst"


class Cap(enum.Enum):
    """How often one outcome about one subject counts for one principal or origin."""

    ONCE = "once"
    DAILY = "daily"


class OutcomeRule(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of outcome is worth. `fed`: something in this version reports it."""

    good: bool
    weight: float
    cap: Cap
    fed: bool
    said_by: str


def _bad(weight: float, said_by: str, *, cap: Cap = Cap.ONCE, fed: bool = True) -> OutcomeRule:
    return OutcomeRule(good=False, weight=weight, cap=cap, fed=fed, said_by=said_by)


def _good(said_by: str, *, fed: bool = True) -> OutcomeRule:
    return OutcomeRule(good=True, weight=1.0, cap=Cap.ONCE, fed=fed, said_by=said_by)


RULES: Final[dict[OutcomeKind, OutcomeRule]] = {
    OutcomeKind.RELEASE_STOOD: _good("a person and time"),
    OutcomeKind.RECALLED_BY_OTHERS: _good("time and the ledger", fed=False),
    OutcomeKind.CONVICTED: _bad(1.0, "an incident", fed=False),
    OutcomeKind.DENIED_BY_PERSON: _bad(1.0, "a person"),
    OutcomeKind.STRUCTURAL_REFUSAL: _bad(1.0, "the gate"),
    OutcomeKind.CONTRADICTED_ANCHOR: _bad(0.5, "the gate", cap=Cap.DAILY),
    OutcomeKind.QUARANTINED_BY_HAND: _bad(0.5, "an operator"),
    OutcomeKind.DRIFT_ALARM: _bad(0.5, "the drift alarm", fed=False),
    OutcomeKind.SUSTAINED_BURST: _bad(0.5, "the rate window", cap=Cap.DAILY),
}

NOT_FED: Final = tuple(kind.value for kind, rule in RULES.items() if not rule.fed)
"""Kinds that nothing in this version reports."""

STANDS_AFTER_MS: Final = 7 * 86_400_000
"""A release that nobody took back for so long was a good one."""
BURST_WINDOWS: Final = 10
"""A burst that fills as many rate windows in a row is no accident."""
_SESSIONS_MIN: Final = 3


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome, as it is handed to the intake.

    `subject` is what it is about, for the cap: a memory, an anchor, an incident. It is kept under a
    keyed hash alone. `server` and `tool` name the origin, where there is one, with names that may
    be logged. `recalled_by` are the principals of the sessions that recalled the memory, one for
    each session.
    """

    kind: OutcomeKind
    principal_id: PrincipalId
    tenant: Tenant
    subject: str = ""
    server: str | None = None
    tool: str | None = None
    recalled_by: tuple[PrincipalId, ...] = ()


def may_count(reported: Reported) -> bool:
    """Whether the outcome is one at all: what a principal recalls of its own says nothing of it.

    An agent that may raise its trust by reading its own memories banks for a later attack.
    """
    if reported.kind is not OutcomeKind.RECALLED_BY_OTHERS:
        return True
    others = [one for one in reported.recalled_by if one != reported.principal_id]
    return len(others) >= _SESSIONS_MIN


def counts_again(kind: OutcomeKind, last_ms: int | None, now_ms: int) -> bool:
    """Whether an outcome about a subject counts, where one about it counted at `last_ms`."""
    if last_ms is None:
        return True
    return RULES[kind].cap is Cap.DAILY and day_of(last_ms) != day_of(now_ms)


def day_of(at_ms: int) -> int:
    """The day of a time, counted from 1970 (UTC)."""
    return at_ms // 86_400_000
