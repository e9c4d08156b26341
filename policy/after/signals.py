"""Signals that an answer was wrong, and what each kind of signal may start."""

from __future__ import annotations

import enum
from typing import Final

from policy.model import Channel


class SignalKind(enum.Enum):
    """Where a signal came from. Stable words: they are stored, counted and shown."""

    OPERATOR = "operator"
    PERSON = "person"
    AGENT = "agent"
    ANCHOR = "anchor"
    CANARY = "canary"
    JUDGE = "judge"


class Grade(enum.Enum):
    """What a feedback says about a reply, a recall or a memory."""

    WRONG = "wrong"
    IRRELEVANT = "irrelevant"
    GOOD = "good"


_BY_CHANNEL: Final = {
    Channel.OPERATOR: SignalKind.OPERATOR,
    Channel.USER: SignalKind.PERSON,
    Channel.AGENT: SignalKind.AGENT,
}
_OPENS: Final = frozenset(SignalKind) - {SignalKind.AGENT}


def kind_of(channel: Channel) -> SignalKind:
    """The kind of signal that feedback on this channel makes."""
    return _BY_CHANNEL[channel]


def opens_case(kind: SignalKind, grade: Grade) -> bool:
    """Whether a signal of this kind and grade starts the search for a culprit.

    An agent's signal does not: an agent that a memory steers could have honest memories blamed.
    Only the grade `wrong` does: the other two grades speak of one hit's rank in a search.
    """
    return grade is Grade.WRONG and kind in _OPENS
