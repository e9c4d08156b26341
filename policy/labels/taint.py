"""What the session ledger knows of one candidate: evidence about its label, never a claim.

The ledger sees which texts entered each session of an agent, and from which channel. It reports
them in a `Seen`; `policy.labels.derive` makes a label of it
(docs/architecture.md#where-a-label-comes-from).
"""

from __future__ import annotations

import enum

import msgspec

from policy.model import Origin, SourceKind


class LabelRule(enum.Enum):
    """What lowers the label of a text that a model wrote; the ruleset chooses per memory class."""

    __hash__ = object.__hash__

    TAINT = "taint"  # TAINT: the label falls to the lowest of everything in the session's context
    # CONTAINMENT: the label falls to the lowest of the segments that the text is contained in.
    CONTAINMENT = "containment"


class Joined(enum.Enum):
    """How the ledger knows which session a candidate belongs to."""

    __hash__ = object.__hash__

    # The session is found by the id of the tool call that wrote the candidate: its model made that
    # call.
    CALL = "call"
    # The session is found by the candidate's words, which a model of that session said.
    TEXT = "text"
    NONE = "none"  # The ledger found no session that the candidate belongs to.


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the session ledger saw of one candidate. The defaults mean that it saw nothing."""

    # Our own id of the session (32 hex digits), never a client's; None where no session was found.
    session: str | None = None
    joined: Joined = Joined.NONE
    # The lowest label of everything in the session's context. Without a session: the lowest of the
    # principal's live sessions; without any: unknown.
    taint: SourceKind = SourceKind.UNKNOWN
    # The texts of the session that contain the candidate's text, lowest label first.
    contained: tuple[Origin, ...] = ()
    # The texts of the session from which an edit of a known text takes new words; None where the
    # candidate is no such edit.
    brought: tuple[Origin, ...] | None = None
    # Whether the whole text of the candidate is what one turn of a person in that very session
    # makes her own words.
    endorsed: bool = False
    # Whether the operator vouches that people type the user turns of the session.
    by_person: bool = False
    # Whether everything that entered the session can still be searched: no restart, no text dropped
    # for lack of room. If not, `contained` proves nothing, and taint counts.
    whole: bool = False


NOTHING_SEEN = Seen()
"""What a ledger says that was asked about a principal it never saw, or that lost its memory."""
