"""What says that an answer was wrong, and what each kind of it may set off."""

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
    """What feedback says of a reply, a recall or a memory."""

    WRONG = "wrong"
    IRRELEVANT = "irrelevant"
    GOOD = "good"


_BY_CHANNEL: Final = {
    Channel.OPERATOR: SignalKind.OPERATOR,
    Channel.USER: SignalKind.PERSON,
    Channel.AGENT: SignalKind.AGENT,
}
_OPENS: Final = frozenset(SignalKind) - {SignalKind.AGENT}
_CONVICTS: Final = frozenset({SignalKind.ANCHOR, SignalKind.CANARY})


def kind_of(channel: Channel) -> SignalKind:
    """The kind of what somebody on this channel says of an answer."""
    return _BY_CHANNEL[channel]


def opens_case(kind: SignalKind, grade: Grade) -> bool:
    """Whether such a signal sets off the search for a culprit.

    An agent's does not: an agent that a memory steers could have honest memories convicted. Only
    `wrong` does: the other two say something of one hit's rank.
    """
    return grade is Grade.WRONG and kind in _OPENS


def convicts_alone(kind: SignalKind) -> bool:
    """Whether the rule behind the signal names culprits without any replay.

    Registered rules do, memory by memory. What a person or an operator says of an answer names
    no memory, and a caller's judge answers for whole sets.
    """
    return kind in _CONVICTS
